"""`reconcile`: tasks of which nobody knows whether their effect happened."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import click

from redislease.cli import history, inputs, looking, options
from redislease.cli import why as explanations
from redislease.cli.operating import say_decided
from redislease.cli.session import Session
from redislease.commands.operate import DECISIONS, VERDICTS
from redislease.errors import InvalidInput
from redislease.models import Done


@click.group()
def reconcile() -> None:
    """Decides tasks whose effects are in doubt."""


@reconcile.command("list")
@click.option("--limit", "-n", type=int, default=100, metavar="N", help="At most this many of each kind (100).")
@options.common
@options.pass_session
def list_(session: Session, limit: int) -> None:
    """Lists them.

    Tasks that wait for a decision, and ended ones that still have an effect in doubt.
    """
    queue = session.queue
    found = [*queue.tasks("reconciling", limit=limit), *queue.tasks("unsettled", limit=limit)]
    session.answer(found, lambda: looking.tasks_table(session, found) if found else "nothing is in doubt")


@reconcile.command("show")
@click.argument("task_id", metavar="ID")
@options.common
@options.pass_session
def show(session: Session, task_id: str) -> None:
    """Shows one.

    What is known of the task, what happened to it, and what can be decided.
    """
    told = explanations.explain(session, task_id)
    detail, effects = session.queue.detail(task_id), session.queue.effects(task_id)
    evidence = session.queue.evidence(task_id)

    def people() -> str:
        task = looking.task_text(session, detail, effects)
        return "\n\n".join((explanations.as_text(told), task, history.evidence_text(evidence)))

    session.answer({"why": told, **dict(detail), "effects": effects, "evidence": evidence}, people)


def verdicts(given: Iterable[str], outcomes: Iterable[str]) -> dict[str, str | Done]:
    """What was found out of effects, by their names: from `NAME=done` and `NAME=not_done`, and from `NAME=JSON`.

    Raises:
        InvalidInput: One has another form, or two contradict each other.
    """
    found: dict[str, str | Done] = {}
    for one in given:
        name, equals, verdict = one.rpartition("=")
        if not equals or not name or verdict not in VERDICTS:
            raise InvalidInput(f"--effect takes NAME={' or NAME='.join(VERDICTS)}, not {one!r}")
        if found.setdefault(name, verdict) != verdict:
            raise InvalidInput(f"--effect {name} is given twice and differs")
    for one in outcomes:
        name, outcome = _name_and_json(one)
        if not name or found.get(name, "done") != "done":
            raise InvalidInput(f"--outcome takes NAME=JSON of an effect that was done, not {one!r}")
        found[name] = Done(inputs.json_value(outcome, "the outcome"))
    return found


def _name_and_json(given: str) -> tuple[str, str]:
    """Both sides of the first `=` behind which JSON stands, since names may hold one; of the first of all, if none."""
    parts = given.split("=")
    for size in range(1, len(parts)):
        with suppress(InvalidInput):
            inputs.json_value("=".join(parts[size:]), "the outcome")
            return "=".join(parts[:size]), "=".join(parts[size:])
    name, equals, outcome = given.partition("=")
    return name if equals else "", outcome


@reconcile.command("resolve")
@click.argument("task_id", metavar="ID")
@click.argument("decision", type=click.Choice(DECISIONS), metavar="done|retry|dead")
@click.option(
    "--effect", "effects", multiple=True, metavar="NAME=done|not_done", help="What you found out of an effect."
)
@click.option("--outcome", "outcomes", multiple=True, metavar="NAME=JSON", help="It was done, with this outcome.")
@click.option("--accept-late", is_flag=True, help="Believe what a worker said after it had lost its lease.")
@click.option("--result", metavar="JSON|-", help="The task's result, with done.")
@click.option("--token", type=click.IntRange(1, 2**53 - 1), metavar="N", help="The fencing token as you saw it.")
@options.signed
@options.pass_session
def resolve(
    session: Session,
    task_id: str,
    decision: str,
    effects: tuple[str, ...],
    outcomes: tuple[str, ...],
    accept_late: bool,
    result: str | None,
    token: int | None,
) -> None:
    """Decides one.

    done: it happened, the task is completed. retry: it did not happen, the task is ready again. dead: it is given up.
    The effect of a task that records none is called handler.
    """
    decided = session.queue.resolve(
        task_id,
        decision,
        token=token,
        by=session.operator,
        reason=session.reason,
        effects=verdicts(effects, outcomes),
        accept_late=accept_late,
        result=inputs.json_argument(result, "the result"),
    )
    session.answer({"id": task_id, **dict(decided)}, lambda: say_decided(task_id, decided))
