"""What happens by itself in time. Scripts: `reap`, `purge`."""

from __future__ import annotations

from redislease import limits, validation
from redislease.commands.call import Call, Reply
from redislease.commands.replies import groups, optional_int, texts
from redislease.models import Purged, Reaped, Recovery
from redislease.scripts import Arg, shipped


def reap(limit: int = limits.REAP) -> Call[Reaped]:
    """Recovers expired leases and promotes due tasks, at most `limit` of each. Script: `reap`."""
    return Call(
        "reap", shipped()["reap"].bind(limit=validation.integer(limit, "limit", low=1, high=limits.BATCH)), _parse
    )


def _parse(reply: Reply) -> Reaped:
    words = texts(reply)
    recovered = [
        Recovery(
            id=task_id, cause=cause, status=status, generation=int(generation), owner=owner, side_effect=side_effect
        )
        for task_id, cause, status, generation, owner, side_effect in groups(words, 8, int(words[7]))
    ]
    return Reaped(
        recovered=recovered,
        promoted=int(words[5]),
        more=words[1] == "1",
        next_due_at=optional_int(words[2]),
        now=int(words[3]),
        fence=int(words[4]),
    )


def purge(
    *,
    completed_ms: int | None = limits.COMPLETED_RETENTION_MS,
    cancelled_ms: int | None = limits.CANCELLED_RETENTION_MS,
    dead_ms: int | None = None,
    evidence_ms: int = limits.EVIDENCE_RETENTION_MS,
    limit: int = limits.PURGE,
    by: str | None = None,
    reason: str = "",
) -> Call[Purged]:
    """Deletes what has outlived its retention. Script: `purge`.

    Args:
        completed_ms: Retention of completed tasks in milliseconds; None keeps them. At least 60 s are always kept.
        cancelled_ms: Retention of cancelled tasks.
        dead_ms: Retention of dead tasks.
        evidence_ms: How long evidence outlives its task; 0 deletes it with the task.
        limit: How many at most, 1 to 1,000.
        by: The operator who asks for it; a routine purge names nobody and is not recorded as a decision.
        reason: Why.
    """

    def optional(value: int | None, what: str) -> Arg:
        return "" if value is None else validation.integer(value, what, low=0, high=limits.RETENTION_MS_MAX)

    args = shipped()["purge"].bind(
        completed_ms=optional(completed_ms, "completed_ms"),
        cancelled_ms=optional(cancelled_ms, "cancelled_ms"),
        dead_ms=optional(dead_ms, "dead_ms"),
        evidence_ms=validation.integer(evidence_ms, "evidence_ms", low=0, high=limits.RETENTION_MS_MAX),
        limit=validation.integer(limit, "limit", low=1, high=limits.BATCH),
        by="" if by is None else validation.by(by),
        reason=validation.note(reason, empty=True),
    )
    return Call("purge", args, _parse_purge)


def _parse_purge(reply: Reply) -> Purged:
    words = texts(reply)
    return Purged(
        completed=int(words[3]),
        cancelled=int(words[4]),
        dead=int(words[5]),
        workers=int(words[6]),
        more=words[1] == "1",
    )
