"""What operators decide. A decision names the task as it was looked at, so that it never hits a later attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redislease import validation
from redislease.commands import inspect, operate
from redislease.effect_records import Kept
from redislease.errors import InvalidInput
from redislease.flow import Flow, Run, run
from redislease.flows import looking
from redislease.flows.context import QueueContext
from redislease.models import Decided, Done, Paused, Stats, Task


def _token(context: QueueContext, task_id: str, token: int | None) -> Flow[int | None]:
    """The fencing token that the operator saw, or the one that the task has now."""
    if token is not None:
        return token
    task: Task = yield from looking.get(context, task_id)
    return task.fencing_token


def cancel(context: QueueContext, task_id: str, *, by: str, reason: str) -> Flow[Decided]:
    """Cancels a live task."""
    return run(operate.cancel(task_id, by=by, reason=reason))


def revoke(context: QueueContext, task_id: str, token: int | None, *, by: str, reason: str) -> Flow[Decided]:
    """Takes a lease away."""
    seen = yield from _token(context, task_id, token)
    decided: Decided = yield Run(operate.revoke(task_id, seen, by=by, reason=reason))
    return decided


def requeue(context: QueueContext, task_id: str, token: int | None, *, by: str, reason: str) -> Flow[Decided]:
    """Makes a dead task ready again."""
    seen = yield from _token(context, task_id, token)
    decided: Decided = yield Run(operate.requeue(task_id, seen, by=by, reason=reason))
    return decided


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
    decided: Decided = yield Run(call)
    return decided


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
