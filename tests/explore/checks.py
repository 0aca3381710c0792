"""What must be true of every transition: from the keys before, the call and its answer, to the keys after."""

from __future__ import annotations

from collections.abc import Iterator

from .model import COUNTS_AS, TERMINAL, Ending, Outcome, expected, expiry_cause, number, recovered
from .texts import BASE, EFFECTS, EVIDENCE, SIGNAL, TASK, WAKE, Fields
from .view import View

SEQUENCES = 1 << 44
HISTORY_FIELDS = (b"failures", b"expirations", b"releases")


def problems(view: View, outcome: Outcome, after: View) -> Iterator[str]:
    """Everything that is wrong with a transition."""
    yield from outcome.problems
    if outcome.outside:
        return
    if outcome.refused:
        for key in outcome.changed:
            told = outcome.testimony is not None and key == EFFECTS + outcome.testimony
            if not key.startswith(EVIDENCE) and not told:
                yield f"G2: a refused call changed {key.removeprefix(BASE).decode()}"
        return
    for kind in view.scope.tasks:
        yield from _task(view, outcome, after, kind.id)
    yield from _orphans(view, after)
    yield from _bells(view, outcome, after)


def _task(view: View, outcome: Outcome, after: View, task: bytes) -> Iterator[str]:
    right = expected(view, outcome, task)
    before, now = view.task(task), after.task(task)
    status = now[b"status"] if now else None
    if status != right:
        was = before[b"status"] if before else None
        yield f"G4-G6: {task.decode()} was {_word(was)} and must be {_word(right)}, but is {_word(status)}"
        return
    if before is None or now is None:
        return
    ending = outcome.ended.get(task) or (recovered(view, task) if outcome.swept else None)
    if TASK + task in outcome.changed:
        yield from _counts(before, now, ending, decided=task in outcome.moved)
        yield from _generation(outcome, before, now, task)
        if ending and ending.cause in ("expired", "max_runtime") and ending.cause != expiry_cause(before):
            yield f"{task.decode()} ended by {ending.cause}"
    if task not in outcome.fresh and status not in TERMINAL:
        old, new = _sequence(view, before, task), _sequence(after, now, task)
        if old is not None and old != new:
            yield f"{task.decode()} lost its place: sequence {old} became {new}"


def _word(status: bytes | None) -> str:
    return status.decode() if status is not None else "nowhere"


def _counts(before: Fields, now: Fields, ending: Ending | None, *, decided: bool) -> Iterator[str]:
    """What counts as what, and what a decision forgives."""
    counted = COUNTS_AS.get(ending.cause) if ending else None
    for name in HISTORY_FIELDS:
        right = number(before, name) + (name == counted)
        forgiven = decided and name != b"releases" and number(now, name) == 0
        if number(now, name) != right and not forgiven:
            yield f"{name.decode()} became {number(now, name)}, not {right}"


def _generation(outcome: Outcome, before: Fields, now: Fields, task: bytes) -> Iterator[str]:
    granted = any(lease.task == task for lease in outcome.granted)
    right = number(before, b"claim_generation") + granted
    if number(now, b"claim_generation") != right:
        yield f"the generation of {task.decode()} became {number(now, b'claim_generation')}, not {right}"
    if not granted and before.get(b"fencing_token") != now.get(b"fencing_token"):
        yield f"{task.decode()} has another token without a new lease"


def _sequence(view: View, hashed: Fields, task: bytes) -> int | None:
    if b"sequence" in hashed:
        return int(hashed[b"sequence"])
    if hashed[b"status"] == b"ready":
        return view.index(b"ready").get(task, 0) % SEQUENCES
    return None


def _bells(view: View, outcome: Outcome, after: View) -> Iterator[str]:
    """An arrival wakes idle workers; a holder that lost its lease is told. Nobody had rung before."""
    if outcome.died:
        return
    arrived = view.index(b"ready").keys() < after.index(b"ready").keys()
    if arrived and not after.ghost.pause and not outcome.changed.get(WAKE):
        yield "tasks became ready and no bell rang"
    for kind in view.scope.tasks:
        lease = view.ghost.live(kind.id)
        taken = outcome.ended.get(kind.id) or (recovered(view, kind.id) if outcome.swept else None)
        if lease and taken and taken.cause in ("expired", "max_runtime", "cancelled", "revoked"):
            text = outcome.changed.get(SIGNAL + lease.owner)
            if not text or not text.split(b"\0")[1]:
                yield f"{lease.owner.decode()} was not told that it lost {kind.id.decode()}"


def _orphans(view: View, after: View) -> Iterator[str]:
    """Only an id without a hash is set aside."""
    for task in after.orphans() - view.orphans():
        if view.task(task) is not None:
            yield f"{task.decode()} was set aside as an orphan, and has a hash"


def half_done(view: View, outcome: Outcome, after: View) -> Iterator[str]:
    """After a script that died: every task is as it was or where the whole call would have taken it."""
    for kind in view.scope.tasks:
        before, now = view.task(kind.id), after.task(kind.id)
        allowed = {before[b"status"] if before else None, expected(view, outcome, kind.id)}
        status = now[b"status"] if now else None
        if status not in allowed:
            yield f"G4: a call that died left {kind.id.decode()} {_word(status)}"
