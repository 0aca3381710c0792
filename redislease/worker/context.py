"""What code deep inside a handler can ask for: the lease of the handler, and what the worker's start-up has opened."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace

from redislease.async_lease import AsyncLease
from redislease.errors import RedisLeaseError
from redislease.lease import Lease


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What the handlers of one worker share.

    Attributes:
        queues: The names of its queues.
        concurrency: How many handlers run at once.
        state: For the application: what `on_startup` opens, handlers find here, and `on_shutdown` closes.
    """

    queues: tuple[str, ...]
    concurrency: int
    state: SimpleNamespace = field(default_factory=SimpleNamespace)


lease_of_handler: ContextVar[Lease | AsyncLease | None] = ContextVar("redislease_lease", default=None)
context_of_worker: ContextVar[WorkerContext | None] = ContextVar("redislease_worker", default=None)


def current_lease() -> Lease | AsyncLease:
    """The lease of the running handler: a `Lease` in a thread, an `AsyncLease` in a coroutine.

    Raises:
        RedisLeaseError: No handler is running here.
    """
    lease = lease_of_handler.get()
    if lease is None:
        raise RedisLeaseError("no handler of a worker is running here")
    return lease


def current_context() -> WorkerContext:
    """The context of the worker that runs this handler.

    Raises:
        RedisLeaseError: No handler is running here.
    """
    context = context_of_worker.get()
    if context is None:
        raise RedisLeaseError("no worker is running here")
    return context
