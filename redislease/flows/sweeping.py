"""Deleting what has outlived its retention."""

from __future__ import annotations

from typing import Any

from redislease import validation
from redislease.commands import sweep
from redislease.flow import Flow, run
from redislease.models import Purged


def purge(
    completed: Any, cancelled: Any, dead: Any, evidence: Any, *, limit: int, by: str | None, reason: str
) -> Flow[Purged]:
    """A purge with its retentions in seconds; None keeps a state."""

    def milliseconds(value: Any, what: str) -> int | None:
        return None if value is None else validation.retention_ms(value, what)

    call = sweep.purge(
        completed_ms=milliseconds(completed, "completed"),
        cancelled_ms=milliseconds(cancelled, "cancelled"),
        dead_ms=milliseconds(dead, "dead"),
        evidence_ms=validation.retention_ms(evidence, "evidence"),
        limit=limit,
        by=by,
        reason=reason,
    )
    return run(call)
