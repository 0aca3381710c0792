"""The verbs of workers: `register`, `claim`, and what a holder does with its leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, TypeVar

import click

from redislease.cli import batches, inputs, leases, options, output
from redislease.cli.errors import ExitCode
from redislease.cli.session import Session
from redislease.errors import QueuePaused

F = TypeVar("F", bound=Callable[..., Any])


@click.command()
@click.argument("name", required=False)
@options.common
@options.pass_session
def register(session: Session, name: str | None) -> None:
    """Registers an identity to claim as.

    NAME is what the identity starts with: host and process by default. Prints the owner, NAME-N.
    """
    owner = session.queue.register(name)
    session.answer(owner, lambda: owner.name)


@click.command()
@click.option("--limit", "-n", type=click.IntRange(min=1), default=1, metavar="N", help="At most this many (1).")
@click.option("--wait", type=float, metavar="S", help="Seconds to wait while there is none.")
@click.option("--owner", metavar="NAME-N", help="Claim as a registered identity; a fresh one by default.")
@options.common
@options.pass_session
def claim(session: Session, limit: int, wait: float | None, owner: str | None) -> ExitCode | None:
    """Leases tasks.

    Prints each lease as a line of JSON, which renew, progress, complete, fail and release take with --jsonl.
    """
    queue = session.queue
    # Each invocation draws a request number, so that processes can claim under one identity after each other.
    identity = queue.register(owner=owner) if owner else None
    found = [leases.record(lease) for lease in queue.claim(limit, wait=wait, owner=identity)]
    session.answer(found, lambda: "\n".join(output.document(lease) for lease in found))
    if found:
        return None
    stats = queue.stats()
    if stats.pause:
        raise QueuePaused(
            f"queue {queue.name} is paused ({stats.pause}) by {stats.paused_by}"
            + (f": {stats.paused_reason}" if stats.paused_reason else "")
        )
    output.complain(session.nothing_ready(stats))
    return ExitCode.NOTHING


def _one_lease(command: F) -> F:
    """The options that name a single lease."""
    for option in (
        click.option("--token", type=int, metavar="N", help="... and its fencing token."),
        click.option("--generation", type=int, metavar="N", help="... its generation ..."),
        click.option("--owner", metavar="NAME-N", help="... who holds it ..."),
        click.option("--id", metavar="ID", help="Or its task ..."),
        click.option("--handle", metavar="HANDLE", help="The lease, as claim printed it."),
    ):
        command = option(command)
    return command


_PROOF = ("handle", "id", "owner", "generation", "token")


def _carry_out(
    session: Session,
    kind: type[leases.LeaseBatch[Any]],
    source: IO[bytes] | None,
    given: dict[str, Any],
    say: Callable[[dict[str, Any]], str],
) -> ExitCode | None:
    """One lease from the command line, or many from a stream; the options are the defaults of its lines."""
    proof = {name: given.pop(name) for name in _PROOF if given.get(name) is not None}
    defaults = {name: value for name, value in given.items() if name not in _PROOF and value is not None}
    batch = kind(session, defaults)
    if source is not None:
        if proof:
            raise click.UsageError("give one lease or --jsonl, not both", click.get_current_context())
        return batches.run(session, batch, source)
    answer = batch.one(proof)
    session.answer(answer, lambda: say(answer))
    return None


def _settled(answer: dict[str, Any]) -> str:
    parts = [f"{answer['id']} is {answer['status']}"]
    if "due_at" in answer:
        parts.append(f"and due at {output.moment(answer['due_at'])}")
    if answer.get("open_effects"):
        parts.append(f"with {output.counted(answer['open_effects'], 'effect')} in doubt")
    if answer.get("replay"):
        parts.append("(as was answered before)")
    return output.visible(" ".join(parts))


@click.command()
@_one_lease
@click.option("--lease", type=float, metavar="S", help="Seconds from now; the task's own length by default.")
@options.batched
@options.pass_session
def renew(session: Session, source: IO[bytes] | None, **given: Any) -> ExitCode | None:
    """Extends leases.

    A lease is never shortened, and one that is lost does not come back. With --jsonl, lines of handle and lease; 100
    share a round trip.
    """

    def say(answer: dict[str, Any]) -> str:
        capped = ", its longest" if answer["capped"] else ""
        return output.visible(
            f"{answer['id']} is held until {output.moment(answer['expires_at'])} "
            f"({output.duration(answer['remaining_ms'])}{capped})"
        )

    return _carry_out(session, leases.Renewals, source, given, say)


@click.command()
@_one_lease
@click.option("--done", type=float, metavar="X", help="How much is done.")
@click.option("--total", type=float, metavar="X", help="Of how much.")
@click.option("--note", metavar="TEXT", help="What to say about it.")
@options.batched
@options.pass_session
def progress(session: Session, source: IO[bytes] | None, **given: Any) -> ExitCode | None:
    """Reports how far the work is.

    Not a heartbeat: it does not extend the lease. With --jsonl, lines of handle, done, total and note.
    """
    return _carry_out(session, leases.Reports, source, given, lambda answer: "")


@click.command()
@_one_lease
@click.option("--result", metavar="JSON|-", help="The result, or - for standard input.")
@click.option("--result-ref", metavar="TEXT", help="Where a larger result lies.")
@options.batched
@options.pass_session
def complete(session: Session, source: IO[bytes] | None, result: str | None, **given: Any) -> ExitCode | None:
    """Ends leases: the work is done.

    With --jsonl, lines of handle, result and result_ref; 100 share a round trip.
    """
    given["result"] = inputs.json_argument(result, "the result")
    return _carry_out(session, leases.Completions, source, given, _settled)


@click.command()
@_one_lease
@click.option("--error", metavar="TEXT", help="What happened.")
@click.option("--fatal", is_flag=True, default=None, help="Do not try again.")
@click.option("--delay", type=float, metavar="S", help="Seconds until the next attempt; the task's backoff by default.")
@click.option("--not-done", is_flag=True, default=None, help="Nothing happened outside.")
@options.batched
@options.pass_session
def fail(session: Session, source: IO[bytes] | None, **given: Any) -> ExitCode | None:
    """Ends leases: the attempt failed.

    The recovery policy decides where each task goes. With --jsonl, lines of handle, error, fatal, delay and not_done;
    100 share a round trip.
    """
    return _carry_out(session, leases.Failures, source, given, _settled)


@click.command()
@_one_lease
@click.option("--delay", type=float, metavar="S", help="Seconds until it is ready again, behind what waits.")
@click.option("--interrupted", is_flag=True, default=None, help="The work was under way: an effect may have happened.")
@options.batched
@options.pass_session
def release(session: Session, source: IO[bytes] | None, **given: Any) -> ExitCode | None:
    """Gives leases back.

    With --jsonl, lines of handle, delay and interrupted; 100 share a round trip.
    """
    return _carry_out(session, leases.Returns, source, given, _settled)
