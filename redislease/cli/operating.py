"""The verbs by which operators decide about tasks and the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from redislease import limits
from redislease.cli import options, output
from redislease.cli.errors import ExitCode, describe, exit_code, message, worst
from redislease.cli.looking import tasks_table
from redislease.cli.session import Session
from redislease.commands.operate import LEVELS
from redislease.errors import RedisLeaseError, ServerError
from redislease.models import Decided, Status, Task

Decide = Callable[[str, int | None], Decided]
"""One decision: of a task, seen under a fencing token."""


def say_decided(task_id: str, decided: Decided) -> str:
    """A decision in words."""
    return output.visible(f"{task_id} is {decided.status}; fence {decided.fence}")


def decide_each(session: Session, targets: Sequence[tuple[str, int | None]], decide: Decide) -> ExitCode:
    """Decides about tasks one by one; a refusal of one of many does not stop the others."""
    if len(targets) == 1:
        (target,) = targets
        decided = decide(*target)
        session.answer({"id": target[0], **dict(decided)}, lambda: say_decided(target[0], decided))
        return ExitCode.DONE
    answers: list[dict[str, Any]] = []
    said: list[str] = []
    codes: list[ExitCode] = []
    for task_id, token in targets:
        try:
            decided = decide(task_id, token)
        except ServerError:
            output.complain(f"stopped at {task_id}: {len(answers)} of {len(targets)} were decided about")
            raise
        except RedisLeaseError as problem:
            output.complain(f"{task_id}: {message(problem)}")
            answers.append({"id": task_id, **describe(problem)})
            codes.append(exit_code(problem))
        else:
            answers.append({"id": task_id, **dict(decided)})
            said.append(say_decided(task_id, decided))
    session.answer(answers, lambda: "\n".join([*said, f"{len(said)} of {output.counted(len(targets), 'task')} done"]))
    return worst(codes)


def _all_of(session: Session, status: str, limit: int) -> Iterator[Task]:
    """The first tasks of a state, read in pages."""
    for offset in range(0, limit, limits.BATCH):
        page = session.queue.tasks(status, limit=min(limits.BATCH, limit - offset), offset=offset)
        yield from page
        if len(page) < limits.BATCH:
            return


def decide_about(
    session: Session,
    ids: Sequence[str],
    status: str | None,
    decide: Decide,
    *,
    token: int | None = None,
    limit: int,
    dry_run: bool,
) -> ExitCode:
    """Decides about the tasks that were named, or about those of a state; `dry_run` only tells which."""
    if bool(ids) == (status is not None):
        raise click.UsageError("which tasks? Name their ids, or all of them", click.get_current_context())
    if token is not None and len(ids) != 1:
        raise click.UsageError("--token goes with one id", click.get_current_context())
    if not dry_run and ids:
        return decide_each(session, [(task_id, token) for task_id in ids], decide)
    found = [session.queue.get(task_id) for task_id in ids] if ids else list(_all_of(session, status or "", limit))
    if dry_run:
        total = f"{output.counted(len(found), 'task')} would be decided about; nothing was changed"
        session.answer(found, lambda: f"{tasks_table(session, found)}\n{total}" if found else total)
        return ExitCode.DONE
    if not found:
        session.answer([], lambda: f"no task is {status}")
        return ExitCode.DONE
    return decide_each(session, [(task.id, task.fencing_token) for task in found], decide)


_ids = click.argument("ids", nargs=-1, metavar="[ID]...")
_token = click.option("--token", type=int, metavar="N", help="The fencing token under which you saw the task.")
_limit = click.option("--limit", "-n", type=click.IntRange(min=1), default=limits.BATCH, metavar="N",
                      help=f"At most this many of all ({limits.BATCH:,}).")  # fmt: skip
_dry_run = click.option("--dry-run", is_flag=True, help="Only tell which tasks it would be.")


@click.command()
@_ids
@click.option(
    "--status",
    type=click.Choice([one.value for one in Status if not one.ended]),
    help="All tasks of a state instead.",
)
@_limit
@_dry_run
@options.signed
@options.pass_session
def cancel(session: Session, ids: tuple[str, ...], status: str | None, limit: int, dry_run: bool) -> ExitCode:
    """Cancels tasks for good.

    A holder of the lease is told, and can do nothing more.
    """

    def decide(task_id: str, _: int | None) -> Decided:
        return session.queue.cancel(task_id, by=session.operator, reason=session.reason)

    return decide_about(session, ids, status, decide, limit=limit, dry_run=dry_run)


@click.command()
@_ids
@click.option("--all", "everything", is_flag=True, help="All leases of the queue instead.")
@_token
@_limit
@_dry_run
@options.signed
@options.pass_session
def revoke(
    session: Session, ids: tuple[str, ...], everything: bool, token: int | None, limit: int, dry_run: bool
) -> ExitCode:
    """Takes leases away.

    The recovery policy decides where the tasks go.
    """

    def decide(task_id: str, seen: int | None) -> Decided:
        return session.queue.revoke(task_id, token=seen, by=session.operator, reason=session.reason)

    status = "leased" if everything else None
    return decide_about(session, ids, status, decide, token=token, limit=limit, dry_run=dry_run)


@click.command()
@_ids
@click.option("--all", "everything", is_flag=True, help="All dead tasks instead.")
@_token
@_limit
@_dry_run
@options.signed
@options.pass_session
def requeue(
    session: Session, ids: tuple[str, ...], everything: bool, token: int | None, limit: int, dry_run: bool
) -> ExitCode:
    """Makes dead tasks ready again.

    Behind what waits now, with a clean record.
    """

    def decide(task_id: str, seen: int | None) -> Decided:
        return session.queue.requeue(task_id, token=seen, by=session.operator, reason=session.reason)

    status = "dead" if everything else None
    return decide_about(session, ids, status, decide, token=token, limit=limit, dry_run=dry_run)


@click.command()
@click.option("--level", type=click.Choice(LEVELS), default=LEVELS[0], help="Claims, or new effects too.")
@options.signed
@options.pass_session
def pause(session: Session, level: str) -> None:
    """Stops claims.

    Leases that are held go on. With --level effects, holders may begin no new effect either.
    """
    paused = session.queue.pause(level, by=session.operator, reason=session.reason)
    session.answer(paused, lambda: f"queue {session.queue.name} is paused ({paused.level})")


@click.command()
@options.signed
@options.pass_session
def resume(session: Session) -> None:
    """Ends a pause.

    Sleeping workers are woken.
    """
    resumed = session.queue.resume(by=session.operator, reason=session.reason)
    session.answer(resumed, lambda: f"queue {session.queue.name} is running")
