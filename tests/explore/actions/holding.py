"""Holders and those who were: renew, complete, fail, release, with leases that may be lost, and with mixed ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ghost import HANDLER, Lease
from ..model import Ending, Outcome
from ..refusals import refusal
from ..store import Ran
from ..view import View
from .action import Action, Caller, Parameters, action, expect, handle, outcome_of
from .claiming import acquire_args, read_claim

Named = dict[str, Any]

SHORT_MS = 50
DELAY_MS = 40
PARTS = ("task", "owner", "generation", "token")
ANSWER = 2
WORDS = 4

FAILURES = {
    "later": (Ending("failed", delayed=True), {"cause": "failed", "handler": "open", "delay_ms": DELAY_MS}),
    "now, nothing done": (
        Ending("failed", delayed=True, closes_handler=True),
        {"cause": "failed", "handler": "closed", "delay_ms": 0},
    ),
    "for good": (Ending("fatal", delayed=True), {"cause": "fatal", "handler": "open", "delay_ms": 0}),
}
RELEASES = {
    "now": (Ending("released", closes_handler=True), {"cause": "released", "handler": "closed"}),
    "never started": (Ending("returned", closes_handler=True), {"cause": "returned", "handler": "closed"}),
    "interrupted": (Ending("released"), {"cause": "released", "handler": "open"}),
    "later, at the end": (
        Ending("released", True, True),
        {"cause": "released", "handler": "closed", "delay_ms": DELAY_MS, "fresh_sequence": 1},
    ),
}


def answer_of(ran: Ran) -> tuple[bytes, ...]:
    """What a call said about its only lease: four words, the last ones of which may be empty."""
    words = ran.reply[ANSWER].split(b" ", WORDS - 1)
    return (*words, *[b""] * (WORDS - len(words)))


def settle(view: View, outcome: Outcome, script: str, lease: Lease, answer: tuple[bytes, ...], ending: Ending) -> None:
    """What the answer to complete, fail or release means, and whether it may be that answer."""
    verb = script.encode()
    if lease.holds(view.now):
        if answer[0] != b"ok" or answer[3] != b"":
            outcome.problems.append(f"a holder was refused: {answer}")
            return
        outcome.ended[lease.task] = ending
        outcome.ghost = outcome.ghost.end(lease, verb, *answer[:3])
        if ending.closes_handler:
            outcome.ghost = outcome.ghost.forget(lease.task, HANDLER)
        return
    if lease.settled and lease.settled[0] == verb:
        again = (*lease.settled[1:], b"replay")
        expect(outcome, answer == again, f"G7: {script} was answered {again} and now {answer}")
    else:
        right = refusal(view, lease, verb)
        expect(outcome, answer == right, f"G2: {script} of a lost lease was answered {answer}, not {right}")


class HolderAction(Action):
    """An action with a lease that somebody was given once."""

    VARIANTS: tuple[str | int, ...] = ()

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Every variant for a holder, one for everybody who lost it."""
        for position, lease in enumerate(view.ghost.leases):
            for variant in self.VARIANTS if lease.holds(view.now) else self.VARIANTS[:1]:
                yield position, variant


@action
class Renew(HolderAction):
    """A holder extends its lease, by its own length or by a short one."""

    name = "renew"
    VARIANTS = (0, SHORT_MS)

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Renews."""
        position, asked = parameters
        lease = view.ghost.leases[position]
        ran = call(view, "renew", {**handle(lease), "lease_ms": asked or ""})
        outcome = outcome_of(view, ran)
        if outcome.died:
            return outcome
        answer = answer_of(ran)
        if not lease.holds(view.now):
            outcome.refused = True
            right = refusal(view, lease, b"renew")
            expect(outcome, answer == right, f"G2: renew of a lost lease was answered {answer}, not {right}")
            return outcome
        if answer[0] not in (b"ok", b"capped"):
            outcome.problems.append(f"a holder was refused: {answer}")
            return outcome
        expires = int(answer[1])
        right = _renewed(view, lease, asked)
        expect(outcome, expires == right, f"renewed to {expires - view.now} ms from now, not {right - view.now}")
        expect(outcome, int(answer[2]) == expires - view.now, "remaining_ms does not fit the expiry")
        outcome.ghost = view.ghost.renew(lease, expires, view.now)
        return outcome


def _renewed(view: View, lease: Lease, asked: int) -> int:
    fields = view.task(lease.task) or {}
    length = asked or int(fields.get(b"lease_ms", b"60000"))
    expires = max(lease.expires, view.now + length)
    if view.now < lease.renewed:
        expires = view.now + max(length, lease.expires - lease.renewed)
    return min(expires, lease.cap) if lease.cap else expires


class Settle(HolderAction):
    """A holder ends its lease."""

    script = ""
    WAYS: dict[str, tuple[Ending, Named]] = {}  # noqa: RUF012

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Settles."""
        position, way = parameters
        lease = view.ghost.leases[position]
        ending, further = self.WAYS[way]
        ran = self.send(view, call, handle(lease), further)
        outcome = outcome_of(view, ran)
        if outcome.died:
            if lease.holds(view.now):
                outcome.ended[lease.task] = ending
            return outcome
        settle(view, outcome, self.script, lease, answer_of(ran), ending)
        outcome.refused = not outcome.ended
        if ending.delayed and "at the end" in way:
            outcome.fresh.add(lease.task)
        return outcome

    def send(self, view: View, call: Caller, held: Named, further: Named) -> Ran:
        """Sends it."""
        return call(view, self.script, {**held, **further})


