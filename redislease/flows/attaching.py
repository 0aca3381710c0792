"""Taking up a lease that another process of the same worker holds."""

from __future__ import annotations

from redislease import local_clock
from redislease.commands.hold import raise_lost
from redislease.errors import InvalidInput, reading
from redislease.flow import Flow, Read
from redislease.flows import looking, settling
from redislease.flows.context import QueueContext
from redislease.handle import Handle
from redislease.models import Grant, Lost, Renewed, Task


def attach(context: QueueContext, encoded: str) -> Flow[tuple[str, Grant, float, int]]:
    """Renews the lease of a handle and reads its task.

    Answers owner, grant, the local time before the renewal, and the number of the lease's last report of progress.
    """
    handle = Handle.decode(encoded)
    if handle.queue != context.name:
        raise InvalidInput(f"the handle is of queue {handle.queue!r}, not {context.name!r}")
    sent_s = local_clock.elapsed_s()
    answer: Renewed | Lost = yield from settling.renew(handle, None, 0.0)
    if isinstance(answer, Lost):
        raise_lost(handle, answer)
    assert isinstance(answer, Renewed)
    task: Task = yield from looking.get(context, handle.id)
    payload, retry, progress = yield Read(
        [
            ("HGET", context.keys.payloads, handle.id),
            ("HGET", context.keys.task(handle.id), "retry"),
            ("HGET", context.keys.progress, handle.id),
        ]
    )
    grant = Grant(
        id=handle.id,
        name=task.name,
        side_effect=task.side_effect,
        generation=handle.generation,
        token=handle.token,
        expires_at=answer.expires_at,
        remaining_ms=answer.remaining_ms,
        lease_ms=task.lease_ms,
        runtime_deadline=task.runtime_deadline,
        attempts=task.attempts,
        failures=task.failures,
        priority=task.priority,
        idempotency_key=task.idempotency_key,
        retry=(retry or b"").decode(),
        created_at=task.created_at,
        records_effects=task.records_effects,
        unstarted=False,
        payload=payload or b"",
    )
    return handle.owner, grant, sent_s, last_report(handle, progress)


def last_report(handle: Handle, stored: bytes | None) -> int:
    """The number of the last report of progress under a lease; the next one counts on, whichever process sends it."""
    with reading(f"the progress of task {handle.id}"):
        token, number = (stored or b"0 0").split(b" ")[:2]
        return int(number) if int(token) == handle.token else 0
