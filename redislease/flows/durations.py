"""How long tasks took, and what that says about the length of their leases."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass

from redislease import limits
from redislease.commands.replies import text
from redislease.errors import reading
from redislease.flow import Flow, Read
from redislease.flows.context import QueueContext

SAMPLE = 1_000
GAPS_PER_LEASE = 4
"""How many of the longest gaps between two renewals a lease should outlast."""
SHORTEST_ADVICE_MS = 5_000
FIELDS = ("name", "claimed_at", "lease_ms", "renewals", "longest_gap_ms")


@dataclass(frozen=True, slots=True)
class Durations:
    """What was observed of the tasks of one name; times are milliseconds.

    Attributes:
        name: What handler they were for.
        tasks: How many.
        median_ms: How long one took, from its claim to its completion.
        p95_ms: How long 95 of 100 took at most.
        longest_ms: How long the longest took.
        lease_ms: Their lease; the longest, if they differ.
        longest_gap_ms: The longest time between two renewals, or between claim and first renewal; None without any.
        advice: What to make of it.
    """

    name: str
    tasks: int
    median_ms: int
    p95_ms: int
    longest_ms: int
    lease_ms: int
    longest_gap_ms: int | None
    advice: str


def durations(context: QueueContext, limit: int = SAMPLE) -> Flow[list[Durations]]:
    """The tasks that were completed last, by name."""
    keys = context.keys
    (members,) = yield Read([("ZREVRANGE", keys.index("completed"), 0, limit - 1, "WITHSCORES")])
    with reading("the index of completed tasks"):
        pairs = [(text(task_id), int(float(score))) for task_id, score in zip(members[::2], members[1::2], strict=True)]
    if not pairs:
        return []
    rows = yield Read([("HMGET", keys.task(task_id), *FIELDS) for task_id, _ in pairs])
    taken: defaultdict[str, list[tuple[int, int, int | None]]] = defaultdict(list)
    for (_, completed_at), (name, claimed_at, lease_ms, renewals, gap_ms) in zip(pairs, rows, strict=True):
        if name is None or claimed_at is None or completed_at >= 2**53 - 1:
            continue
        with reading("the hash of a completed task"):
            gap = int(gap_ms) if renewals and gap_ms else None
            taken[text(name)].append((completed_at - int(claimed_at), int(lease_ms or limits.LEASE_MS), gap))
    return [_summary(name, values) for name, values in sorted(taken.items())]


def _summary(name: str, values: list[tuple[int, int, int | None]]) -> Durations:
    lengths = sorted(length for length, _, _ in values)
    lease_ms = max(lease for _, lease, _ in values)
    gap_ms = max((gap for _, _, gap in values if gap is not None), default=None)
    return Durations(
        name,
        len(lengths),
        round(statistics.median(lengths)),
        lengths[min(len(lengths) - 1, int(len(lengths) * 0.95))],
        lengths[-1],
        lease_ms,
        gap_ms,
        advice(lease_ms, gap_ms),
    )


def advice(lease_ms: int, longest_gap_ms: int | None) -> str:
    """What the longest time without a renewal says about the length of the lease.

    A lease is renewed however long its task takes, so it need not be as long as the task: it must outlast the longest
    time in which no renewal arrives, and a crash is noticed when it is over.
    """
    if longest_gap_ms is None:
        return "never renewed: tasks end within a third of the lease"
    wanted_ms = max(SHORTEST_ADVICE_MS, GAPS_PER_LEASE * longest_gap_ms)
    if longest_gap_ms > lease_ms / 2:
        return f"too short: renewals were {longest_gap_ms / 1000:.1f} s apart; take {wanted_ms / 1000:.0f} s"
    expected_ms = lease_ms / limits.HEARTBEATS_PER_LEASE
    late_ms = max(0.0, longest_gap_ms - expected_ms)
    safe_ms = max(SHORTEST_ADVICE_MS, round(GAPS_PER_LEASE * 2 * late_ms))
    if safe_ms < lease_ms / 4:
        return f"long enough; {safe_ms / 1000:.0f} s would do, and a crash would be noticed sooner"
    return "fits"
