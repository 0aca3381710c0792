"""Calls behind a wait run when it is over, whenever they were put there, and every reply goes where it belongs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis
from sample_scripts import call, sample_library
from servers import Engine

from redislease.connection.async_transport import AsyncTransport
from redislease.connection.clients import open_async_clients
from redislease.errors import ServerError
from redislease.keys import QueueKeys


@asynccontextmanager
async def opened(engine: Engine, keys: QueueKeys, tmp_path: Path) -> AsyncIterator[AsyncTransport]:
    """A transport with the sample scripts."""
    transport = AsyncTransport(keys, sample_library(tmp_path), open_async_clients(engine.url))
    try:
        yield transport
    finally:
        await transport.aclose()


async def ring_later(client: redis.Redis, keys: QueueKeys, delay_s: float = 0.1) -> None:
    """Rings the bell."""
    await asyncio.sleep(delay_s)
    client.zadd(keys.wake(), {"wake": 0})


@pytest.mark.parametrize("put", ["before", "during", "with the ring"])
@pytest.mark.parametrize("rings", [True, False])
def test_the_call_runs_when_the_wait_is_over(
    real_engine: Engine, redis_client: redis.Redis, keys: QueueKeys, tmp_path: Path, put: str, rings: bool
) -> None:
    async def scenario() -> None:
        async with opened(real_engine, keys, tmp_path) as transport:
            await transport.run(call("count", "0"))
            for number in range(2, 6):
                bell = transport.bell([keys.wake()], 0.3)
                begun = time.monotonic()
                if put == "before":
                    transport.put_behind(bell, call("count", "0"))
                waiting = asyncio.create_task(transport.wait(bell))
                await asyncio.sleep(0.1)
                if put == "during":
                    assert bell.takes_calls
                    transport.put_behind(bell, call("count", "0"))
                await asyncio.sleep(0.05)
                # What stands behind a wait has not run.
                assert redis_client.hget(keys.meta, "count") == b"%d" % (number - 1)
                if rings:
                    await ring_later(redis_client, keys, 0)
                if put == "with the ring":
                    transport.put_behind(bell, call("count", "0"))
                assert await waiting == [number]
                assert bell.rung == rings
                assert not bell.takes_calls
                assert time.monotonic() - begun < 1.5
            # The connection is in order.
            assert await transport.block([keys.wake()], 0.1) is None

    asyncio.run(scenario())


def test_without_a_call_it_is_a_wait(
    engine: Engine, redis_client: redis.Redis, keys: QueueKeys, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with opened(engine, keys, tmp_path) as transport:
            assert transport.runs_behind_bells == engine.is_real
            for rings in (False, True):
                bell = transport.bell([keys.wake()], 0.2)
                ringing = asyncio.create_task(ring_later(redis_client, keys, 0.05 if rings else 0.5))
                assert await transport.wait(bell) is None
                assert bell.rung == rings
                assert not bell.takes_calls
                await ringing
                redis_client.delete(keys.wake())

    asyncio.run(scenario())


def test_a_script_that_was_forgotten_meanwhile(
    real_engine: Engine, redis_client: redis.Redis, keys: QueueKeys, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with opened(real_engine, keys, tmp_path) as transport:
            bell = transport.bell([keys.wake()], 2.0)
            transport.put_behind(bell, call("echo", "there"))
            waiting = asyncio.create_task(transport.wait(bell))
            await asyncio.sleep(0.05)
            redis_client.script_flush()
            await ring_later(redis_client, keys)
            assert await waiting == [b"there", 7]

    asyncio.run(scenario())


def test_a_wait_that_is_refused_raises(
    real_engine: Engine, redis_client: redis.Redis, keys: QueueKeys, tmp_path: Path
) -> None:
    """The call behind it has run all the same: whoever waits repeats it."""

    async def scenario() -> None:
        async with opened(real_engine, keys, tmp_path) as transport:
            await transport.run(call("count", "0"))
            redis_client.set(keys.wake(), "no set")
            bell = transport.bell([keys.wake()], 2.0)
            transport.put_behind(bell, call("count", "0"))
            with pytest.raises(ServerError, match="WRONGTYPE"):
                await transport.wait(bell)
            assert not bell.rung
            assert redis_client.hget(keys.meta, "count") == b"2"
            redis_client.delete(keys.wake())
            assert await transport.block([keys.wake()], 0.1) is None

    asyncio.run(scenario())


def test_a_cancelled_wait_leaves_nothing_behind(
    real_engine: Engine, redis_client: redis.Redis, keys: QueueKeys, tmp_path: Path
) -> None:
    """The server forgets what stood behind a wait when it sees that the connection is closed."""

    async def scenario() -> None:
        async with opened(real_engine, keys, tmp_path) as transport:
            await transport.run(call("count", "0"))
            for during in (False, True):
                bell = transport.bell([keys.wake()], 5.0)
                waiting = asyncio.create_task(transport.wait(bell))
                if during:
                    await asyncio.sleep(0.05)
                transport.put_behind(bell, call("count", "0"))
                await asyncio.sleep(0.05)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await asyncio.sleep(0.1)
                await ring_later(redis_client, keys, 0)
                assert await transport.block([keys.wake()], 1.0) == keys.wake(), "the ring is still there"
                assert redis_client.hget(keys.meta, "count") == b"1"

    asyncio.run(scenario())
