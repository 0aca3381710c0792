"""Gathers the calls of handlers, so that many travel in one round trip.

An intent, an outcome or a report waits for nobody while the line is free. While round trips are under way, those that
come gather, and go with the next one: one script call for all of a kind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from redislease.commands.call import Call
from redislease.connection.async_transport import AsyncTransport
from redislease.errors import RedisLeaseError, ServerUnavailable
from redislease.worker.errand import ALONE, Errand, can_share, take

REPORT = "progress"
LOOK_S = 0.25
"""How often to look for what waits too long. One that is found waiting twice goes alone: the line stands still."""


class Gatherer:
    """The line in which the calls of a queue's async handlers wait for a round trip.

    It takes one try together with others. When that fails, each call goes on by itself, for as long as it may be
    repeated: scripts answer a repeated call as they answered the first.

    Args:
        transport: For what goes alone.
        stir: Called when something waits.
    """

    def __init__(self, transport: AsyncTransport, stir: Callable[[], None]) -> None:
        self._transport = transport
        self._stir = stir
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Errand] = deque()
        self._reports: dict[tuple[Any, ...], Errand] = {}
        self._under_way: set[Errand] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False

    async def run(self, call: Call[Any], retry_for_s: float) -> Any:
        """Runs a call; see `AsyncTransport.run`."""
        if self._closed or not can_share(call, retry_for_s):
            return (await self._transport.run_many([call], retry_for_s=retry_for_s))[0]
        ends_s = self._loop.time() + retry_for_s
        waits: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        errand = Errand(call, waits, ends_s)
        self._under_way.add(errand)
        self._put(errand)
        try:
            answer = await waits
        finally:
            self._under_way.discard(errand)
        if answer is ALONE:
            left_s = max(ends_s - self._loop.time(), 0.0)
            return (await self._transport.run_many([call], retry_for_s=left_s))[0]
        if isinstance(answer, RedisLeaseError):
            raise answer
        return answer

    def take(self) -> list[Errand]:
        """What goes with the next round trip, at most what one call may carry."""
        taken = take(self._waiting)
        if self._reports:
            for errand in taken:
                self._forget_report(errand)
        return [errand for errand in taken if errand.earlier or not errand.answer.done()]

    def close(self) -> None:
        """Takes nothing more, and sends what waits by itself."""
        self._closed = True
        while self._waiting:
            for errand in self.take():
                errand.give(ALONE)
        if self._looking is not None:
            self._looking.cancel()

    def _put(self, errand: Errand) -> None:
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_S, self._look)
        if errand.call.script == REPORT:
            # Only the newest report of a lease counts.
            lease = _lease_of(errand)
            replaced = self._reports.get(lease)
            self._reports[lease] = errand
            if replaced is not None:
                errand.earlier = replaced
                self._waiting[self._waiting.index(replaced)] = errand
                return
        self._waiting.append(errand)
        self._stir()

    def _look(self) -> None:
        """Ends the patience of those that have waited too long."""
        self._looking = self._loop.call_later(LOOK_S, self._look) if self._under_way else None
        now_s = self._loop.time()
        for errand in list(self._under_way):
            if errand.ends_s <= now_s:
                errand.give(ServerUnavailable(f"{self._transport.where} did not answer in time"))
        stuck = [errand for errand in self._waiting if errand.late]
        for errand in stuck:
            self._waiting.remove(errand)
            self._forget_report(errand)
            errand.give(ALONE)
        for errand in self._waiting:
            errand.late = True

    def _forget_report(self, errand: Errand) -> None:
        """Another report of the lease waits for itself from now on."""
        if errand.call.script == REPORT:
            self._reports.pop(_lease_of(errand), None)


def _lease_of(errand: Errand) -> tuple[Any, ...]:
    return tuple(errand.call.args[:4])
