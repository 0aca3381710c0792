"""Calls of handlers on their way, and what one round trip takes along of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import chain
from typing import Any

from redislease import limits
from redislease.commands.call import Call
from redislease.errors import NotReplicated, RedisLeaseError
from redislease.scripts import shipped

SHARED = ("intent", "outcome", "progress")
"""Scripts of which one call takes many leases, and is refused for each by itself."""
WIDTHS = {name: len(shipped()[name].header.group) for name in SHARED}

ALONE = object()
"""In place of an answer: what travelled together has failed, and each is sent by itself."""


class Errand:
    """One call of a handler, on its way.

    Attributes:
        call: What to send, about one lease.
        answer: What came of it: the answer, an error, or `ALONE`.
        ends_s: Until when its handler waits, by the clock of whoever gathers.
        late: Whether it was found waiting before.
        earlier: A report of the same lease that this one has replaced before it was sent; it gets the same answer.
    """

    __slots__ = ("answer", "call", "earlier", "ends_s", "late")

    def __init__(self, call: Call[Any], answer: asyncio.Future[Any] | Future[Any], ends_s: float) -> None:
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
                    if errand.earlier is None and not errand.answer.done():
                        errand.answer.set_result([own])  # nearly all: thousands a second
                    else:
                        errand.give([own])

    def give_back(self) -> None:
        """Nothing is known of those that have no answer."""
        for kind in self._kinds:
            for errand in kind:
                errand.give(ALONE)


def joined(calls: Sequence[Call[Any]]) -> Call[Any]:
    """One call for several of the same script, each about one lease; it answers a list, one for each."""
    first = calls[0]
    args = list(chain.from_iterable(call.args for call in calls))
    return Call(first.script, args, first.parse, first.confirm, answers=len(calls))


def _answers(answer: object) -> list[Any]:
    assert isinstance(answer, list)
    return answer


def can_share(call: Call[Any], retry_for_s: float) -> bool:
    """Whether a call may travel with others: it is about one lease, and may be sent again."""
    return retry_for_s > 0 and WIDTHS.get(call.script) == len(call.args)


def take(waiting: deque[Errand]) -> list[Errand]:
    """Takes from a line what one call may carry."""
    taken: list[Errand] = []
    size = 0
    while waiting and len(taken) < limits.SETTLE_BATCH:
        size += len(waiting[0].call.args[-1])  # type: ignore[arg-type]
        if size > limits.CALL_BYTES and taken:
            break
        taken.append(waiting.popleft())
    return taken
