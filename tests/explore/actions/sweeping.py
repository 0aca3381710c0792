"""What happens by itself: recovery with promotion, and purge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import Outcome, outlived
from ..view import View
from .action import Action, Caller, Parameters, action, expect, outcome_of, sweep

LIMIT = 10
EVIDENCE_MS = 60_000


@action
class Reap(Action):
    """A reaper recovers what has expired and promotes what is due."""

    name = "reap"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Always."""
        yield ()

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Reaps."""
        ran = call(view, "reap", limit=LIMIT)
        outcome = outcome_of(view, ran)
        if outcome.died:
            outcome.swept = True
            return outcome
        expired = {lease.task for lease in view.ghost.leases if lease.live and lease.expires < view.now}
        told = set(ran.reply[8 :: int(ran.reply[7])])
        expect(outcome, told == expired, f"{sorted(told)} were recovered, and {sorted(expired)} had expired")
        sweep(view, outcome)
        if expired:
            expect(outcome, int(ran.reply[4]) > view.ghost.top, "the fence does not stand above the leases taken")
        return outcome


@action
class Purge(Action):
    """A purge that keeps nothing beyond the shortest retention."""

    name = "purge"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Always."""
        yield ()

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Purges."""
        ran = call(
            view,
            "purge",
            completed_ms=0,
            cancelled_ms=0,
            dead_ms=0,
            evidence_ms=EVIDENCE_MS,
            limit=LIMIT,
            by="",
            reason="",
        )
        outcome = outcome_of(view, ran)
        outcome.purges = True
        if outcome.died:
            return outcome
        gone = [kind.id for kind in view.scope.tasks if outlived(view, kind.id)]
        told = sum(int(amount) for amount in ran.reply[3:6])
        expect(outcome, told == len(gone), f"{told} tasks were purged, and {len(gone)} had outlived their retention")
        for task in gone:
            outcome.ghost = outcome.ghost.purge(task)
        return outcome
