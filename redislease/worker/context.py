"""The lease of the handler that is running here, for code deep inside a framework."""

from __future__ import annotations

from contextvars import ContextVar

from redislease.async_lease import AsyncLease
from redislease.errors import RedisLeaseError
from redislease.lease import Lease

lease_of_handler: ContextVar[Lease | AsyncLease | None] = ContextVar("redislease_lease", default=None)


def current_lease() -> Lease | AsyncLease:
    """The lease of the running handler: a `Lease` in a thread, an `AsyncLease` in a coroutine.

    Raises:
        RedisLeaseError: No handler is running here.
    """
    lease = lease_of_handler.get()
    if lease is None:
        raise RedisLeaseError("no handler of a worker is running here")
    return lease
