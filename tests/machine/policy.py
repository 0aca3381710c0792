"""Where a task goes when its lease ends, as section 6 of the design says it: the first rule that applies."""

from __future__ import annotations

from .task import ModelTask

COUNTED_AS = {
    "failed": "failures",
    "fatal": "failures",
    "expired": "expirations",
    "max_runtime": "expirations",
    "released": "releases",
    "revoked": "releases",
}


def count(task: ModelTask, cause: str) -> None:
    """Moves the one counter that a cause moves; completed and cancelled move none."""
    counter = COUNTED_AS.get(cause)
    if counter:
        setattr(task, counter, getattr(task, counter) + 1)


def destination(task: ModelTask, cause: str, *, delayed: bool) -> str:
    """The state that follows; the cause is counted already."""
    options = task.options
    if cause in ("completed", "cancelled"):
        return cause
    if options.side_effect == "non_idempotent" and task.open_effects > 0:
        return "reconciling"
    if cause == "fatal":
        return "dead"
    if cause == "failed" and options.max_same_error is not None and task.same_error[1] >= options.max_same_error:
        return "dead"
    if task.failures >= options.max_attempts or task.expirations >= options.max_expirations:
        return "dead"
    if cause == "failed" or delayed:
        return "scheduled"
    return "ready"
