"""The verbs that tell what happened: to a task, and by whose decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from redislease.cli import options, output, tables
from redislease.cli.output import moment
from redislease.cli.session import Session


@click.command()
@click.argument("task_id", metavar="ID")
@options.common
@options.pass_session
def evidence(session: Session, task_id: str) -> None:
    """Shows what happened to a task.

    Also after the task itself was purged.
    """
    lines = session.queue.evidence(task_id)
    if not lines:
        session.queue.get(task_id)
    session.answer(lines, lambda: evidence_text(lines))


def evidence_text(lines: Iterable[Mapping[str, Any]]) -> str:
    """Evidence as a timeline."""
    rows = []
    for line in lines:
        rest = [_detail(name, value) for name, value in line.items() if name not in ("event", "at", "to")]
        to = line.get("to")
        rows.append((moment(line.get("at")), line.get("event"), f"→ {to}" if to else "", "  ".join(rest)))
    return tables.table(("when", "what", "", "details"), rows) if rows else "nothing was recorded"


def _detail(name: str, value: object) -> str:
    return f"{name.removesuffix('_ms')}={_shown(name, value)}"


def _shown(name: str, value: object) -> str:
    if name.endswith("_at") and isinstance(value, int):
        return moment(value)
    if name.endswith("_ms") and isinstance(value, int):
        return output.duration(value)
    return value if isinstance(value, str) else output.document(value)


@click.command()
@click.option("--limit", "-n", type=int, default=100, metavar="N", help="At most this many (100).")
@options.common
@options.pass_session
def audit(session: Session, limit: int) -> None:
    """Lists what operators decided.

    The last decisions, oldest first.
    """
    found = session.queue.audit(limit=limit)
    known = ("event", "at", "id", "by", "reason", "from", "to")

    def people() -> str:
        rows = []
        for line in found:
            more = "  ".join(_detail(name, value) for name, value in line.items() if name not in known)
            moved = f"{line.get('from', '')} → {line['to']}" if "to" in line else ""
            rows.append(
                (moment(line["at"]), line.get("by"), line["event"], line.get("id"), moved, line.get("reason"), more)
            )
        return tables.table(("when", "who", "what", "task", "moved", "reason", "details"), rows)

    session.answer(found, people)
