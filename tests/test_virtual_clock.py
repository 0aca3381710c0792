"""The tests' own clock and the tests' own two-flavour helper."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from both import Both
from virtual_clock import CLOCK_LUA, VirtualClock

from redislease.keys import QueueKeys


def test_the_virtual_clock(redis_client: Any, keys: QueueKeys, clock: VirtualClock) -> None:
    script = CLOCK_LUA + "return string.format('%.0f', read_clock())"

    def now_us() -> int:
        return int(redis_client.eval(script, 1, keys.meta))

    assert now_us() == VirtualClock.START_MS * 1000
    assert clock.advance_ms(1_500) == VirtualClock.START_MS + 1_500
    assert now_us() == (VirtualClock.START_MS + 1_500) * 1000
    clock.advance_ms(-2_000)
    assert now_us() == (VirtualClock.START_MS - 500) * 1000
    clock.release()
    assert abs(now_us() / 1e6 - float(redis_client.time()[0])) < 60


class AsyncThing:
    """Something async, as the library has it."""

    limit = 3

    def __init__(self) -> None:
        self.log: list[str] = []
        asyncio.get_running_loop()

    async def __aenter__(self) -> AsyncThing:
        self.log.append("enter")
        return self

    async def __aexit__(self, *error: object) -> None:
        self.log.append("exit")

    async def children(self) -> list[AsyncThing]:
        return [AsyncThing(), self]

    async def is_me(self, other: AsyncThing) -> bool:
        return other is self

    async def aclose(self) -> None:
        self.log.append("closed")


class Thing:
    """The same for threads."""

    limit = 3

    def __init__(self) -> None:
        self.log: list[str] = []

    def __enter__(self) -> Thing:
        self.log.append("enter")
        return self

    def __exit__(self, *error: object) -> None:
        self.log.append("exit")

    def children(self) -> list[Thing]:
        return [Thing(), self]

    def is_me(self, other: Thing) -> bool:
        return other is self

    def close(self) -> None:
        self.log.append("closed")


def test_one_body_over_both_flavours(both: Both) -> None:
    thing = both.pick(Thing, AsyncThing)()
    with thing as entered:
        other, same = entered.children()
        assert same == thing
        assert thing.is_me(same)
        assert not thing.is_me(other)
        assert other.limit == 3
        with pytest.raises(ZeroDivisionError), other:
            _ = 1 / 0
        assert other.log == ["enter", "exit"]
    thing.close()
    assert thing.log == ["enter", "exit", "closed"]
