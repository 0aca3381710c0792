"""The verbs that do by hand what happens by itself in time: `reap` and `purge`."""

from __future__ import annotations

from collections import Counter

import click

from redislease import limits, validation
from redislease.cli import options, tables
from redislease.cli.output import counted
from redislease.cli.retentions import or_default, retentions, seconds
from redislease.cli.session import Session

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


@click.command()
@retentions
@click.option("--dry-run", is_flag=True, help="Only count.")
@options.signed
@options.pass_session
def purge(session: Session, evidence: float, dry_run: bool, **given: float | str | None) -> None:
    """Deletes what has outlived its retention.

    At least 60 s are always kept, and a task with an effect in doubt in any case. With one of --completed, --cancelled
    and --dead, only those states are purged.
    """
    if all(value is None for value in given.values()):
        kept = {state: or_default(state, None) for state in given}
    else:
        kept = {state: seconds(value) for state, value in given.items()}
    counts = _count(session, kept) if dry_run else _purge(session, kept, evidence)
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    session.answer(counts, lambda: f"would delete {said}; nothing was changed" if dry_run else f"deleted {said}")


def _count(session: Session, kept: dict[str, float | None]) -> dict[str, int]:
    now = session.queue.stats().now
    counts = {}
    for state, retention in kept.items():
        if retention is None:
            continue
        before = now - max(validation.retention_ms(retention, state), FLOOR_MS)
        (counts[state],) = session.read(("ZCOUNT", session.queue.keys.index(state), "-inf", before))
    return counts


def _purge(session: Session, kept: dict[str, float | None], evidence: float) -> dict[str, int]:
    """Purges in bounded calls until nothing is left to do."""
    totals: Counter[str] = Counter()
    while True:
        purged = session.queue.purge(
            completed=kept["completed"],
            cancelled=kept["cancelled"],
            dead=kept["dead"],
            evidence=evidence,
            by=session.operator,
            reason=session.reason,
        )
        totals.update({name: value for name, value in purged if name != "more"})
        if not purged.more:
            return dict(totals)
