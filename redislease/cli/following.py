"""The verbs that go on looking: `watch` shows what is running, `tail` what happens to a task."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator

import click

from redislease.cli import options, output, tables
from redislease.cli.errors import ExitCode
from redislease.cli.history import evidence_text
from redislease.cli.session import Session
from redislease.errors import TaskUnknown
from redislease.models import Status, Task, TaskDetail

INTERVAL_S = 1.0
BAR = 20
CLEAR = "\x1b[H\x1b[2J"


def bar(done: float, total: float | None) -> str:
    """How far something is, as a bar of twenty characters; without a total only the number."""
    if not total or total <= 0:
        return f"{done:g}"
    share = min(max(done / total, 0.0), 1.0)
    filled = round(share * BAR)
    return f"[{'#' * filled}{'.' * (BAR - filled)}] {share:4.0%}"


def _row(detail: TaskDetail, now: int) -> tuple[object, ...]:
    task, progress = detail.task, detail.progress
    mine = progress if progress and progress["token"] == task.fencing_token else None
    left_ms = (task.lease_expires_at or now) - now
    return (
        task.id,
        task.name,
        task.lease_owner,
        task.attempts,
        output.duration(now - (task.claimed_at or now)),
        output.duration(left_ms) if left_ms >= 0 else "expired",
        bar(mine["done"], mine["total"]) if mine else "",
        mine["note"] if mine else "",
    )


def running(session: Session, limit: int) -> list[TaskDetail]:
    """The running tasks, the one whose lease ends first first."""
    found = []
    for task in session.queue.tasks(Status.LEASED, limit=limit):
        try:
            found.append(session.queue.detail(task.id))
        except TaskUnknown:
            continue
    return found


@click.command()
@click.option("--interval", type=options.Seconds(min=0.1), default=INTERVAL_S, metavar="S", help="Seconds (1).")
@click.option("--limit", "-n", type=int, default=30, metavar="N", help="At most this many (30).")
@click.option("--times", type=click.IntRange(min=1), metavar="N", help="End after so many looks.")
@options.common
@options.pass_session
def watch(session: Session, interval: float, limit: int, times: int | None) -> None:
    """Shows what is running, again and again.

    How long each task has been running, how long its lease still is, and how far it says it is.
    """
    looks = 0
    while True:
        stats = session.queue.stats()
        found = running(session, limit)
        if session.format != "text":
            output.write_lines(output.document(one) for one in found)
        else:
            columns = ("id", "name", "owner", "attempts", "running", "lease left", "progress", "note")
            sizes = "  ".join(f"{state} {size:,}" for state, size in stats.states.items() if size)
            heading = f"{stats.queue}  {output.moment(stats.now)}  {sizes}"
            table = tables.table(columns, [_row(one, stats.now) for one in found]) if found else "nothing is running"
            terminal = sys.stdout is not None and sys.stdout.isatty()
            output.write((CLEAR if terminal else "") + f"{output.visible(heading)}\n\n{table}")
        looks += 1
        if looks == times:
            return
        time.sleep(interval)


def events(session: Session, task_id: str, interval_s: float) -> Iterator[dict[str, object]]:
    """The evidence and the progress of a task as they come, until it has ended."""
    seen: Counter[str] = Counter()
    reported = -1
    while True:
        task: Task | None
        try:
            detail: TaskDetail | None = session.queue.detail(task_id)
        except TaskUnknown:
            detail = None
        lines = session.queue.evidence(task_id)
        new: list[dict[str, object]] = _unseen(lines, seen)
        if detail is None and not lines:
            session.queue.get(task_id)
        if detail is not None and detail.progress and detail.progress["at"] > reported:
            reported = detail.progress["at"]
            values = {name: value for name, value in detail.progress.items() if value is not None}
            new.append({"event": "progress", **values})
        yield from sorted(new, key=lambda line: int(str(line.get("at") or 0)))
        task = detail.task if detail else None
        if task is None or task.status.ended:
            if task is not None:
                yield {"event": "ended", "at": session.queue.stats().now, "status": str(task.status)}
            return
        time.sleep(interval_s)


def _unseen(lines: Iterable[dict[str, object]], seen: Counter[str]) -> list[dict[str, object]]:
    """What was not among the lines before, wherever it stands: the beginning of an effect is put where it happened."""
    now = Counter[str]()
    new = []
    for line in lines:
        text = output.document(line)
        now[text] += 1
        if now[text] > seen[text]:
            new.append(line)
    seen |= now
    return new


@click.command()
@click.argument("task_id", metavar="ID")
@click.option("--interval", type=options.Seconds(min=0.05), default=INTERVAL_S, metavar="S", help="Seconds (1).")
@options.common
@options.pass_session
def tail(session: Session, task_id: str, interval: float) -> ExitCode:
    """Shows what happens to a task as it happens.

    Until it has ended.
    """
    for line in events(session, task_id, interval):
        if session.format == "text":
            output.write(evidence_text([line]).split("\n", 1)[-1])
        else:
            output.write(output.document(line))
    return ExitCode.DONE
