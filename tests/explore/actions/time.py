"""The server's clock: forwards to where something changes, and backwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import NEVER_SWEPT, RETENTION_FLOOR_MS, TERMINAL, Outcome, number
from ..texts import META
from ..view import View
from .action import Action, Caller, Parameters, action

BACK_MS = (1, 100)


@action
class Clock(Action):
    """The clock moves."""

    name = "clock"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """To the next expiry, due time and end of a retention, and to the last moment before each; and back."""
        steps = set()
        for moment in (
            _next(view, [b"leased"], 1),
            _next(view, [b"scheduled"], 0),
            _next(view, TERMINAL, RETENTION_FLOOR_MS),
        ):
            steps |= {moment - 1 - view.now, moment - view.now} if moment else set()
        yield from ((step,) for step in sorted(steps) if step > 0)
        if view.may("back"):
            yield from ((-step,) for step in BACK_MS)

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Sets the clock."""
        (step,) = parameters
        now = view.now + step
        ghost = view.ghost if step > 0 else view.spend("back")
        ghost = ghost._replace(high=max(ghost.high, now))
        if now <= ghost.lost_at:
            ghost = ghost.behind(number(view.hash(META), b"fence"))
        return Outcome(ghost, {}, now, outside=True)


def _next(view: View, states: Any, after: int) -> int | None:
    """The next moment at which something in these states changes, `after` milliseconds behind its score."""
    moments = [
        score + after
        for state in states
        for score in view.index(state).values()
        if view.now < score + after < NEVER_SWEPT
    ]
    return min(moments, default=None)
