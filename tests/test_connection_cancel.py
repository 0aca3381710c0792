"""A cancelled call never leaves a connection behind whose next reply belongs to somebody else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import BlockingConnectionPool, Redis, UnixDomainSocketConnection
from sample_scripts import call, sample_library
from servers import Engine

from redislease.connection.async_transport import AsyncTransport
from redislease.connection.clients import AsyncClients, open_async_clients
from redislease.connection.limits import Limits
from redislease.keys import QueueKeys

CONNECTIONS = 4


def ours(engine: Engine) -> AsyncClients:
    return open_async_clients(engine.url, limits=Limits(max_connections=CONNECTIONS))


def users_plain(engine: Engine) -> Redis:
    return engine.async_client()


def users_blocking(engine: Engine) -> Redis:
    pool = BlockingConnectionPool(
        max_connections=CONNECTIONS,
        timeout=10,
        connection_class=UnixDomainSocketConnection,
        path=engine.server.socket_path if engine.server else "",
    )
    return Redis.from_pool(pool)


@pytest.mark.parametrize("make", [ours, users_plain, users_blocking])
def test_cancelling_at_random_instants(
    engine: Engine, keys: QueueKeys, tmp_path: Path, make: Callable[[Engine], Any]
) -> None:
    if make is users_blocking and not engine.is_real:
        pytest.skip("needs a server program")

    async def scenario() -> None:
        chance = random.Random(20_240)
        client = make(engine)
        transport = AsyncTransport(keys, sample_library(tmp_path), client)
        wrong: list[Any] = []

        async def one(number: int) -> None:
            if number % 3 == 0:
                values = [number * 10 + step for step in range(3)]
                answers = await transport.run_many([call("echo", value) for value in values])
            elif number % 7 == 0:
                await transport.block([keys.wake()], 1.0)
                return
            else:
                values = [number]
                answers = [await transport.run(call("echo", number))]
            if answers != [[b"%d" % value, 7] for value in values]:
                wrong.append((values, answers))

        cancelled: list[asyncio.Task[None]] = []
        for start in range(0, 2_000, 40):
            tasks = [asyncio.create_task(one(number)) for number in range(start, start + 40)]
            for task in tasks:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                if chance.random() < 0.05:
                    await asyncio.sleep(chance.random() / 1000)
                if task.cancel():
                    cancelled.append(task)
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
                    task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    wrong.append(result)
        assert wrong == []
        assert len(cancelled) > 200
        assert all(task.cancelled() for task in cancelled), "a cancellation was swallowed"

        # Every connection is usable again, all of them at once, and each gives its own answers.
        await asyncio.wait_for(asyncio.gather(*(one(99_999 + 3 * number) for number in range(200))), 20)
        assert wrong == []
        pool: Any = transport.clients.client.connection_pool
        assert not pool._in_use_connections
        await transport.aclose()
        if isinstance(client, Redis):
            await client.aclose()

    asyncio.run(scenario())


def test_a_cancelled_call_is_cancelled_and_not_retried(engine: Engine, keys: QueueKeys, tmp_path: Path) -> None:
    async def scenario() -> None:
        transport = AsyncTransport(keys, sample_library(tmp_path), open_async_clients(engine.url))
        waiting = asyncio.create_task(transport.block([keys.wake()], 5))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await transport.block([keys.wake()], 5)
        await transport.aclose()

    asyncio.run(scenario())
