"""What wakes a worker: the bell of new work, and the one that says that a lease was taken away.

Each has a connection of its own. A worker without free places does not wait for work, and always hears its signal.
Behind the bell of new work a claim may stand: see `standing`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from redislease import limits, local_clock
from redislease.async_queue import AsyncQueue
from redislease.connection.bell_exchange import BellExchange
from redislease.errors import ServerError
from redislease.worker.round_trip import RoundTrip
from redislease.worker.standing import Answered

PAUSE_S = 0.5
"""How long to stay away from a server that cannot be reached."""


async def _pause() -> None:
    await asyncio.sleep(PAUSE_S * random.uniform(0.5, 1.0))


class WakeBell:
    """Sleeps until work comes, or until the next task is due.

    Args:
        queue: Of the bell.
        sleepy: How long to sleep, in seconds; None: not now.
        leave_claim: The trip whose claim is to stand behind the bell from now on; None: none may.
        on_wake: Told that the sleep is over, whether the bell rang, which claim stood behind it, and its answer if that
            is known; the bell is silent until it has returned.
    """

    def __init__(
        self,
        queue: AsyncQueue,
        sleepy: Callable[[], float | None],
        leave_claim: Callable[[], RoundTrip | None],
        on_wake: Callable[[bool, RoundTrip | None, Answered | None], Awaitable[None]],
    ) -> None:
        self._queue = queue
        self._sleepy = sleepy
        self._leave_claim = leave_claim
        self._on_wake = on_wake
        self._allowed = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._asleep = False
        self._bell: BellExchange | None = None
        self._standing: RoundTrip | None = None
        self._sent_s = 0.0
        self._stopped = False

    def allow(self) -> None:
        """There is nothing to do."""
        if not self._asleep:
            self._allowed.set()
        elif self._bell is not None and self._bell.takes_calls:
            self._leave(self._bell)

    def stop(self) -> tuple[bool, RoundTrip | None]:
        """Ends it; answers whether it slept, so that a ring may have been lost, and the claim that stood behind it.

        That claim may have run, or may run until the server has seen that its connection is closed.
        """
        self._stopped = True
        if self._asleep and self._listening is not None:
            self._listening.cancel()
        return self._asleep, self._standing

    async def listen(self) -> None:
        """Sleeps whenever it is allowed, until it is stopped."""
        self._listening = asyncio.current_task()
        while not self._stopped:
            await self._allowed.wait()
            self._allowed.clear()
            duration_s = self._sleepy()
            if duration_s is None:
                continue
            answer, troubled = None, False
            self._bell = bell = self._queue._transport.bell([self._queue.keys.wake()], duration_s)
            self._leave(bell)
            self._asleep = True
            try:
                answer = await self._queue._transport.wait(bell)
            except ServerError:
                troubled = True
            if self._stopped:
                return
            trip, answered = self._standing, Answered(answer, self._sent_s) if answer is not None else None
            self._asleep, self._bell, self._standing = False, None, None
            await self._on_wake(bell.rung, trip, answered)
            if troubled:
                await _pause()

    def _leave(self, bell: BellExchange) -> None:
        """Puts a claim behind the bell, if one may stand there."""
        trip = self._standing = self._leave_claim()
        if trip is not None:
            self._sent_s = local_clock.elapsed_s()
            (call,) = trip.calls()
            self._queue._transport.put_behind(bell, call)


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
