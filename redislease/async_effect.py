"""An effect for asyncio."""

from __future__ import annotations

from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from redislease.effect_core import EffectCore

if TYPE_CHECKING:
    from redislease.async_lease import AsyncLease


class AsyncEffect(EffectCore):
    """One effect of a task on the outside world, from `AsyncLease.effect`."""

    _lease: AsyncLease

    def __aenter__(self) -> Coroutine[Any, Any, Self]:
        return self._lease._queue._drive(self._begin())

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_not_done(problem):
            await self.not_done(self._reason(problem))
        self._left(problem)

    async def record(self, outcome: Any = None) -> None:
        """As `Effect.record`. Script: `outcome`."""
        await self._lease._queue._drive(self._record(outcome))

    async def not_done(self, reason: str = "") -> None:
        """As `Effect.not_done`. Script: `outcome`."""
        await self._lease._queue._drive(self._not_done(reason))
