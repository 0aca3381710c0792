"""One server as a place that sync and async clients can be opened to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import redis
from redis import connection as sync_connections
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import connection as async_connections
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from redislease.connection import memory
from redislease.connection.bounded import BOUNDED
from redislease.connection.limits import Limits
from redislease.connection.pool import PatientPool
from redislease.connection.urls import ServerURL

SyncClient = redis.Redis
AsyncClient = AsyncRedis

_TCP = (sync_connections.Connection, async_connections.Connection)
_TLS = (sync_connections.SSLConnection, async_connections.SSLConnection)
_UNIX = (sync_connections.UnixDomainSocketConnection, async_connections.UnixDomainSocketConnection)

_IDENTITY = ("db", "username", "password", "credential_provider", "client_name", "protocol")
_ADDRESS = ("host", "port", "path")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server is and as whom to talk to it; nothing about timeouts or pools.

    Attributes:
        where: The server as shown in messages, without passwords.
        classes: The sync and the async connection class.
        options: What either class is built with.
    """

    where: str
    classes: tuple[type[Any], type[Any]] = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)

    @property
    def is_program(self) -> bool:
        """Whether a server program is there, and not fakeredis."""
        return self.classes in (_TCP, _TLS, _UNIX)

    def client(self, limits: Limits, *, socket_timeout_s: float | None = None) -> SyncClient:
        """Opens a sync client that retries nothing and waits, bounded, for a free connection."""
        pool = sync_connections.BlockingConnectionPool(  # type: ignore[no-untyped-call]
            max_connections=limits.max_connections,
            timeout=limits.pool_wait_s,
            connection_class=BOUNDED.get(self.classes[0], self.classes[0]),
            retry=Retry(NoBackoff(), 0),
            **self._settings(limits, socket_timeout_s),
        )
        return redis.Redis.from_pool(pool)

    def async_client(self, limits: Limits, *, socket_timeout_s: float | None = None) -> AsyncClient:
        """Opens an async client that retries nothing and waits, bounded, for a free connection."""
        pool = PatientPool(
            wait_s=limits.pool_wait_s,
            max_connections=limits.max_connections,
            connection_class=self.classes[1],
            retry=AsyncRetry(NoBackoff(), 0),
            **self._settings(limits, socket_timeout_s),
        )
        return AsyncRedis.from_pool(pool)

    def _settings(self, limits: Limits, socket_timeout_s: float | None) -> dict[str, Any]:
        settings: dict[str, Any] = {
            # RESP2 asks for no HELLO and has no push messages; flat replies are the same in both.
            "protocol": 2,
            "decode_responses": False,
            "socket_timeout": socket_timeout_s or limits.socket_timeout_s,
            "socket_connect_timeout": limits.connect_timeout_s,
            "health_check_interval": limits.health_check_s,
            "driver_info": _driver(),
            # With notifications on, the pools no longer refuse a connection that has a reply left over.
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }
        if self.classes in (_TCP, _TLS):
            settings["socket_keepalive"] = True
        return settings | dict(self.options)


@cache
def _driver() -> DriverInfo:
    """Who we are; found out once, since each version is read from a file."""
    return DriverInfo().add_upstream_driver("redislease", _own_version())


def _own_version() -> str:
    try:
        return version("redislease")
    except PackageNotFoundError:
        return "0"


def endpoint_of_url(url: ServerURL) -> Endpoint:
    """The endpoint of a `redis://`, `rediss://`, `unix://` or `memory://` URL."""
    if url.scheme == "memory":
        return _memory_endpoint(url.redacted, {"server": memory.memory_server(url.target)})
    classes = {"redis": _TCP, "rediss": _TLS, "unix": _UNIX}[url.scheme]
    return Endpoint(url.redacted, classes, url.options)


def _memory_endpoint(where: str, options: Mapping[str, Any]) -> Endpoint:
    # fakeredis never notes a successful read, so that a PING would go in between the commands of every handshake.
    return Endpoint(where, memory.connection_classes(), {**options, "health_check_interval": 0})


def endpoint_of_socket(path: str, where: str) -> Endpoint:
    """The endpoint of a server on a unix socket."""
    return Endpoint(where, _UNIX, {"path": path})


def endpoint_of_client(client: SyncClient | AsyncClient) -> Endpoint | None:
    """The endpoint behind somebody's client, or None if it cannot be told (a connection class that we do not know)."""
    pool = client.connection_pool
    given: Mapping[str, Any] = pool.connection_kwargs
    kind = pool.connection_class
    where = _where(given)
    if given.get("redis_connect_func"):
        return None
    for classes in (_TCP, _TLS, _UNIX):
        if kind in (*classes, BOUNDED[classes[0]]):
            names = [*_IDENTITY, *_ADDRESS, *(name for name in given if name.startswith("ssl_"))]
            options = {name: given[name] for name in names if given.get(name) is not None}
            return Endpoint(where, classes, options)
    if kind.__module__.partition(".")[0] == "fakeredis":
        # Of a client without an explicit server, the connections know which one they share.
        sample: Any = kind(**given)
        options = {name: given[name] for name in ("db", "version", "server_type") if name in given}
        return _memory_endpoint("memory://", options | {"server": sample._server})
    return None


def where_of_client(client: SyncClient | AsyncClient) -> str:
    """What to call the server of somebody's client in a message."""
    return _where(client.connection_pool.connection_kwargs)


def _where(options: Mapping[str, Any]) -> str:
    database = options.get("db") or 0
    if path := options.get("path"):
        return f"unix://{path}?db={database}"
    host = options.get("host") or "localhost"
    return f"redis://{host}:{options.get('port') or 6379}/{database}"
