"""One attempt at a task: its handler, its lease, and how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redislease.async_lease import AsyncLease
from redislease.commands.settle import Completion, Failure, Return
from redislease.errors import InvalidInput, LeaseLost, QueuePaused, ServerOutOfMemory
from redislease.lease import Lease
from redislease.models import Grant
from redislease.task import BoundTask
from redislease.worker.context import lease_of_handler

LOG = logging.getLogger("redislease.worker")

Ending = Completion | Failure | Return


@dataclass(eq=False, slots=True)
class Attempt:
    """A task of this worker from its claim to its end.

    Attributes:
        task: The handler.
        lease: The lease, of the flavour that the handler wants.
        args: The handler's positional arguments, the lease among them.
        kwargs: Its other arguments.
        running: The asyncio task of an async handler.
        interrupted: The worker is shutting down and has ended the handler.
    """

    task: BoundTask[..., Any]
    lease: Lease | AsyncLease
    args: list[Any]
    kwargs: dict[str, Any]
    running: asyncio.Task[Any] | None = None
    interrupted: bool = False

    def ending(self, result: Any) -> Ending:
        """What to send after the handler has returned; a result that cannot be stored fails the attempt."""
        try:
            return self.lease.completion(result)
        except InvalidInput as problem:
            return self.lease.failure(problem)

    def ending_of(self, problem: BaseException) -> Ending | None:
        """What to send after the handler has raised; None: nothing, the lease is lost."""
        if self.lease.settled or isinstance(problem, LeaseLost) or self.lease.lost_reason not in (None, "deadline"):
            return None
        if self.interrupted:
            return self.lease.giving_back(interrupted=True)
        if isinstance(problem, asyncio.CancelledError):
            return None  # cancelled because the lease was lost
        if isinstance(problem, QueuePaused | ServerOutOfMemory):
            # An effect was refused for a reason that is not the task's: it comes back, and no failure is counted.
            return Return(self.lease._handle, delay_ms=5_000, interrupted=True)
        if isinstance(problem, Exception):
            return self.lease.failure(problem)
        return self.lease.giving_back(interrupted=True)


def prepare(
    task: BoundTask[..., Any],
    grant: Grant,
    sync_lease: Callable[[Grant], Lease],
    async_lease: Callable[[Grant], AsyncLease],
) -> Attempt:
    """An attempt at a granted task.

    Raises:
        UnknownParameter: A newer producer wrote the payload.
        PayloadInvalid: The payload does not fit the handler any more.
    """
    args, kwargs = task.signature.arguments(grant.payload)
    lease: Lease | AsyncLease = async_lease(grant) if task.signature.is_async else sync_lease(grant)
    if task.signature.takes_lease:
        args.insert(0, lease)
    return Attempt(task, lease, args, kwargs)


async def run_async(attempt: Attempt) -> Ending | None:
    """Runs an async handler; answers what to send."""
    lease_of_handler.set(attempt.lease)
    try:
        result = await attempt.task.function(*attempt.args, **attempt.kwargs)
    except BaseException as problem:  # noqa: BLE001 - whatever a handler raises ends its attempt and not the worker
        return attempt.ending_of(problem)
    if attempt.lease.settled:
        return None
    return attempt.ending(result)


def run_in_thread(attempt: Attempt) -> Ending | None:
    """Runs a handler in this thread; answers what to send."""
    lease_of_handler.set(attempt.lease)
    try:
        result = attempt.task.function(*attempt.args, **attempt.kwargs)
    except BaseException as problem:  # noqa: BLE001 - whatever a handler raises ends its attempt and not the worker
        return attempt.ending_of(problem)
    if attempt.lease.settled:
        return None
    return attempt.ending(result)
