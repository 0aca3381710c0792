"""What wakes a worker: the bell of new work, and the one that says that a lease was taken away.

Each has a connection of its own. A worker without free places does not wait for work, and always hears its signal.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from redislease import limits
from redislease.async_queue import AsyncQueue
from redislease.errors import ServerError

PAUSE_S = 0.5
"""How long to stay away from a server that cannot be reached."""


async def _pause() -> None:
    await asyncio.sleep(PAUSE_S * random.uniform(0.5, 1.0))


class WakeBell:
    """Sleeps until work comes, or until the next task is due.

    Args:
        queue: Of the bell.
        sleepy: How long to sleep, in seconds; None: not now.
        on_wake: Told that the sleep is over, and whether the bell rang; the bell is silent until it has returned.
    """

    def __init__(
        self, queue: AsyncQueue, sleepy: Callable[[], float | None], on_wake: Callable[[bool], Awaitable[None]]
    ) -> None:
        self._queue = queue
        self._sleepy = sleepy
        self._on_wake = on_wake
        self._allowed = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._asleep = False
        self._stopped = False

    def allow(self) -> None:
        """There is nothing to do."""
        if not self._asleep:
            self._allowed.set()

    def stop(self) -> bool:
        """Ends it; answers whether it slept, so that a ring may have been lost."""
        self._stopped = True
        if self._asleep and self._listening is not None:
            self._listening.cancel()
        return self._asleep

    async def listen(self) -> None:
        """Sleeps whenever it is allowed, until it is stopped."""
        self._listening = asyncio.current_task()
        while not self._stopped:
            await self._allowed.wait()
            self._allowed.clear()
            duration_s = self._sleepy()
            if duration_s is None:
                continue
            rung = False
            self._asleep = True
            try:
                rung = await self._queue._transport.block([self._queue.keys.wake()], duration_s) is not None
            except ServerError:
                await _pause()
            self._asleep = False
            await self._on_wake(rung)


class SignalBell:
    """Hears that a lease was cancelled, revoked or recovered.

    Args:
        queue: Of the bell.
        on_signal: Called when it rings.
    """

    def __init__(self, queue: AsyncQueue, on_signal: Callable[[], None]) -> None:
        self._queue = queue
        self._on_signal = on_signal
        self._named = asyncio.Event()
        self._owner = ""

    def listen_for(self, owner: str) -> None:
        """Whose signals to hear."""
        self._owner = owner
        self._named.set()

    async def listen(self) -> None:
        """Listens for ever."""
        await self._named.wait()
        while True:
            try:
                rung = await self._queue._transport.block([self._queue.keys.signal(self._owner)], limits.BLOCK_S_MAX)
            except ServerError:
                await _pause()
            else:
                if rung is not None:
                    self._on_signal()