@action
class Fail(Settle):
    """A holder's attempt has failed."""

    name = script = "fail"
    WAYS = FAILURES
    VARIANTS = tuple(FAILURES)


@action
class Release(Settle):
    """A holder gives its lease back."""

    name = script = "release"
    WAYS = RELEASES
    VARIANTS = tuple(RELEASES)


@action
class Complete(Settle):
    """A holder completes its lease."""

    name = script = "complete"
    WAYS = {"done": (Ending("completed", closes_handler=True), {"result": "1"})}  # noqa: RUF012
    VARIANTS = ("done",)

    def send(self, view: View, call: Caller, held: Named, further: Named) -> Ran:
        """Completes without a claim."""
        return call(view, "complete", {**held, **further}, **acquire_args(b"", 0, 0))


@action
class CompleteAndClaim(Action):
    """A holder completes its lease and claims again, in one call."""

    name = "complete+claim"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """For holders, for the last who lost one, and both halves sent again by those who have completed."""
        for position, lease in enumerate(view.ghost.leases):
            worker = view.scope.workers.index(lease.owner)
            if lease.holds(view.now) or position == len(view.ghost.leases) - 1:
                yield position, view.ghost.requests[worker] + 1
            if lease.settled[:1] == (b"complete",) and view.ghost.recorded[worker]:
                yield position, view.ghost.recorded[worker][-1]

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Completes, and claims."""
        position, request = parameters
        lease = view.ghost.leases[position]
        ending, further = Complete.WAYS["done"]
        asked = acquire_args(lease.owner, 1, request)
        ran = call(view, "complete", {**handle(lease), **further}, **asked)
        outcome = outcome_of(view, ran)
        if outcome.died:
            outcome.swept = True
            if lease.holds(view.now):
                outcome.ended[lease.task] = ending
            return outcome
        settle(view, outcome, "complete", lease, answer_of(ran), ending)
        if not outcome.problems:
            read_claim(view, outcome, ran.reply[ANSWER + 1 :], asked)
        return outcome


@action
class Mixed(Action):
    """Somebody presents a lease put together from two."""

    name = "mixed"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """One part of every lease replaced by that of another, unless the result is a lease of its own."""
        leases = view.ghost.leases
        genuine = {lease[:4] for lease in leases}
        seen = set()
        for position, lease in enumerate(leases):
            for other, taken in enumerate(leases):
                for part in PARTS if other != position else ():
                    held = _mix(lease, taken, part)[:4]
                    if held not in genuine and held not in seen:
                        seen.add(held)
                        yield position, other, part

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Completes with it: every verb asks the same guard."""
        first, second, part = parameters
        lease = _mix(view.ghost.leases[first], view.ghost.leases[second], part)
        ran = call(view, "complete", {**handle(lease), "result": "mixed"}, **acquire_args(b"", 0, 0))
        outcome = outcome_of(view, ran)
        if outcome.died:
            return outcome
        outcome.refused = True
        answer = answer_of(ran)
        known = [old.settled[1:] for old in view.ghost.leases if old.token == lease.token and old.task == lease.task]
        if answer[0] == b"ok":
            expect(outcome, answer[:3] in known and answer[3] == b"replay", f"G2: a mixed lease was answered {answer}")
        else:
            right = refusal(view, lease, b"complete")
            expect(outcome, answer == right, f"G2: a mixed lease was answered {answer}, not {right}")
        return outcome


def _mix(lease: Lease, other: Lease, part: str) -> Lease:
    return lease._replace(**{part: getattr(other, part)})
