"""The verbs that do by hand what happens by itself in time: `reap` and `purge`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import click

from redislease import limits, validation
from redislease.cli import options, tables
from redislease.cli.output import counted
from redislease.cli.session import Session

F = TypeVar("F", bound=Callable[..., Any])

FLOOR_MS = 60_000
"""What every purge keeps, however short the retention."""


@click.command()
@click.option("--limit", "-n", type=int, default=limits.REAP, metavar="N", help=f"At most this many ({limits.REAP}).")
@click.option("--dry-run", is_flag=True, help="Only count.")
@options.common
@options.pass_session
def reap(session: Session, limit: int, dry_run: bool) -> None:
    """Recovers expired leases.

    And makes due tasks ready.
    """
    if dry_run:
        stats = session.queue.stats()
        counts = {"expired": stats.expired, "overdue": stats.overdue}
        said = f"{counted(stats.expired, 'lease')} to recover, {counted(stats.overdue, 'task')} to make ready"
        session.answer(counts, lambda: f"{said}; nothing was changed")
        return
    reaped = session.queue.reap(limit)

    def people() -> str:
        rows = [(one.id, one.cause, one.status, one.generation, one.owner) for one in reaped.recovered]
        more = "; there is more" if reaped.more else ""
        total = f"{counted(len(rows), 'lease')} recovered, {counted(reaped.promoted, 'task')} made ready{more}"
        if not rows:
            return total
        return f"{tables.table(('id', 'cause', 'now', 'generation', 'last owner'), rows)}\n{total}"

    session.answer(reaped, people)


def _retention(name: str, what: str, default_ms: int | None) -> Callable[[F], F]:
    default = "kept" if default_ms is None else f"{default_ms / 1000:g}"
    return click.option(name, type=float, metavar="SECONDS", help=f"Retention of {what} ({default}).")


@click.command()
@_retention("--completed", "completed tasks", limits.COMPLETED_RETENTION_MS)
@_retention("--cancelled", "cancelled tasks", limits.CANCELLED_RETENTION_MS)
@_retention("--dead", "dead tasks", None)
@_retention("--evidence", "evidence, after its task", limits.EVIDENCE_RETENTION_MS)
@click.option("--dry-run", is_flag=True, help="Only count.")
@options.signed
@options.pass_session
def purge(
    session: Session,
    completed: float | None,
    cancelled: float | None,
    dead: float | None,
    evidence: float | None,
    dry_run: bool,
) -> None:
    """Deletes what has outlived its retention.

    At least 60 s are always kept, and a task with an effect in doubt in any case. With one of --completed, --cancelled
    and --dead, only those states are purged.
    """
    retentions = {"completed": completed, "cancelled": cancelled, "dead": dead}
    if all(value is None for value in retentions.values()):
        retentions["completed"] = limits.COMPLETED_RETENTION_MS / 1000
        retentions["cancelled"] = limits.CANCELLED_RETENTION_MS / 1000
    if dry_run:
        counts = _count(session, retentions)
    else:
        counts = _purge(session, retentions, limits.EVIDENCE_RETENTION_MS / 1000 if evidence is None else evidence)
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    session.answer(counts, lambda: f"would delete {said}; nothing was changed" if dry_run else f"deleted {said}")


def _count(session: Session, retentions: dict[str, float | None]) -> dict[str, int]:
    now = session.queue.stats().now
    counts = {}
    for state, retention in retentions.items():
        if retention is None:
            continue
        before = now - max(validation.retention_ms(retention, state), FLOOR_MS)
        (counts[state],) = session.read(("ZCOUNT", session.queue.keys.index(state), "-inf", before))
    return counts


def _purge(session: Session, retentions: dict[str, float | None], evidence: float) -> dict[str, int]:
    """Purges in bounded calls until nothing is left to do."""
    totals: Counter[str] = Counter()
    while True:
        purged = session.queue.purge(
            completed=retentions["completed"],
            cancelled=retentions["cancelled"],
            dead=retentions["dead"],
            evidence=evidence,
            by=session.operator,
            reason=session.reason,
        )
        totals.update({name: value for name, value in purged if name != "more"})
        if not purged.more:
            return dict(totals)
