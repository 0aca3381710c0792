"""Tasks that one more expiration would send to dead: each says that its handler begins, right before it does."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from redislease import local_clock
from redislease.worker.attempt import Attempt

PACE_S = 0.25
"""How long the next suspect waits for the one before it; a task that kills its worker mostly does so at once."""
WAITING_SHARE = 0.25
"""The part of a longest run time that may pass in the line; beyond it the task is given back and claimed anew."""


def is_suspect(attempt: Attempt) -> bool:
    """Whether a lease of the task may have expired before: one of its attempts did not end as a failure."""
    grant = attempt.lease._grant
    return grant.attempts - 1 > grant.failures


def _patience_s(attempt: Attempt) -> float:
    """How long an attempt may wait in the line."""
    grant = attempt.lease._grant
    if grant.runtime_deadline is None:
        return float("inf")
    claimed_at = grant.expires_at - grant.remaining_ms
    return (grant.runtime_deadline - claimed_at) / 1000 * WAITING_SHARE


class Probation:
    """The line of a queue's tasks whose last expiration it would be.

    Whichever of them kills the process, the server must know which had begun: those that had not are not to blame.
    So each is recorded before it begins, and a suspect waits until the one before it has ended or has run for a while.

    Args:
        begin: Records that a handler begins, and starts it.
        give_back: Gives a task back that was never begun.
    """

    def __init__(self, begin: Callable[[Attempt], Awaitable[None]], give_back: Callable[[Attempt], None]) -> None:
        self._begin = begin
        self._give_back = give_back
        self._line: deque[tuple[Attempt, float]] = deque()
        self._suspect: Attempt | None = None
        self._suspect_ended = asyncio.Event()
        self._walk: asyncio.Task[None] | None = None

    def add(self, attempts: Iterable[Attempt], on_done: Callable[[asyncio.Task[None]], None]) -> None:
        """Puts attempts into the line: suspects at its end.

        Args:
            attempts: Which.
            on_done: Told when the line has been walked to its end, or could not be.
        """
        places = [(attempt, local_clock.elapsed_s() + _patience_s(attempt)) for attempt in attempts]
        # Sorting keeps the order among suspects, and among the others.
        self._line = deque(sorted([*self._line, *places], key=lambda place: is_suspect(place[0])))
        if self._line and (self._walk is None or self._walk.done()):
            self._walk = asyncio.create_task(self._walk_line())
            self._walk.add_done_callback(on_done)

    def leave(self, attempt: Attempt) -> bool:
        """Takes an attempt out of the line; answers whether it stood there."""
        before = len(self._line)
        self._line = deque(place for place in self._line if place[0] is not attempt)
        return len(self._line) < before

    def note_end(self, attempt: Attempt) -> None:
        """An attempt has ended, whether it was in this line or not."""
        if attempt is self._suspect:
            self._suspect_ended.set()

    def close(self) -> None:
        """Begins nothing more."""
        self._line.clear()
        if self._walk is not None:
            self._walk.cancel()

    async def _walk_line(self) -> None:
        while self._line:
            if is_suspect(self._line[0][0]):
                await self._wait_for_suspect()
                if not self._line:
                    return
            attempt, until_s = self._line.popleft()
            if local_clock.elapsed_s() > until_s:
                self._give_back(attempt)
                continue
            if is_suspect(attempt):
                self._suspect = attempt
                self._suspect_ended.clear()
            await self._begin(attempt)

    async def _wait_for_suspect(self) -> None:
        if self._suspect is not None:
            try:
                await asyncio.wait_for(self._suspect_ended.wait(), PACE_S)
            except TimeoutError:
                return
