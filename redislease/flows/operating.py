"""What operators decide. A decision names the task as it was looked at, so that it never hits a later attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redislease import validation
from redislease.commands import inspect, operate
from redislease.commands.call import Call
from redislease.effect_records import Kept
from redislease.errors import InvalidInput, TaskUnknown
from redislease.flow import Flow, Run
from redislease.flows import looking
from redislease.flows.context import QueueContext
from redislease.models import Decided, Done, Paused, Stats, Task


def _token(context: QueueContext, task_id: str, token: int | None) -> Flow[int | None]:
    """The fencing token that the operator saw, or the one that the task has now."""
    if token is not None:
        return token
    task: Task = yield from looking.get(context, task_id)
    return task.fencing_token


def _decide(context: QueueContext, call: Call[Decided]) -> Flow[Decided]:
    """Carries a decision out; a task that is not there is named with its queue."""
    try:
        decided: Decided = yield Run(call)
    except TaskUnknown as unknown:
        raise TaskUnknown(f"{unknown} in queue {context.name}", task_id=unknown.task_id) from None
    return decided


def cancel(context: QueueContext, task_id: str, *, by: str, reason: str) -> Flow[Decided]:
    """Cancels a live task."""
    return _decide(context, operate.cancel(task_id, by=by, reason=reason))


def revoke(context: QueueContext, task_id: str, token: int | None, *, by: str, reason: str) -> Flow[Decided]:
    """Takes a lease away."""
    seen = yield from _token(context, task_id, token)
    return (yield from _decide(context, operate.revoke(task_id, seen, by=by, reason=reason)))


def requeue(context: QueueContext, task_id: str, token: int | None, *, by: str, reason: str) -> Flow[Decided]:
    """Makes a dead task ready again."""
    seen = yield from _token(context, task_id, token)
    return (yield from _decide(context, operate.requeue(task_id, seen, by=by, reason=reason)))


def resolve(
    context: QueueContext,
    task_id: str,
    decision: str,
    token: int | None,
    *,
    by: str,
    reason: str,
    effects: Mapping[str, str | Done] | None,
    result: Any,
    accept_late: bool,
) -> Flow[Decided]:
    """Decides a task in doubt; testimony that comes between reading and deciding is not taken in."""
    seen = yield from _token(context, task_id, token)
    found: dict[str, str | Done | Kept] = dict(effects or {})
    if accept_late:
        testimony: dict[str, Kept] = yield from looking.testimony(context, task_id)
        found = {**testimony, **found}
    call = operate.resolve(task_id, decision, seen, by=by, reason=reason, effects=found, result=result)
    return (yield from _decide(context, call))


def pause(context: QueueContext, level: str, *, by: str, reason: str) -> Flow[Paused]:
    """Pauses a queue at a level."""
    if level not in operate.LEVELS:
        raise InvalidInput(f"level must be one of {', '.join(operate.LEVELS)}, not {validation.shown(level)}")
    return _set_level(context, level, by=by, reason=reason)


def resume(context: QueueContext, *, by: str, reason: str) -> Flow[Paused]:
    """Ends a pause."""
    return _set_level(context, "", by=by, reason=reason)


def _set_level(context: QueueContext, level: str, *, by: str, reason: str) -> Flow[Paused]:
    seen: Stats = yield Run(inspect.stats(context.name))
    paused: Paused = yield Run(operate.pause(level, seen.epoch, by=by, reason=reason))
    return paused
