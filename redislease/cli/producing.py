"""The verb of producers: `enqueue`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import IO, Any

import click

from redislease import limits
from redislease.backoff import Backoff
from redislease.cli import batches, inputs, options, output
from redislease.cli.errors import ExitCode
from redislease.cli.session import Session
from redislease.commands import enqueue as commands
from redislease.errors import InvalidInput, RedisLeaseError
from redislease.flows import producing
from redislease.models import Conflict, Enqueued, SideEffect


def date(value: Any) -> datetime:
    """A date with a time zone, as ISO 8601 writes it.

    Raises:
        InvalidInput: It is not one.
    """
    try:
        return datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise InvalidInput(f"at must be a date such as 2030-01-31T09:00:00+01:00, not {value!r}") from None


class Enqueueing(batches.Batch[commands.Item]):
    """Requests to store.

    Args:
        session: The invocation.
        defaults: The fields of a line that leaves them out.
    """

    portion = limits.ENQUEUE_BATCH

    def __init__(self, session: Session, defaults: Mapping[str, Any]) -> None:
        self._queue = session.queue
        self._defaults = defaults

    def request(self, line: Mapping[str, Any]) -> commands.EnqueueRequest:
        """The request of a line."""
        fields = {**self._defaults, **line}
        if "task_id" in fields:
            raise InvalidInput("no such field: task_id; an id of your own is called id")
        if "id" in fields:
            fields["task_id"] = fields.pop("id")
        for name, read in (("at", date), ("retry", Backoff.read)):
            if fields.get(name) is not None:
                fields[name] = read(fields[name])
        return commands.request(fields)

    def read(self, line: Mapping[str, Any]) -> commands.Item:
        return commands.item(self.request(line))

    def carry_out(self, things: Sequence[commands.Item]) -> list[batches.Outcome]:
        answers = self._queue._drive(producing.store(things))
        return [_outcome(answer) for answer in answers]


def _outcome(answer: Enqueued | Conflict) -> batches.Outcome:
    if isinstance(answer, Enqueued):
        return {"id": answer.id, "created": answer.created, "status": answer.status}
    try:
        producing.raise_conflict(answer, answer.id)
    except RedisLeaseError as conflict:
        return conflict
    raise AssertionError


@click.command()
@click.argument("name", required=False)
@click.argument("payload", required=False, metavar="[PAYLOAD|-]")
@click.option("--name", "default_name", metavar="NAME", help="The name, for lines that leave it out.")
@click.option("--side-effect", type=click.Choice([one.value for one in SideEffect]), help="What it may do outside.")
@click.option("--records-effects", is_flag=True, default=None, help="The handler records each effect.")
@click.option("--idempotency-key", metavar="KEY", help="What makes it the same as another.")
@click.option("--id", metavar="ID", help="An id of your own.")
@click.option("--priority", type=int, metavar="N", help="-100 to 100; higher goes first (0).")
@click.option("--delay", type=float, metavar="S", help="Seconds to wait first.")
@click.option("--at", metavar="DATE", help="When to start: ISO 8601 with a time zone.")
@click.option(
    "--lease-duration",
    "--lease",
    type=float,
    metavar="S",
    help=f"Seconds that a lease lasts ({limits.LEASE_MS / 1000:g}).",
)
@click.option("--max-attempts", type=int, metavar="N", help=f"Failures until it is dead ({limits.MAX_ATTEMPTS}).")
@click.option(
    "--max-expirations", type=int, metavar="N", help=f"Expired leases until it is dead ({limits.MAX_EXPIRATIONS})."
)
@click.option(
    "--max-runtime", type=float, metavar="S", help="Seconds that one attempt may take, more than its lease (no limit)."
)
@click.option("--max-same-error", type=int, metavar="N", help="Equal failures in a row until it is dead.")
@click.option("--retry", metavar="BASE[:FACTOR[:CAP[:JITTER]]]", help="Seconds to wait after a failure (1:2:600:0.5).")
@click.option("--credential", metavar="NAME", help="The credential that it needs.")
@options.batched
@options.pass_session
def enqueue(
    session: Session,
    name: str | None,
    payload: str | None,
    default_name: str | None,
    source: IO[bytes] | None,
    **given: Any,
) -> ExitCode | None:
    """Stores a task, or many.

    PAYLOAD is a JSON object, or - for standard input. Prints the task's id.

    With --jsonl, each line is an object of name, payload, side_effect and the other fields above, durations in seconds;
    the options are the defaults of what a line leaves out. 500 lines share a round trip. Each line is answered with a
    line; a broken one is reported, and the others go on.
    """
    fields = {field: value for field, value in {"name": name or default_name, **given}.items() if value is not None}
    if payload is not None:
        fields["payload"] = inputs.json_argument(payload, "the payload")
    if source is not None:
        return batches.run(session, Enqueueing(session, fields), source)
    for field, what in (("name", "NAME"), ("side_effect", "--side-effect")):
        if field not in fields:
            raise click.UsageError(f"{what} is missing", click.get_current_context())
    answer = Enqueueing(session, fields).one({})
    session.answer(answer, lambda: str(answer["id"]))
    if not answer["created"]:
        output.complain(f"task {answer['id']} was there before; it is {answer['status']}")
    return None
