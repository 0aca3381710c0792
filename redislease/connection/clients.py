"""The clients of a queue: opened from a URL, or the user's own; what was opened here is closed here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redislease.connection.embedded import EmbeddedServer
from redislease.connection.endpoint import (
    AsyncClient,
    Endpoint,
    SyncClient,
    endpoint_of_client,
    endpoint_of_socket,
    endpoint_of_url,
    where_of_client,
)
from redislease.connection.limits import DEFAULT_LIMITS, MIN_BLOCK_S, Limits
from redislease.connection.urls import default_url, parse_url
from redislease.errors import ConfigurationError


@dataclass(slots=True)
class Clients:
    """The sync clients of one queue.

    Attributes:
        client: For calls.
        blocking: For commands that wait on the server: its socket timeout is longer than `block_s`.
        where: The server as shown in messages.
        block_s: The longest block, in seconds, that `blocking` survives.
        endpoint: The server, if further clients can be opened to it.
    """

    client: SyncClient
    blocking: SyncClient
    where: str
    block_s: float
    endpoint: Endpoint | None
    limits: Limits = DEFAULT_LIMITS
    _closers: list[Callable[[], object]] = field(default_factory=list, repr=False)

    def heartbeat_client(self) -> SyncClient | None:
        """A new sync client on connections of its own, to be closed by the caller; None if there can be none."""
        return _heartbeat_client(self.endpoint, self.limits)

    def close(self) -> None:
        """Closes what was opened here; a second call does nothing."""
        while self._closers:
            self._closers.pop()()


@dataclass(slots=True)
class AsyncClients:
    """The async clients of one queue; the attributes are those of `Clients`."""

    client: AsyncClient
    blocking: AsyncClient
    where: str
    block_s: float
    endpoint: Endpoint | None
    limits: Limits = DEFAULT_LIMITS
    _closers: list[Callable[[], Any]] = field(default_factory=list, repr=False)

    def heartbeat_client(self) -> SyncClient | None:
        """A new sync client on connections of its own, to be closed by the caller; None if there can be none."""
        return _heartbeat_client(self.endpoint, self.limits)

    async def aclose(self) -> None:
        """Closes what was opened here; a second call does nothing."""
        while self._closers:
            closed = self._closers.pop()()
            if asyncio.iscoroutine(closed):
                await closed


def open_clients(
    url: str | None = None,
    *,
    client: SyncClient | AsyncClient | None = None,
    client_factory: Callable[[], SyncClient | AsyncClient] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Clients:
    """Opens or takes over the sync clients of a queue; nothing is sent yet (an embedded server is started).

    Args:
        url: A server URL; by default `REDISLEASE_URL`, else a local server.
        client: The user's client, which stays theirs. An async one serves to find the server.
        client_factory: Returns a new client at each call; those are ours.
        limits: For the clients that are opened here.

    Raises:
        ConfigurationError: More than one source was given, or the one given cannot work.
    """
    source = _Source.of(url, client, client_factory, limits)
    endpoint, closers = source.endpoint, source.closers
    if isinstance(source.client, SyncClient):
        calls = source.client
        if source.owned:
            closers.append(calls.close)
    elif endpoint:
        calls = endpoint.client(limits)
        closers.append(calls.close)
    else:
        raise ConfigurationError("this async client cannot serve a sync queue: give a sync client or a URL")
    blocking, block_s = calls, _block_within(calls)
    if endpoint:
        blocking, block_s = endpoint.client(limits, socket_timeout_s=limits.blocking_socket_timeout_s), limits.block_s
        closers.append(blocking.close)
    return Clients(calls, blocking, source.where, block_s, endpoint, limits, closers)


def open_async_clients(
    url: str | None = None,
    *,
    client: SyncClient | AsyncClient | None = None,
    client_factory: Callable[[], SyncClient | AsyncClient] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> AsyncClients:
    """As `open_clients`, for async clients.

    Raises:
        ConfigurationError: More than one source was given, or the one given cannot work.
    """
    source = _Source.of(url, client, client_factory, limits)
    endpoint = source.endpoint
    closers: list[Callable[[], Any]] = list(source.closers)
    if isinstance(source.client, AsyncClient):
        calls = source.client
        if source.owned:
            closers.append(calls.aclose)
    elif endpoint:
        calls = endpoint.async_client(limits)
        closers.append(calls.aclose)
    else:
        raise ConfigurationError("this sync client cannot serve an async queue: give an async client or a URL")
    blocking, block_s = calls, _block_within(calls)
    if endpoint:
        blocking = endpoint.async_client(limits, socket_timeout_s=limits.blocking_socket_timeout_s)
        block_s = limits.block_s
        closers.append(blocking.aclose)
    return AsyncClients(calls, blocking, source.where, block_s, endpoint, limits, closers)


@dataclass(slots=True)
class _Source:
    """Where the clients come from: an endpoint, somebody's client, or both."""

    where: str
    endpoint: Endpoint | None
    client: SyncClient | AsyncClient | None
    owned: bool
    closers: list[Callable[[], object]]

    @classmethod
    def of(
        cls,
        url: str | None,
        client: SyncClient | AsyncClient | None,
        factory: Callable[[], SyncClient | AsyncClient] | None,
        limits: Limits,
    ) -> _Source:
        if sum(given is not None for given in (url, client, factory)) > 1:
            raise ConfigurationError("give one of a URL, a client and a client_factory")
        if client is not None or factory is not None:
            made = client if client is not None else factory() if factory else None
            if not isinstance(made, SyncClient | AsyncClient):
                raise ConfigurationError(f"not a redis.Redis or redis.asyncio.Redis client: {type(made).__name__}")
            return cls(where_of_client(made), endpoint_of_client(made), made, factory is not None, [])
        parsed = parse_url(default_url() if url is None else url)
        if parsed.scheme == "embedded":
            server = EmbeddedServer.attach(parsed.target)
            endpoint = endpoint_of_socket(server.socket_path, parsed.redacted)
            return cls(parsed.redacted, endpoint, None, True, [server.close])
        return cls(parsed.redacted, endpoint_of_url(parsed), None, True, [])


def _heartbeat_client(endpoint: Endpoint | None, limits: Limits) -> SyncClient | None:
    return endpoint.client(limits) if endpoint else None


def _block_within(client: SyncClient | AsyncClient) -> float:
    """The longest block that a client's own socket timeout allows, in seconds.

    Servers end a block up to about 100 ms late.
    """
    timeout_s = socket_timeout_of(client)
    return DEFAULT_LIMITS.block_s if timeout_s is None else max(timeout_s - 0.5, MIN_BLOCK_S)


def socket_timeout_of(client: SyncClient | AsyncClient) -> float | None:
    """Seconds that a client waits for a reply; None means for ever."""
    options = client.connection_pool.connection_kwargs
    default = DEFAULT_LIMITS.socket_timeout_s
    timeout_s = options.get("socket_timeout", default)
    return None if timeout_s is None else float(timeout_s)
