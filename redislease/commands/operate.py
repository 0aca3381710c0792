"""What operators decide. Scripts: `cancel`, `revoke`, `resolve`, `requeue`, `pause`.

Each carries a nonce, drawn before the first send: sent twice it has one effect and one answer. Whoever comes after
another decision gets `NotAllowedNow` and is told who decided what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from redislease import encoding, ids, limits, validation
from redislease.commands.call import Call, Reply
from redislease.commands.effects import encode_outcome
from redislease.commands.replies import texts
from redislease.effect_records import HANDLER, Kept
from redislease.errors import InvalidInput, NotAllowedNow, QueueExhausted, TaskUnknown
from redislease.models import Decided, Done, Paused
from redislease.moments import utc
from redislease.scripts import Arg, shipped

DECISIONS = ("done", "retry", "dead")
VERDICTS = ("done", "not_done")
LEVELS = ("claims", "effects")

_REASONS = {
    "status": "the task is {status}",
    "token": "the task has been claimed again since it was looked at; it is {status}",
    "open_effects": "the task has effects whose outcome nobody has decided",
    "effect": "an effect named here is not open any more; the task is {status}",
    "epoch": "the queue was paused or resumed since it was looked at",
}


def _conflict(reply: list[str]) -> NotAllowedNow:
    _, reason, status, _, decided_by, decided, decided_at = reply
    message = _REASONS.get(reason, reason).format(status=status)
    if decided:
        when = f" at {utc(int(decided_at))}" if decided_at else ""
        message += f"; {decided_by or 'somebody'} decided {decided}{when}"
    return NotAllowedNow(
        message,
        reason=reason,
        status=status,
        decided_by=decided_by,
        decided=decided,
        decided_at_ms=int(decided_at) if decided_at else None,
    )


def _about(script: str, task_id: str, groups: Iterable[Iterable[Arg]] = (), /, **arguments: Arg) -> Call[Decided]:
    """A decision about one task."""
    checked = validation.task_id(task_id)
    return Call(script, shipped()[script].bind(groups, id=checked, **arguments), lambda reply: _parse(reply, checked))


def _parse(reply: Reply, task_id: str) -> Decided:
    words = texts(reply)
    if words[0] == "unknown":
        raise TaskUnknown(f"there is no task {task_id}", task_id=task_id)
    if words[0] == "unknown_effect":
        raise InvalidInput(f"the task has no open effect named {words[1]!r}")
    if words[0] == "conflict":
        raise _conflict(words)
    return Decided(status=words[1], fence=int(words[2]))


def _signed(by: str, reason: str) -> dict[str, str]:
    return {"nonce": ids.nonce(), "by": validation.by(by), "reason": validation.note(reason, empty=True)}


def cancel(task_id: str, *, by: str, reason: str = "") -> Call[Decided]:
    """Cancels a live task. Script: `cancel`.

    Raises:
        TaskUnknown: There is no such task.
        NotAllowedNow: It has ended.
    """
    return _about("cancel", task_id, **_signed(by, reason))


def revoke(task_id: str, token: int | None, *, by: str, reason: str = "") -> Call[Decided]:
    """Takes a lease away. Script: `revoke`.

    Raises:
        TaskUnknown: There is no such task.
        NotAllowedNow: It is not leased, or under another token than the one that the operator saw.
    """
    return _about("revoke", task_id, token=_token(token), **_signed(by, reason))


def requeue(task_id: str, token: int | None, *, by: str, reason: str = "") -> Call[Decided]:
    """Makes a dead task ready again. Script: `requeue`.

    Raises:
        TaskUnknown: There is no such task.
        NotAllowedNow: It is not dead, was claimed since, or has effects in doubt.
    """
    return _about("requeue", task_id, token=_token(token), **_signed(by, reason))


def resolve(
    task_id: str,
    decision: str,
    token: int | None,
    *,
    by: str,
    reason: str = "",
    effects: Mapping[str, str | Done | Kept] | None = None,
    result: Any = None,
) -> Call[Decided]:
    """Decides a task in doubt. Script: `resolve`.

    Args:
        task_id: The task.
        decision: `done`, `retry` or `dead`.
        token: The task's fencing token as the operator saw it; None if it never had one.
        by: Who decides.
        reason: Why.
        effects: For each effect that was looked into, `done`, `Done(outcome)`, `not_done`, or testimony as it was kept.
            The implicit effect is `handler`.
        result: For `done`: the task's result.

    Raises:
        InvalidInput: Not a decision, or one that contradicts the effects.
        NotAllowedNow: The task is not in doubt, was claimed since, or effects are undecided.
    """
    if decision not in DECISIONS:
        raise InvalidInput(f"decision must be one of {', '.join(DECISIONS)}, not {validation.shown(decision)}")
    rows = [_found(key, verdict) for key, verdict in (effects or {}).items()]
    if decision == "retry" and any(row[:2] == (HANDLER, "done") for row in rows):
        raise InvalidInput("the handler has done its work: the decision is done, not retry")
    stored = encoding.result_to_json(result)
    return _about(
        "resolve", task_id, rows, decision=decision, token=_token(token), result=stored, **_signed(by, reason)
    )


def _found(key: str, verdict: str | Done | Kept) -> tuple[str, str, bytes, str]:
    validation.text(key, "the effect", max_bytes=limits.NAME_BYTES)
    if isinstance(verdict, Kept):
        return key, verdict.verdict, verdict.outcome, "1"
    if isinstance(verdict, Done):
        if key == HANDLER:
            raise InvalidInput("the implicit effect keeps no outcome: give the task a result")
        return key, "done", encode_outcome(verdict.outcome), ""
    if verdict not in VERDICTS:
        raise InvalidInput(f"an effect is {' or '.join(VERDICTS)}, not {validation.shown(verdict)}")
    return key, verdict, encode_outcome(None) if verdict == "done" else b"", ""


def pause(level: str, epoch: int, *, by: str, reason: str = "") -> Call[Paused]:
    """Pauses a queue, or resumes it with level ''. Script: `pause`.

    Args:
        level: `claims` stops claims; `effects` stops claims and new intents; '' resumes.
        epoch: The queue's epoch as the caller saw it.
        by: Who decides.
        reason: Why.

    Raises:
        NotAllowedNow: Somebody paused or resumed it in between.
    """
    if level != "" and level not in LEVELS:
        raise InvalidInput(f"level must be one of {', '.join(LEVELS)}, not {validation.shown(level)}")
    return Call("pause", shipped()["pause"].bind(level=level, epoch=epoch, **_signed(by, reason)), _parse_pause)


def _parse_pause(reply: Reply) -> Paused:
    words = texts(reply)
    if words[0] == "conflict":
        raise _conflict(words)
    if words[0] == "exhausted":
        raise QueueExhausted(f"the queue's {words[1]} has reached its limit")
    return Paused(level=words[1], epoch=int(words[2]))


def _token(token: int | None) -> str:
    return "" if token is None else str(validation.integer(token, "the fencing token", low=1, high=2**53 - 1))
