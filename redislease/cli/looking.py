"""The verbs that look and change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

import click

from redislease import limits
from redislease.cli import options, output, tables
from redislease.cli import why as explanations
from redislease.cli.errors import ExitCode
from redislease.cli.output import moment, when
from redislease.cli.session import Session
from redislease.commands.inspect import CHECKED_INDEXES
from redislease.commands.inspect import stats as ask_stats
from redislease.connection.clients import open_clients
from redislease.connection.transport import Transport
from redislease.effect_records import EffectRecord
from redislease.flows.durations import Durations, durations
from redislease.flows.looking import LISTED
from redislease.keys import QueueKeys, queues_key
from redislease.models import Stats, Task, TaskDetail
from redislease.scripts import shipped


@click.command()
@options.common
@options.pass_session
def queues(session: Session) -> None:
    """Lists the queues.

    A queue is listed once something was stored in it.
    """
    found: list[Stats] = []
    with closing(open_clients(session.server)) as clients:

        def transport(name: str) -> Transport:
            keys = QueueKeys(name, session.prefix)
            return Transport(keys, shipped(), clients, retry_for_s=session.timeout_s)

        for name in sorted(transport("any").read("SMEMBERS", queues_key(session.prefix))):
            found.append(transport(name.decode()).run(ask_stats(name.decode())))
    columns = ("queue", "ready", "leased", "scheduled", "in doubt", "dead", "completed", "paused")
    rows = [
        (one.queue, *(one.states[state] for state in ("ready", "leased", "scheduled")),
         one.states["reconciling"] + one.unsettled, one.states["dead"], one.states["completed"], one.pause)
        for one in found
    ]  # fmt: skip
    session.answer(found, lambda: tables.table(columns, rows))


@click.command()
@click.option(
    "--durations", "observed", is_flag=True, help="How long tasks took, and what that says about their leases."
)
@options.common
@options.pass_session
def stats(session: Session, observed: bool) -> None:
    """Shows a queue at a glance.

    How many tasks are in each state, what is overdue, what comes next, who paused it, and what was counted so far.
    """
    if observed:
        found = session.queue._drive(durations(session.queue._context))
        session.answer(found, lambda: _durations(found))
        return
    seen = session.queue.stats()
    session.answer(seen, lambda: _stats(seen))


def _durations(found: Iterable[Durations]) -> str:
    rows = []
    for one in found:
        lengths = (output.duration(ms) for ms in (one.median_ms, one.p95_ms, one.longest_ms, one.lease_ms))
        gap = "" if one.longest_gap_ms is None else output.duration(one.longest_gap_ms)
        rows.append((one.name, one.tasks, *lengths, gap, one.advice))
    columns = ("name", "tasks", "median", "95 %", "longest", "lease", "longest gap", "lease length")
    return tables.table(columns, rows) if rows else "nothing was completed lately"


def _stats(seen: Stats) -> str:
    paused = f"{seen.pause} by {seen.paused_by} since {when(seen.paused_at, seen.now)}"
    reason = f": {seen.paused_reason}" if seen.paused_reason else ""
    age = "" if seen.head_age_ms is None else f"enqueued {output.duration(seen.head_age_ms)} ago"
    return "\n\n".join(
        (
            tables.pairs(
                [
                    ("queue", seen.queue),
                    ("time", moment(seen.now)),
                    ("paused", paused + reason if seen.pause else "no"),
                    ("next task", age),
                    ("next due", when(seen.next_due_at, seen.now)),
                    ("next expiry", when(seen.next_expiry_at, seen.now)),
                    ("expired", f"{output.counted(seen.expired, 'lease')} to recover" if seen.expired else ""),
                    ("overdue", f"{output.counted(seen.overdue, 'task')} to promote" if seen.overdue else ""),
                    ("in doubt since", when(seen.oldest_reconciling_at, seen.now)),
                    ("fence", seen.fence),
                    ("workers", seen.workers),
                ]
            ),
            tables.table(
                ("state", "tasks"), [*seen.states.items(), ("unsettled", seen.unsettled), ("orphans", seen.orphans)]
            ),
            tables.table(("so far", "count"), list(seen.counters.items())),
        )
    )


@click.command()
@click.argument("status", type=click.Choice(LISTED), metavar="STATE")
@click.option("--limit", "-n", type=int, default=100, metavar="N", help="At most this many (100).")
@click.option("--offset", type=int, default=0, metavar="N", help="How many to skip.")
@options.common
@options.pass_session
def tasks(session: Session, status: str, limit: int, offset: int) -> None:
    """Lists the tasks of a state.

    STATE is scheduled, ready, approved, leased, blocked, awaiting_approval, reconciling, dead, completed, cancelled or
    unsettled. In the order of the state's index; unsettled lists ended tasks that still have an effect in doubt.
    """
    found = session.queue.tasks(status, limit=limit, offset=offset)
    session.answer(found, lambda: tasks_table(session, found))


def tasks_table(session: Session, found: Iterable[Task]) -> str:
    """Tasks as a table, with the times that matter in their state."""
    now = session.queue.stats().now
    rows = [
        (task.id, task.status, task.name, task.side_effect, when(task.created_at, now), task.attempts, task.lease_owner,
         when(task.lease_expires_at or task.available_at, now), task.last_error)
        for task in found
    ]  # fmt: skip
    columns = ("id", "status", "name", "class", "enqueued", "attempts", "last owner", "until", "last error")
    return tables.table(columns, rows)


@click.command()
@click.argument("task_id", metavar="ID")
@options.common
@options.pass_session
def show(session: Session, task_id: str) -> None:
    """Shows a task.

    With its payload, result, progress and effects.
    """
    found, effects = session.queue.detail(task_id), session.queue.effects(task_id)
    session.answer({**dict(found), "effects": effects}, lambda: task_text(session, found, effects))


_TIMES = ("created_at", "available_at", "claimed_at", "renewed_at", "lease_expires_at", "runtime_deadline")
_LENGTHS = ("lease_ms", "max_runtime_ms")


def task_text(session: Session, found: TaskDetail, effects: Sequence[EffectRecord]) -> str:
    """A task with what is stored beside it, as names and values, and its effects."""
    now = session.queue.stats().now
    values: list[tuple[str, object]] = []
    for name, value in found.task:
        if name in _TIMES:
            values.append((name, when(value, now)))
        elif name in _LENGTHS and value is not None:
            values.append((name.removesuffix("_ms"), output.duration(value)))
        elif name not in ("created", "decided", "ended"):
            values.append((name, value))
    for name, value in (("payload", found.payload), ("result", found.result)):
        if value is not None:
            values.append((name, output.document(value)))
    if found.progress:
        said = found.progress
        total = f" of {said['total']:g}" if said.get("total") is not None else ""
        values.append(("progress", f"{said['done']:g}{total} {said.get('note') or ''} {when(said['at'], now)}"))
    return "\n\n".join([tables.pairs(values), *([_effects(effects, now)] if effects else [])])


def _effects(effects: Iterable[EffectRecord], now: int) -> str:
    rows = []
    for one in effects:
        told = one.not_stored or one.outcome
        outcome = one.reason if told is None else output.document(told)
        late = f"{one.testimony.verdict} {when(one.testimony.at, now)}" if one.testimony else ""
        began = (one.generation, when(one.opened_at, now)) if one.opened_at else ("", "")
        rows.append((one.key, one.state, *began, outcome, late))
    return tables.table(("effect", "state", "generation", "opened", "outcome", "said too late"), rows)


@click.command()
@click.argument("task_id", metavar="ID")
@options.common
@options.pass_session
def why(session: Session, task_id: str) -> None:
    """Says where a task is, and what moves it.

    Since when, who held it, what will happen by itself, and what to type next.
    """
    told = explanations.explain(session, task_id)
    session.answer(told, lambda: explanations.as_text(told))


@click.command()
@click.option("--limit", "-n", type=int, default=100, metavar="N", help="At most this many (100).")
@options.common
@options.pass_session
def workers(session: Session, limit: int) -> None:
    """Lists registered workers.

    The one seen last first.
    """
    found = session.queue.workers(limit=limit)

    def people() -> str:
        now = session.queue.stats().now
        return tables.table(("owner", "last seen"), [(one["owner"], when(one["seen_at"], now)) for one in found])

    session.answer(found, people)


@click.command()
@options.common
@options.pass_session
def check(session: Session) -> ExitCode:
    """Compares every index with its tasks.

    Changes nothing. Ends with 6 when something does not agree.
    """
    looked_at = 0
    problems: list[dict[str, str]] = []
    for index in CHECKED_INDEXES:
        offset, total = 0, 1
        while offset < total:
            found = session.queue.check(index, offset=offset)
            total, offset = found.total, offset + limits.BATCH
            looked_at += found.looked_at
            problems += [{"index": index, "id": one.id, "problem": one.problem} for one in found.problems]

    def people() -> str:
        if not problems:
            return f"{output.counted(looked_at, 'entry', 'entries')} looked at, nothing found"
        return tables.table(("index", "id", "problem"), [tuple(one.values()) for one in problems])

    if session.format == "json":
        session.answer({"looked_at": looked_at, "problems": problems}, people)
    else:
        session.answer(problems, people)
    return ExitCode.FOUND if problems else ExitCode.DONE
