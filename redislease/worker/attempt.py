"""One attempt at a task: its handler, its lease, and how it ended."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

from redislease.async_lease import AsyncLease
from redislease.commands.settle import Completion, Failure, Return
from redislease.errors import LeaseLost
from redislease.lease import Lease
from redislease.lease_core import PUT_OFF_S, LeaseCore
from redislease.task import BoundTask
from redislease.worker.context import lease_of_handler

LOG = logging.getLogger("redislease.worker")

Verb = Completion | Failure | Return

STUBBORN_S = 5.0
SHUTDOWN = "shutdown"
"""Why a plain function finds its lease lost when the grace of a shutdown is over."""


class Attempt:
    """A task of this worker from its claim to its end.

    Args:
        task: The handler.
        lease: The lease, of the flavour that the handler wants.
        args: The handler's positional arguments, the lease among them.
        kwargs: Its other arguments.
        on_end: Told how the attempt ended, in the thread of the handler; None means that nothing is to be sent.
        loop: Where async handlers run.
    """

    __slots__ = (
        "args",
        "interrupted",
        "kwargs",
        "lease",
        "loop",
        "on_end",
        "on_loss",
        "running",
        "started_s",
        "stopped",
        "task",
    )

    def __init__(
        self,
        task: BoundTask[..., Any],
        lease: Lease | AsyncLease,
        args: list[Any],
        kwargs: dict[str, Any],
        on_end: Callable[[Attempt, Verb | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.task = task
        self.lease = lease
        self.args = args
        self.kwargs = kwargs
        self.on_end = on_end
        self.loop = loop
        self.on_loss: Callable[[LeaseCore, str], None] | None = None
        self.running: asyncio.Task[None] | None = None
        self.started_s = 0.0
        self.stopped = False
        self.interrupted = False

    # Running

    async def run(self) -> None:
        """Runs an async handler."""
        if self.running is None:
            # Started eagerly, before whoever starts it has the task in hand.
            self.running = asyncio.current_task()
        lease_of_handler.set(self.lease)
        verb: Verb | None
        try:
            result = await self.task.function(*self.args, **self.kwargs)
        except BaseException as problem:  # noqa: BLE001 - whatever a handler raises ends its attempt and not the worker
            verb = self._after_error(problem)
        else:
            lease = self.lease
            if result is None and lease._settled is None and lease._lost_reason is None:
                verb = Completion(lease._handle)  # what most handlers come to, thousands a second
            else:
                verb = self._after_return(result)
        self.on_end(self, verb)

    def run_in_thread(self) -> None:
        """Runs a handler that is a plain function."""
        lease_of_handler.set(self.lease)
        here = os.getpid()
        try:
            result = self.task.function(*self.args, **self.kwargs)
        except BaseException as problem:  # noqa: BLE001 - whatever a handler raises ends its attempt and not the worker
            verb = self._after_error(problem) if os.getpid() == here else None
        else:
            verb = self._after_return(result) if os.getpid() == here else None
        if os.getpid() != here:
            # The handler has forked and its child came back: it has no part in this worker.
            os._exit(1)
        self.on_end(self, verb)

    # What to send

    def _after_return(self, result: Any) -> Verb | None:
        """What to send after the handler has returned; a result that cannot be stored fails the attempt."""
        lease = self.lease
        if lease.settled or lease.gone:
            return None
        if result is None:
            return Completion(lease._handle)
        try:
            return lease.completion(result)
        except Exception as problem:  # noqa: BLE001 - a result may do anything while it is written as JSON
            return lease.failure(problem)

    def _after_error(self, problem: BaseException) -> Verb | None:
        """What to send after the handler has raised; None: nothing, the lease is settled or lost."""
        lease = self.lease
        if lease.settled:
            return None
        if self.interrupted and lease.lost_reason in (None, SHUTDOWN):
            return lease.giving_back(interrupted=True)
        if lease.lost or isinstance(problem, LeaseLost):
            return None
        if self.stopped and isinstance(problem, asyncio.CancelledError):
            # It was told that its time is over, and then the lease was renewed after all.
            return lease.giving_back(interrupted=True)
        if lease.is_put_off_by(problem):
            return lease.giving_back(PUT_OFF_S, interrupted=True)
        return lease.failure(problem, not_done=lease.says_not_done(problem))

    # Being stopped

    def lose(self, reason: str) -> None:
        """Tells the handler, once, that its lease is lost; called from any thread."""
        if not self.stopped:
            self.stopped = True
            if self.on_loss is not None:
                self.on_loss(self.lease, reason)
            LOG.warning("task %s: its handler is told that the lease is lost: %s", self.lease.id, reason)
            self._cancel_from_anywhere()

    def interrupt(self) -> None:
        """Ends the handler because the worker ends; a plain function hears of it at its next `check()`."""
        self.interrupted = True
        self.stopped = True
        if self.task.signature.is_async:
            self._cancel()
        else:
            self.lease.on_lost = None
            self.lease.note_loss(SHUTDOWN)

    def _cancel_from_anywhere(self) -> None:
        if self.task.signature.is_async:
            try:
                self.loop.call_soon_threadsafe(self._cancel)
            except RuntimeError:
                LOG.debug("task %s: the event loop has ended before its handler", self.lease.id)

    def _cancel(self) -> None:
        """Cancels an async handler, and again while it goes on: the first time may have been swallowed."""
        if self.running is not None and not self.running.done():
            self.running.cancel()
            self.loop.call_later(STUBBORN_S, self._cancel)
