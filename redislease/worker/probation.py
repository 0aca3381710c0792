"""Tasks that one more expiration would send to dead: their handlers begin one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from redislease.worker.attempt import Attempt

PACE_S = 1.0
"""How long the next one waits for the one before it; a task that kills its worker mostly does so at once."""


class Probation:
    """The line of a queue's tasks whose last expiration it would be.

    Whichever of them kills the process, the server must know which had begun: those that had not are not to blame. So
    each says that it begins right before it does, and the next one waits until it has ended, or has run for a while.

    Args:
        begin: Records that a handler begins, and starts it.
    """

    def __init__(self, begin: Callable[[Attempt], Awaitable[None]]) -> None:
        self._begin = begin
        self._line: deque[Attempt] = deque()
        self._first: Attempt | None = None
        self._first_ended = asyncio.Event()
        self._walk: asyncio.Task[None] | None = None

    def add(self, attempts: Iterable[Attempt], on_done: Callable[[asyncio.Task[None]], None]) -> None:
        """Puts attempts at the end of the line.

        Args:
            attempts: Which.
            on_done: Told when the line has been walked to its end, or could not be.
        """
        self._line.extend(attempts)
        if self._line and (self._walk is None or self._walk.done()):
            self._walk = asyncio.create_task(self._walk_line())
            self._walk.add_done_callback(on_done)

    def note_end(self, attempt: Attempt) -> None:
        """An attempt has ended, whether it was in this line or not."""
        if attempt is self._first:
            self._first_ended.set()

    def close(self) -> None:
        """Begins nothing more."""
        self._line.clear()
        if self._walk is not None:
            self._walk.cancel()

    async def _walk_line(self) -> None:
        while self._line:
            self._first = self._line.popleft()
            self._first_ended.clear()
            await self._begin(self._first)
            try:
                await asyncio.wait_for(self._first_ended.wait(), PACE_S)
            except TimeoutError:
                continue
