"""Waiting for the end of a task."""

from __future__ import annotations

import time

from redislease import validation
from redislease.commands.replies import text
from redislease.errors import TaskNotCompleted, TaskUnknown, WaitTimeout
from redislease.flow import Flow, Read, Sleep
from redislease.flows.context import QueueContext
from redislease.models import Status

FIRST_PAUSE_S = 0.01
PAUSE_S_MAX = 0.5
WAIT_MS_MAX = 30 * 86_400_000


def result(context: QueueContext, task_id: str, timeout: object) -> Flow[bytes]:
    """The stored result of a task, once it is completed; b'' for none.

    Raises:
        TaskNotCompleted: It is dead or cancelled.
        TaskUnknown: There is no such task.
        WaitTimeout: It had not ended within the time given.
    """
    checked = validation.task_id(task_id)
    wait_ms = None if timeout is None else validation.duration_ms(timeout, "timeout", low_ms=0, high_ms=WAIT_MS_MAX)
    deadline = None if wait_ms is None else time.monotonic() + wait_ms / 1000
    pause_s = FIRST_PAUSE_S
    keys = context.keys
    while True:
        (status, error), stored = yield Read(
            [("HMGET", keys.task(checked), "status", "last_error"), ("HGET", keys.results, checked)]
        )
        if status is None:
            raise TaskUnknown(f"there is no task {checked} in queue {context.name}", task_id=checked)
        state = Status(text(status))
        if state == Status.COMPLETED:
            return bytes(stored or b"")
        if state.ended:
            raise TaskNotCompleted(task_id=checked, status=str(state), last_error=text(error) if error else None)
        if deadline is not None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise WaitTimeout(f"task {checked} is {state}; it had not ended within the time given")
            pause_s = min(pause_s, left_s)
        yield Sleep(pause_s)
        pause_s = min(pause_s * 1.5, PAUSE_S_MAX)
