"""What an operator decides, in the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .queue import ModelQueue
from .refusal import Outcome
from .task import HANDLER, NO_TRY, ModelTask

GOES_TO = {"done": "completed", "retry": "ready", "dead": "dead"}
UNKNOWN: Outcome = ("task_unknown",)


def _not_now(task: ModelTask, reason: str) -> Outcome:
    return "not_allowed", reason, task.status


def _decided(queue: ModelQueue, task: ModelTask, nonce: str) -> Outcome:
    answer = "decided", task.status, queue.fence
    task.decided = nonce, answer
    return answer


def _before(task: ModelTask, nonce: str) -> Outcome | None:
    return task.decided[1] if task.decided and task.decided[0] == nonce else None


def _forgive(task: ModelTask) -> None:
    task.failures = task.expirations = 0
    task.same_error = "", 0


def cancel(queue: ModelQueue, task_id: str, nonce: str) -> Outcome:
    """Ends a live task for good."""
    task = queue.tasks.get(task_id)
    if task is None:
        return UNKNOWN
    if answer := _before(task, nonce):
        return answer
    if task.terminal:
        return _not_now(task, "status")
    if task.status == "leased":
        queue.take_lease(task, "cancelled")
    else:
        queue.raise_fence()
        queue.move(task, "cancelled")
        queue.counters["cancelled"] += 1
    return _decided(queue, task, nonce)


def revoke(queue: ModelQueue, task_id: str, token: int | None, nonce: str) -> Outcome:
    """Takes a lease away from its holder."""
    task = queue.tasks.get(task_id)
    if task is None:
        return UNKNOWN
    if answer := _before(task, nonce):
        return answer
    if task.status != "leased":
        return _not_now(task, "status")
    if task.token != token:
        return _not_now(task, "token")
    queue.take_lease(task, "revoked")
    return _decided(queue, task, nonce)


def requeue(queue: ModelQueue, task_id: str, token: int | None, nonce: str) -> Outcome:
    """Gives a dead task another life, behind what waits."""
    task = queue.tasks.get(task_id)
    if task is None:
        return UNKNOWN
    if answer := _before(task, nonce):
        return answer
    if task.status != "dead":
        return _not_now(task, "status")
    if task.token != token:
        return _not_now(task, "token")
    if task.options.side_effect == "non_idempotent" and task.open_effects:
        return _not_now(task, "open_effects")
    queue.raise_fence()
    _forgive(task)
    task.sequence = None
    queue.move(task, "ready")
    queue.counters["requeued"] += 1
    return _decided(queue, task, nonce)


def resolve(
    queue: ModelQueue,
    task_id: str,
    decision: str,
    token: int | None,
    nonce: str,
    found: Mapping[str, tuple[str, Any]],
    result: Any,
) -> Outcome:
    """Decides a task in doubt; of one that has ended only the effects."""
    task = queue.tasks.get(task_id)
    if task is None:
        return UNKNOWN
    if decision == "retry" and found.get(HANDLER, ("",))[0] == "done":
        return ("invalid",)
    if answer := _before(task, nonce):
        return answer
    if task.token != token:
        return _not_now(task, "token")
    in_doubt = task.status == "reconciling" or (task.unsettled_since is not None and decision != "retry")
    if not in_doubt:
        return _not_now(task, "status")
    decides_nothing = task.unsettled_since is not None and not found
    if decides_nothing or (decision == "retry" and set(task.open_keys) - set(found)):
        return _not_now(task, "open_effects")
    if wrong := _not_open(task, found):
        return wrong
    queue.raise_fence()
    for key, (verdict, outcome) in found.items():
        if key == HANDLER:
            task.handler_open = False
        else:
            effect = task.effects[key]
            if effect.nonce != NO_TRY:
                effect.earlier, effect.nonce = (effect.token, effect.nonce), NO_TRY
            effect.state, effect.outcome = verdict, outcome
    _forgive(task)
    queue.counters["resolved"] += 1
    if task.status == "reconciling":
        if decision == "done" and result is not None:
            task.result = result
        queue.move(task, GOES_TO[decision])
    elif not task.open_effects:
        task.unsettled_since = None
        task.since = queue.now
    return _decided(queue, task, nonce)


def _not_open(task: ModelTask, found: Mapping[str, Any]) -> Outcome | None:
    for key in found:
        if key not in task.open_keys:
            closed_by_another = (key == HANDLER or key in task.effects) and task.terminal and task.decided
            return _not_now(task, "effect") if closed_by_another else ("invalid",)
    return None


def pause(queue: ModelQueue, level: str, epoch: int, nonce: str) -> Outcome:
    """Pauses a queue, or lets it go on."""
    if queue.pause_decided and queue.pause_decided[0] == nonce:
        return queue.pause_decided[1]
    if epoch != queue.epoch:
        return "not_allowed", "epoch", queue.pause
    queue.pause = level
    queue.epoch += 1
    answer = "paused", level, queue.epoch
    queue.pause_decided = nonce, answer
    return answer
