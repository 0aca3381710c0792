"""Putting tasks into a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redislease.commands import enqueue as commands
from redislease.errors import IdempotencyConflict, QueueExhausted, TaskConflict
from redislease.flow import Announce, Flow, Run
from redislease.flows import looking
from redislease.flows.context import QueueContext
from redislease.models import Conflict, Enqueued, Task


def raise_conflict(conflict: Conflict, asked: str) -> None:
    """Raises the error that a refused item means."""
    if conflict.reason == "key_conflict":
        raise IdempotencyConflict(
            f"the idempotency key of {asked!r} belongs to task {conflict.id}, which has another name, class or payload",
            task_id=conflict.id,
        )
    if conflict.reason == "exhausted":
        raise QueueExhausted("the queue's sequence has reached its limit")
    raise TaskConflict(f"task {conflict.id} exists and is a different one", task_id=conflict.id)


def enqueue(context: QueueContext, asked: Mapping[str, Any]) -> Flow[Task]:
    """Stores one task and answers it as the server holds it."""
    request = commands.request(asked)
    item = commands.item(request)
    yield Announce()
    answers: list[Enqueued | Conflict] = yield Run(commands.enqueue([item]))
    answer = answers[0]
    if isinstance(answer, Conflict):
        raise_conflict(answer, request.name)
        raise AssertionError
    if not answer.created:
        existing = yield from looking.get(context, answer.id)
        return existing
    return _as_stored(context, request, item, answer)


def _as_stored(context: QueueContext, request: commands.EnqueueRequest, item: commands.Item, answer: Enqueued) -> Task:
    """The new task from what was sent, without a second round trip."""
    stored = {name: str(value) for name, value in commands.stored_fields(item).items() if value != ""}
    stored |= {"status": answer.status, "created_at": str(answer.now)}
    due: int | None = None
    if answer.status == "scheduled":
        due = commands.due_at(request, answer.now)
    task = Task.from_hash(context.name, item.id, stored, available_at=due)
    return task.model_copy(update={"created": True})


def enqueue_many(
    context: QueueContext, requests: Sequence[commands.EnqueueRequest | Mapping[str, Any]]
) -> Flow[list[Enqueued | Conflict]]:
    """Stores many tasks, at most 500 or 4 MiB in a call; all are checked before the first is sent."""
    return store([commands.item(commands.request(one)) for one in requests])


def store(items: Sequence[commands.Item]) -> Flow[list[Enqueued | Conflict]]:
    """Stores checked requests, at most 500 or 4 MiB in a call."""
    if items:
        yield Announce()
    answers: list[Enqueued | Conflict] = []
    for batch in commands.batches(items):
        answers += yield Run(commands.enqueue(batch))
    return answers
