"""How long ended tasks are kept."""

from __future__ import annotations

from dataclasses import dataclass

from redislease import limits, validation
from redislease.flow import Flow, Read
from redislease.flows import sweeping
from redislease.keys import QueueKeys
from redislease.models import Purged

FLOOR_MS = 60_000
"""What every purge keeps, however short the retention."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Retentions in seconds; None keeps a state for ever. The server keeps everything for at least 60 s.

    Attributes:
        completed: Of completed tasks and their results.
        cancelled: Of cancelled tasks.
        dead: Of dead tasks.
        evidence: How long evidence outlives its task; 0 deletes it with the task.

    Raises:
        InvalidInput: A retention is not acceptable.
    """

    completed: float | None = limits.COMPLETED_RETENTION_MS / 1000
    cancelled: float | None = limits.CANCELLED_RETENTION_MS / 1000
    dead: float | None = None
    evidence: float = limits.EVIDENCE_RETENTION_MS / 1000

    def __post_init__(self) -> None:
        for name in ("completed", "cancelled", "dead", "evidence"):
            value = getattr(self, name)
            if value is not None or name == "evidence":
                validation.retention_ms(value, name)

    def purge(self, limit: int = limits.PURGE) -> Flow[Purged]:
        """Deletes up to `limit` tasks. Script: `purge`."""
        return sweeping.purge(self.completed, self.cancelled, self.dead, self.evidence, limit=limit, by=None, reason="")

    def next_deadline(self, keys: QueueKeys) -> Flow[int | None]:
        """When the oldest task that is not kept for ever will have outlived its retention, by the server's clock."""
        limited = {
            state: max(FLOOR_MS, round(seconds * 1000))
            for state, seconds in (("completed", self.completed), ("cancelled", self.cancelled), ("dead", self.dead))
            if seconds is not None
        }
        if not limited:
            return None
        heads = yield Read([("ZRANGE", keys.index(state), 0, 0, "WITHSCORES") for state in limited])
        deadlines = [
            int(float(head[1])) + kept_ms for head, kept_ms in zip(heads, limited.values(), strict=True) if head
        ]
        return min((at for at in deadlines if at < 2**53 - 1), default=None)
