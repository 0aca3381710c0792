"""A lease for asyncio."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from redislease.async_effect import AsyncEffect
from redislease.lease_core import LeaseCore
from redislease.models import Grant, Renewed, Settled

if TYPE_CHECKING:
    from redislease.async_queue import AsyncQueue

_PLAIN = frozenset({type(None), bool, int, float, str, list, dict})
"""Types of most outcomes, which nobody needs to ask whether they can be awaited: that is dear."""


class AsyncLease(LeaseCore):
    """Temporary authority over one task, from `AsyncQueue.claim`; each verb does what it does on `Lease`."""

    def __init__(self, queue: AsyncQueue, owner: str, grant: Grant, sent_s: float) -> None:
        super().__init__(queue.name, owner, grant, sent_s, queue._redaction)
        self._queue = queue

    async def renew(self, lease_duration: float | timedelta | None = None) -> Renewed:
        """As `Lease.renew`. Script: `renew`."""
        return await self._queue._drive(self._renew(lease_duration))

    async def verify(self) -> None:
        """As `Lease.verify`. Script: `renew`."""
        await self.renew()

    async def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """As `Lease.progress`. Script: `progress`."""
        await self._queue._drive(self._progress(done, total, note))

    async def complete(self, result: Any = None, result_ref: str | None = None) -> Settled:
        """As `Lease.complete`. Script: `complete`."""
        return await self._queue._drive(self._complete(result, result_ref))

    async def fail(
        self,
        error: str | BaseException,
        *,
        retry: bool = True,
        delay: float | timedelta | None = None,
        not_done: bool = False,
    ) -> Settled:
        """As `Lease.fail`. Script: `fail`."""
        return await self._queue._drive(self._fail(error, retry, delay, not_done))

    async def release(self, delay: float | timedelta | None = None, *, interrupted: bool = False) -> Settled:
        """As `Lease.release`. Script: `release`."""
        return await self._queue._drive(self._release(delay, interrupted))

    def effect(self, name: str, *, key: str | None = None, request: Any = None) -> AsyncEffect:
        """As `Lease.effect`; an `async with`, whose `record` and `not_done` are awaited. Script: `intent`."""
        return AsyncEffect(self, name, key, request)

    async def run_effect(
        self,
        name: str,
        action: Callable[[AsyncEffect], Any],
        *,
        key: str | None = None,
        request: Any = None,
        returns: Any = None,
    ) -> Any:
        """As `Lease.run_effect`; the action may be a coroutine function. Scripts: `intent`, `outcome`."""
        async with self.effect(name, key=key, request=request) as effect:
            if effect.done:
                return effect._typed(effect.outcome, returns)
            outcome = action(effect)
            if type(outcome) not in _PLAIN and inspect.isawaitable(outcome):
                outcome = await outcome
            if not effect._recorded:
                await self._queue._drive(effect._record(outcome))
        return effect._typed(effect._round_trip(outcome), returns)
