"""Holders and those who were: what is about to happen outside, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ghost import HANDLER, Effect, Lease
from ..model import Outcome
from ..refusals import refusal
from ..view import View
from .action import Action, Caller, Parameters, action, expect, handle, outcome_of
from .holding import answer_of

KEY = "mail"
REQUESTS = ("r1", "r2")
OUTCOME = b'{"value":1}'


@action
class Intent(Action):
    """A holder says what it is about to do."""

    name = "intent"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """One effect, asked for once or twice in an attempt, with either request; and the implicit one."""
        for position, lease in enumerate(view.ghost.leases):
            yield position, KEY, "n1", REQUESTS[0]
            if lease.holds(view.now):
                yield position, KEY, "n1", REQUESTS[1]
                yield position, KEY, "n2", REQUESTS[0]
                if lease.unstarted or view.scope.task(lease.task).has_implicit_effect:
                    yield position, HANDLER.decode(), "n1", ""

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Sends the intent."""
        position, key, nonce, request = parameters
        lease = view.ghost.leases[position]
        asked = Effect(lease.task, key.encode(), b"open", lease.token, nonce.encode(), request.encode())
        group = {**handle(lease), "key": key, "nonce": nonce, "name": key, "digest": request}
        ran = call(view, "intent", group)
        outcome = outcome_of(view, ran)
        if outcome.died:
            return outcome
        answer = answer_of(ran)
        if answer[0] == b"done":
            answer = (answer[0], answer[3])
        right, opened = _answer(view, lease, asked)
        expect(outcome, answer[: len(right)] == right, f"an intent was answered {answer}, not {right}")
        if key == HANDLER.decode() and answer[0] == b"open":
            outcome.ghost = view.ghost.start(lease)
        if opened is None:
            outcome.refused = outcome.ghost == view.ghost
        elif opened != view.ghost.effect(lease.task, opened.key):
            outcome.ghost = outcome.ghost.record(opened)
        return outcome


def _answer(view: View, lease: Lease, asked: Effect) -> tuple[tuple[bytes, ...], Effect | None]:
    """What an intent must be answered, and the effect that it leaves open; by section 7 of the design."""
    record = view.ghost.effect(lease.task, asked.key)
    mine = record is not None and record.token == lease.token
    if not lease.holds(view.now):
        return refusal(view, lease, b"intent"), None
    if asked.key == HANDLER:
        implicit = Effect(lease.task, HANDLER) if view.scope.task(lease.task).has_implicit_effect else None
        if not lease.unstarted and record == implicit:
            return (b"open",), record
        return ((b"paused",), None) if view.ghost.pause == b"effects" else ((b"open",), implicit)
    if record and mine and record.nonce == asked.nonce and record.state == b"open":
        return (b"open",), record
    if view.ghost.pause == b"effects":
        return (b"paused",), None
    if record is None:
        return (b"open", b""), asked
    spent = asked.nonce == record.nonce or asked.nonce in record.spent
    if mine and (spent or (record.state != b"not_done" and record.nonce != b"-")):
        return (b"reused",), None
    known = mine or record.nonce == b"-" or record.state == b"not_done"
    begun = record.earlier if known else (record.token, record.nonce)
    asked = asked._replace(earlier=begun, late=b"inherited" if record.late in (b"done", b"inherited") else b"")
    if record.state == b"not_done":
        return (b"open", b""), asked._replace(spent=(record.nonce, *record.spent) if mine else ())
    if record.digest != asked.digest:
        return (b"conflict",), None
    if record.state == b"done":
        return (b"done", record.outcome), None
    if view.scope.task(lease.task).side_effect == "non_idempotent":
        return (b"ambiguous",), None
    return (b"open", b"again"), asked._replace(spent=record.spent if mine else (), again=True)


def _nonces_of(record: Effect, lease: Lease) -> list[bytes]:
    """The calls of a lease that the record of an effect still knows, as far as they can still be answered otherwise."""
    known = []
    if record.token == lease.token:
        known += list(record.spent[:1]) if record.nonce == b"-" else [record.nonce]
    if record.earlier and record.earlier[0] == lease.token:
        known.append(record.earlier[1])
    return known


def _is_heard(record: Effect, lease: Lease, nonce: bytes, verdict: bytes) -> bool:
    """Whether testimony is kept.

    That it was done counts more, most of all from the try that the record is about; that it was not is kept of an only
    try.
    """
    mine = (record.token, record.nonce) == (lease.token, nonce)
    if not mine and record.earlier != (lease.token, nonce):
        return False
    if verdict == b"done":
        return record.late != b"done" and (mine or record.late != b"inherited")
    return mine and record.state == b"open" and not record.late and not record.again


@action
class Record(Action):
    """Somebody says what became of an effect; it need not hold the lease any more."""

    name = "outcome"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Both outcomes of every effect by whoever opened it, and one that nobody has opened."""
        for position, lease in enumerate(view.ghost.leases):
            record = view.ghost.effect(lease.task, KEY.encode())
            if record is None:
                continue
            for nonce in _nonces_of(record, lease):
                yield position, nonce.decode(), "done"
                yield position, nonce.decode(), "not_done"
            yield position, "n0", "done"

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Sends the outcome."""
        position, nonce, verdict = parameters
        lease = view.ghost.leases[position]
        told = OUTCOME if verdict == "done" else b""
        group = {**handle(lease), "key": KEY, "nonce": nonce, "verdict": verdict, "outcome": told}
        ran = call(view, "outcome", group)
        outcome = outcome_of(view, ran)
        if outcome.died:
            return outcome
        answer = answer_of(ran)
        record = view.ghost.effect(lease.task, KEY.encode())
        mine = record is not None and (record.token, record.nonce) == (lease.token, nonce.encode())
        outcome.refused = True
        given_up = record is not None and record.token == lease.token and nonce.encode() in record.spent
        repeated = mine and record is not None and (record.state, record.outcome) == (verdict.encode(), told)
        if repeated or (given_up and verdict == "not_done"):
            expect(outcome, answer[0] == b"ok" and answer[2] == b"replay", f"G7: an outcome was answered {answer}")
        elif not lease.holds(view.now):
            right = refusal(view, lease, b"outcome")
            expect(outcome, answer == right, f"G2: an outcome after the lease was answered {answer}, not {right}")
            if record and _is_heard(record, lease, nonce.encode(), verdict.encode()):
                outcome.testimony = lease.task
                own = record.token == lease.token
                outcome.ghost = view.ghost.record(record._replace(late=verdict.encode() if own else b"inherited"))
        elif not record or not mine:
            expect(outcome, answer[0] == b"unknown_effect", f"an outcome of nothing was answered {answer}")
        elif record.state != b"open":
            expect(outcome, answer[:2] == (b"closed", record.state), f"a second outcome was answered {answer}")
        else:
            expect(outcome, answer[0] == b"ok" and answer[2] == b"", f"an outcome was answered {answer}")
            outcome.refused = False
            ghost, key = view.ghost, KEY.encode()
            done = verdict == "done"
            outcome.ghost = ghost.close(lease.task, key, b"done", told) if done else ghost.give_up(lease.task, key)
        return outcome
