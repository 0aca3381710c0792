"""What a holder does, in the reference: renew, the three endings, and effects."""

from __future__ import annotations

import re
from typing import Any

from .queue import ModelQueue
from .refusal import Outcome, refusal
from .task import NO_TRY, Held, ModelEffect, ModelTask


def _refused(queue: ModelQueue, held: Held, verb: str) -> Outcome | None:
    return refusal(queue.tasks, held, verb, queue.now, queue.fence)


def renew(queue: ModelQueue, held: Held, asked_ms: int | None) -> Outcome:
    """Extends a lease; only a clock that stepped back, or the cap, makes its end come sooner."""
    if refused := _refused(queue, held, "renew"):
        return refused
    task = queue.tasks[held.id]
    assert task.expires_at is not None
    assert task.renewed_at is not None
    length = task.options.lease_ms if asked_ms is None else asked_ms
    if queue.now < task.renewed_at:
        expires_at = queue.now + max(length, task.expires_at - task.renewed_at)
    else:
        expires_at = max(task.expires_at, queue.now + length)
    if task.deadline is not None:
        expires_at = min(task.deadline, expires_at)
    task.expires_at = expires_at
    task.renewed_at = queue.now
    task.renewals += 1
    return "renewed", expires_at, expires_at - queue.now, expires_at == task.deadline


def progress(queue: ModelQueue, held: Held) -> Outcome:
    """A report extends nothing and ends nothing."""
    return _refused(queue, held, "progress") or ("settled", "leased", None, 0, False)


def complete(queue: ModelQueue, held: Held, result: Any, result_ref: str | None = None) -> Outcome:
    """The work is done."""
    if refused := _refused(queue, held, "complete"):
        return refused
    task = queue.tasks[held.id]
    task.handler_open = False
    if result is not None:
        task.result = result
    if result_ref is not None:
        task.result_ref = result_ref
    return _settled(queue, task, "complete", "completed")


def fail(queue: ModelQueue, held: Held, error: str, *, retry: bool, delay_ms: int, not_done: bool) -> Outcome:
    """The attempt failed."""
    if refused := _refused(queue, held, "fail"):
        return refused
    task = queue.tasks[held.id]
    if not_done:
        task.handler_open = False
    if retry:
        kind = re.sub(r"\d+", "#", error)
        task.same_error = kind, (task.same_error[1] + 1 if task.same_error[0] == kind else 1)
    return _settled(queue, task, "fail", "failed" if retry else "fatal", delay_ms)


def release(queue: ModelQueue, held: Held, delay_ms: int | None, *, interrupted: bool) -> Outcome:
    """The task is given back."""
    if refused := _refused(queue, held, "release"):
        return refused
    task = queue.tasks[held.id]
    if not interrupted:
        task.handler_open = False
    if delay_ms is not None:
        task.sequence = None
    return _settled(queue, task, "release", "released", delay_ms)


def _settled(queue: ModelQueue, task: ModelTask, verb: str, cause: str, delay_ms: int | None = None) -> Outcome:
    ended = queue.end_lease(task, verb, cause, delay_ms=delay_ms)
    return "settled", ended.status, ended.due_at, ended.open_effects, False


def intend(queue: ModelQueue, held: Held, key: str, nonce: str, request: Any) -> Outcome:
    """An effect is about to happen."""
    if refused := _refused(queue, held, "intent"):
        return refused
    task = queue.tasks[held.id]
    record = task.effects.get(key)
    mine = record is not None and record.token == held.token
    if record and mine and record.nonce == nonce and record.state == "open":
        return "intent", "again" if record.left_open_by else "open"
    if queue.pause == "effects":
        return "intent", "paused"
    if task.options.side_effect == "read_only":
        return "intent", "read_only"
    if record:
        answer = _met(task, record, mine, nonce, request)
        if answer:
            return "intent", answer
    left_open_by = record.generation if record and record.state == "open" else None
    spent = record.over() if record and mine else ()
    begun = ModelEffect(held.token, held.generation, nonce, request, left_open_by=left_open_by, spent=spent)
    if record:
        known = mine or record.nonce == NO_TRY or record.state == "not_done"
        begun.earlier = record.earlier if known else (record.token, record.nonce)
        begun.testimony, begun.said_by = (record.testimony, record.said_by) if record.says_done else (None, 0)
    task.effects[key] = begun
    return "intent", "again" if left_open_by else "open"


def _met(task: ModelTask, record: ModelEffect, mine: bool, nonce: str, request: Any) -> str | None:
    """What is answered about an effect that was begun before; None: go ahead."""
    under_way = record.state != "not_done" and record.nonce != NO_TRY
    if mine and (nonce in (record.nonce, *record.spent) or under_way):
        return "reused"
    if record.state == "not_done":
        return None
    if record.request != request:
        return "conflict"
    if record.state == "done":
        return "done"
    return "ambiguous" if task.options.side_effect == "non_idempotent" else None


def tell(queue: ModelQueue, held: Held, key: str, nonce: str, verdict: str, outcome: Any) -> Outcome:
    """What became of an effect; from a holder no more it is testimony, if it has begun it.

    That it was done counts more than that it was not, which speaks of no earlier lease's try.
    """
    task = queue.tasks.get(held.id)
    record = task.effects.get(key) if task else None
    mine = record is not None and (record.token, record.nonce) == (held.token, nonce)
    if record and mine and (record.state, record.outcome) == (verdict, outcome):
        return "told", "ok"
    if record and record.token == held.token and verdict == "not_done" and nonce in record.spent:
        return "told", "ok"
    if refused := _refused(queue, held, "outcome"):
        if record and (mine or record.earlier == (held.token, nonce)):
            alone = mine and record.state == "open" and record.testimony is None and not record.left_open_by
            better = not record.says_done or (mine and record.said_by != held.token)
            if better if verdict == "done" else alone:
                record.testimony, record.said_by = (verdict, outcome), held.token
        return refused
    if record is None or not mine:
        return "told", "unknown_effect"
    if record.state != "open":
        return "told", "closed"
    if verdict == "not_done" and record.left_open_by:
        # What an earlier lease had begun is in doubt again.
        record.spent, record.nonce = record.over(), NO_TRY
        record.generation, record.left_open_by = record.left_open_by, None
    else:
        record.state, record.outcome = verdict, outcome
    return "told", "ok"
