"""Gathers the calls of handlers, so that many travel in one round trip.

An intent, an outcome or a report waits for nobody while the line is free. While round trips are under way, those that
come gather, and go with the next one: one script call for all of a kind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from redislease import limits
from redislease.commands.call import Call
from redislease.connection.async_transport import AsyncTransport
from redislease.errors import NotReplicated, RedisLeaseError, ServerUnavailable
from redislease.scripts import shipped

SHARED = ("intent", "outcome", "progress")
REPORT = "progress"
LOOK_S = 0.25
"""How often to look for what waits too long. One that is found waiting twice goes alone: the line stands still."""

ALONE = object()
"""In place of an answer: what travelled together has failed, and each is sent by itself."""


class Errand:
    """One call of a handler, on its way.

    Attributes:
        call: What to send, about one lease.
        answer: What came of it: the answer, an error, or `ALONE`.
        ends_s: Until when its handler waits, by the clock of the loop.
        late: Whether it was found waiting before.
        earlier: A report of the same lease that this one has replaced before it was sent; it gets the same answer.
    """

    __slots__ = ("answer", "call", "earlier", "ends_s", "late")

    def __init__(self, call: Call[Any], answer: asyncio.Future[Any], ends_s: float) -> None:
        self.call = call
        self.answer = answer
        self.ends_s = ends_s
        self.late = False
        self.earlier: Errand | None = None

    def give(self, answer: Any) -> None:
        """Hands over what came of it; the first counts, and a handler that was cancelled has gone."""
        one: Errand | None = self
        while one is not None:
            if not one.answer.done():
                one.answer.set_result(answer)
            one = one.earlier


class Shared:
    """What one round trip takes along.

    Args:
        errands: In the order in which they came.

    Attributes:
        calls: One for each kind.
    """

    def __init__(self, errands: Sequence[Errand]) -> None:
        kinds: dict[str, list[Errand]] = {}
        for errand in errands:
            kinds.setdefault(errand.call.script, []).append(errand)
        self._kinds = list(kinds.values())
        self.calls = [joined([errand.call for errand in kind]) for kind in self._kinds]

    def take(self, answers: Sequence[Any]) -> None:
        """Hands out the answers to `calls`. What several were refused together, each asks by itself."""
        for kind, answer in zip(self._kinds, answers, strict=True):
            if isinstance(answer, NotReplicated):
                for errand, own in zip(kind, _answers(answer.answer), strict=True):
                    unconfirmed = NotReplicated(str(answer), answer=[own])
                    unconfirmed.__cause__ = answer.__cause__
                    errand.give(unconfirmed)
            elif isinstance(answer, RedisLeaseError):
                for errand in kind:
                    errand.give(answer if len(kind) == 1 else ALONE)
            else:
                for errand, own in zip(kind, answer, strict=True):
                    errand.give([own])

    def give_back(self) -> None:
        """Nothing is known of those that have no answer."""
        for kind in self._kinds:
            for errand in kind:
                errand.give(ALONE)


def joined(calls: Sequence[Call[Any]]) -> Call[Any]:
    """One call for several of the same script, each about one lease; it answers a list, one for each."""
    first = calls[0]
    args = [arg for call in calls for arg in call.args]
    return Call(first.script, args, first.parse, first.confirm, answers=len(calls))


def _answers(answer: object) -> list[Any]:
    assert isinstance(answer, list)
    return answer


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
        self._widths = {name: len(shipped()[name].header.group) for name in SHARED}
        self._waiting: deque[Errand] = deque()
        self._reports: dict[tuple[Any, ...], Errand] = {}
        self._under_way: set[Errand] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False

    async def run(self, call: Call[Any], retry_for_s: float) -> Any:
        """Runs a call; see `AsyncTransport.run`."""
        if self._closed or retry_for_s <= 0 or self._widths.get(call.script) != len(call.args):
            return (await self._transport.run_many([call], retry_for_s=retry_for_s))[0]
        ends_s = self._loop.time() + retry_for_s
        errand = Errand(call, self._loop.create_future(), ends_s)
        self._under_way.add(errand)
        self._put(errand)
        try:
            answer = await errand.answer
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
        taken: list[Errand] = []
        size = 0
        while self._waiting and len(taken) < limits.SETTLE_BATCH:
            size += len(self._waiting[0].call.args[-1])  # type: ignore[arg-type]
            if size > limits.CALL_BYTES and taken:
                break
            errand = self._waiting.popleft()
            self._forget_report(errand)
            if not errand.answer.done() or errand.earlier:
                taken.append(errand)
        return taken

    def close(self) -> None:
        """Takes nothing more, and sends what waits by itself."""
        self._closed = True
        while taken := self.take():
            for errand in taken:
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
