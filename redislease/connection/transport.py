"""Runs calls on a sync client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from redis.exceptions import RedisError, ResponseError

from redislease.commands.call import Call
from redislease.connection.bounded import connecting_within
from redislease.connection.clients import Clients, open_clients
from redislease.connection.endpoint import SyncClient
from redislease.connection.exchange import Exchange, ReadExchange, resp2_shape
from redislease.connection.retry import RetryPlan
from redislease.connection.wiring import Wiring, bell_command, first_error, rung
from redislease.errors import ServerError
from redislease.keys import QueueKeys
from redislease.scripts import Arg, ScriptLibrary

T = TypeVar("T")


class Line(Protocol):
    """Where calls wait for others, to share a round trip."""

    def run(self, call: Call[T], retry_for_s: float) -> T:
        """Runs a call; see `Transport.run`."""
        ...


class Transport:
    """The way of one queue to its server, for threads.

    Args:
        keys: The queue's keys.
        library: The scripts.
        client: The clients, or one client of the user's.
        wait_replicas: How many replicas must confirm the calls that ask for it.
        wait_timeout_ms: How long they may take.
        retry_for_s: Seconds that a call may take with all its repetitions.

    Attributes:
        clients: Its clients.
        line: Takes the calls that are repeated for a time of their own; without one, each call travels by itself.

    Raises:
        ConfigurationError: The replicas' timeout does not fit into the client's socket timeout.
    """

    def __init__(
        self,
        keys: QueueKeys,
        library: ScriptLibrary,
        client: Clients | SyncClient,
        *,
        wait_replicas: int = 0,
        wait_timeout_ms: int = 1_000,
        retry_for_s: float = 30.0,
    ) -> None:
        self.clients = client if isinstance(client, Clients) else open_clients(client=client)
        self._wiring = Wiring(keys, library, self.clients, wait_replicas, wait_timeout_ms, retry_for_s)
        self._announced = False
        self.line: Line | None = None

    @property
    def keys(self) -> QueueKeys:
        """The queue's keys."""
        return self._wiring.keys

    @property
    def where(self) -> str:
        """The server as shown in messages."""
        return self.clients.where

    def run(self, call: Call[T], *, retry_for_s: float | None = None) -> T:
        """Runs one call, repeating it as a whole while the server cannot be reached.

        Args:
            call: What to run.
            retry_for_s: Seconds for all attempts together; 0 is one attempt.

        Raises:
            RedisLeaseError: What the answer means, or what went wrong at the server. `NotReplicated` carries the
                parsed answer as `answer`.
        """
        if self.line is not None and retry_for_s is not None:
            return self.line.run(call, retry_for_s)
        return self.run_many([call], retry_for_s=retry_for_s)[0]

    def run_many(
        self, calls: Sequence[Call[T]], *, retry_for_s: float | None = None, return_errors: bool = False
    ) -> list[T]:
        """Runs independent calls in one round trip.

        Args:
            calls: What to run.
            retry_for_s: Seconds for all attempts together; 0 is one attempt.
            return_errors: Puts the `RedisLeaseError` of a call into its place instead of raising the first.
        """
        exchange = self._wiring.calls(calls)
        self._carry_out(self.clients.client, exchange, self._wiring.plan(retry_for_s))
        return exchange.outcomes if return_errors else first_error(exchange.outcomes)

    def read(self, *command: Arg, retry_for_s: float | None = None) -> Any:
        """The reply to a plain command as raw bytes, in the shapes of RESP2; HGETALL gives a dict."""
        return (self.read_many([command], retry_for_s=retry_for_s))[0]

    def read_many(self, commands: Sequence[tuple[Arg, ...]], *, retry_for_s: float | None = None) -> list[Any]:
        """The replies to plain commands, sent in one round trip."""
        exchange = ReadExchange(commands, self.where)
        self._carry_out(self.clients.client, exchange, self._wiring.plan(retry_for_s))
        return [resp2_shape(command, reply) for command, reply in zip(commands, exchange.replies, strict=True)]

    def block(self, keys: Sequence[str], timeout_s: float) -> str | None:
        """Waits for one of several bells, at least 0.1 s and at most as long as the connection bears.

        Returns:
            The key of the bell that rang, or None.

        Raises:
            ServerUnavailable: The server is away; nothing is repeated.
        """
        exchange = ReadExchange([bell_command(keys, timeout_s, self.clients.block_s)], self.where)
        self._carry_out(self.clients.blocking, exchange, self._wiring.plan(0))
        return rung(exchange.replies[0])

    def announce(self) -> None:
        """Writes the queue's name into the set of queues, once; a failure is nobody's concern."""
        if not self._announced:
            exchange = ReadExchange([self._wiring.announcement()], self.where)
            try:
                self._carry_out(self.clients.client, exchange, self._wiring.announcement_plan())
            except ServerError:
                return
            self._announced = True

    def close(self) -> None:
        """Closes the clients that were opened for it."""
        self.clients.close()

    def _carry_out(self, client: SyncClient, exchange: Exchange, plan: RetryPlan) -> None:
        while True:
            try:
                return self._attempt(client, exchange, plan)
            except (RedisError, OSError, ServerError) as error:
                pause_s = plan.pause_after(error)
            time.sleep(pause_s)

    def _attempt(self, client: SyncClient, exchange: Exchange, plan: RetryPlan) -> None:
        # On the connection itself: no retries of the client's own, and a script can be loaded where it is then called.
        pool: Any = client.connection_pool
        with connecting_within(plan.remaining_s()):
            connection = pool.get_connection()
        try:
            while commands := exchange.commands():
                connection.send_packed_command(commands)
                replies: list[Any] = []
                for _ in commands:
                    timeout = self._wiring.reply_timeout(plan)
                    try:
                        replies.append(connection.read_response(disable_decoding=True, **timeout))
                    except ResponseError as error:
                        replies.append(error)
                exchange.accept(replies)
        except BaseException:
            connection.disconnect()
            raise
        finally:
            pool.release(connection)
