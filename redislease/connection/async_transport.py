"""Runs calls on an async client."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeVar

from redis.exceptions import RedisError, ResponseError

from redislease.commands.call import Call
from redislease.connection.bell_exchange import BellExchange
from redislease.connection.clients import AsyncClients, open_async_clients
from redislease.connection.endpoint import AsyncClient
from redislease.connection.exchange import Exchange, ReadExchange, resp2_shape
from redislease.connection.pool import PatientPool
from redislease.connection.retry import RetryPlan
from redislease.connection.wiring import Wiring, bell_command, first_error, rung
from redislease.errors import ServerError
from redislease.keys import QueueKeys
from redislease.scripts import Arg, ScriptLibrary

T = TypeVar("T")


class Line(Protocol):
    """Where calls wait for others, to share a round trip."""

    def run(self, call: Call[T], retry_for_s: float) -> Awaitable[T]:
        """Runs a call; see `AsyncTransport.run`."""
        ...


class AsyncTransport:
    """The way of one queue to its server, for one event loop; everything is as in `Transport`.

    Attributes:
        clients: Its clients.
        line: Takes the calls that are repeated for a time of their own; without one, each call travels by itself.
    """

    def __init__(
        self,
        keys: QueueKeys,
        library: ScriptLibrary,
        client: AsyncClients | AsyncClient,
        *,
        wait_replicas: int = 0,
        wait_timeout_ms: int = 1_000,
        retry_for_s: float = 30.0,
    ) -> None:
        self.clients = client if isinstance(client, AsyncClients) else open_async_clients(client=client)
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

    def run(self, call: Call[T], *, retry_for_s: float | None = None) -> Awaitable[T]:
        """Runs one call; see `Transport.run`. No coroutine of its own: each level costs every turn of a busy loop."""
        if self.line is not None and retry_for_s is not None:
            return self.line.run(call, retry_for_s)
        return self._run_alone(call, retry_for_s)

    async def _run_alone(self, call: Call[T], retry_for_s: float | None) -> T:
        return (await self.run_many([call], retry_for_s=retry_for_s))[0]

    async def run_many(
        self, calls: Sequence[Call[T]], *, retry_for_s: float | None = None, return_errors: bool = False
    ) -> list[T]:
        """Runs independent calls in one round trip; see `Transport.run_many`."""
        exchange = self._wiring.calls(calls)
        await self._carry_out(self.clients.client, exchange, self._wiring.plan(retry_for_s))
        return exchange.outcomes if return_errors else first_error(exchange.outcomes)

    async def read(self, *command: Arg, retry_for_s: float | None = None) -> Any:
        """The reply to a plain command; see `Transport.read`."""
        return (await self.read_many([command], retry_for_s=retry_for_s))[0]

    async def read_many(self, commands: Sequence[tuple[Arg, ...]], *, retry_for_s: float | None = None) -> list[Any]:
        """The replies to plain commands, sent in one round trip."""
        exchange = ReadExchange(commands, self.where)
        await self._carry_out(self.clients.client, exchange, self._wiring.plan(retry_for_s))
        return [resp2_shape(command, reply) for command, reply in zip(commands, exchange.replies, strict=True)]

    async def block(self, keys: Sequence[str], timeout_s: float) -> str | None:
        """Waits for one of several bells; see `Transport.block`."""
        exchange = ReadExchange([bell_command(keys, timeout_s, self.clients.block_s)], self.where)
        await self._carry_out(self.clients.blocking, exchange, self._wiring.plan(0))
        return rung(exchange.replies[0])

    @property
    def runs_behind_bells(self) -> bool:
        """Whether `block_then_run` may be used: the server is a program, and waits have connections of their own."""
        return self.clients.endpoint is not None and self.clients.endpoint.is_program

    def bell(self, keys: Sequence[str], timeout_s: float) -> BellExchange:
        """A wait for one of several bells, for `wait`."""
        return BellExchange(bell_command(keys, timeout_s, self.clients.block_s), self.where)

    def put_behind(self, bell: BellExchange, call: Call[Any]) -> None:
        """Has the server run a call as soon as a wait is over, which may be under way."""
        bell.put_behind(self._wiring.calls([call]))

    async def wait(self, bell: BellExchange) -> Any:
        """Waits, and returns the answer of the call behind the bell, or the error that it ended in; None without one.

        One attempt. Whoever cancels it, or hears of an error, does not know whether the call has run or will run yet.
        """
        await self._carry_out(self.clients.blocking, bell, self._wiring.plan(0))
        return bell.calls.outcomes[0] if bell.calls else None

    async def announce(self) -> None:
        """Writes the queue's name into the set of queues, once; a failure is nobody's concern."""
        if not self._announced:
            exchange = ReadExchange([self._wiring.announcement()], self.where)
            try:
                await self._carry_out(self.clients.client, exchange, self._wiring.announcement_plan())
            except ServerError:
                return
            self._announced = True

    async def aclose(self) -> None:
        """Closes the clients that were opened for it."""
        await self.clients.aclose()

    async def _carry_out(self, client: AsyncClient, exchange: Exchange, plan: RetryPlan) -> None:
        while True:
            limit_s = self._wiring.attempt_timeout(plan)
            try:
                if limit_s is None:
                    return await self._attempt(client, exchange)
                async with asyncio.timeout(limit_s):
                    return await self._attempt(client, exchange)
            except (RedisError, OSError, ServerError) as error:
                pause_s = plan.pause_after(error)
            await asyncio.sleep(pause_s)

    async def _attempt(self, client: AsyncClient, exchange: Exchange) -> None:
        pool: Any = client.connection_pool
        task = asyncio.current_task()
        cancelling = task.cancelling() if task else 0
        connection = await pool.get_connection()
        try:
            # redis-py opens connections inside `asyncio.wait_for`, which on Python 3.11 may swallow a cancellation.
            if task and task.cancelling() > cancelling:
                raise asyncio.CancelledError
            exchange.begin(connection)
            while commands := exchange.commands():
                exchange.accept(await _ask(connection, commands))
        except BaseException:
            # Cancelled or broken in between: what is still to come on this connection belongs to nobody.
            await connection.disconnect(nowait=True)
            raise
        finally:
            if isinstance(pool, PatientPool):
                await pool.release(connection)
            else:
                # Other pools wait for a lock here, where a second cancellation would lose the connection for good.
                await asyncio.shield(pool.release(connection))


async def _ask(connection: Any, commands: list[bytes]) -> list[Any]:
    """The replies to some commands: raw ones, or a `ResponseError`.

    One timer stands behind all of it. redis-py's own would start a task for each send, and a timer for each reply.
    """
    patience_s = connection.socket_timeout
    loop = asyncio.get_running_loop()
    replies: list[Any] = []
    async with asyncio.timeout(patience_s) as patience:
        connection.socket_timeout = None
        try:
            await connection.send_packed_command(commands)
        finally:
            connection.socket_timeout = patience_s
        while len(replies) < len(commands):
            if replies and patience_s is not None:
                patience.reschedule(loop.time() + patience_s)
            try:
                replies.append(await connection.read_response(disable_decoding=True, timeout=math.inf))
            except ResponseError as error:
                replies.append(error)
    return replies
