"""An effect for threads."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from redislease.effect_core import EffectCore

if TYPE_CHECKING:
    from redislease.lease import Lease


class Effect(EffectCore):
    """One effect of a task on the outside world, from `Lease.effect`."""

    _lease: Lease

    def __enter__(self) -> Self:
        return self._lease._queue._drive(self._begin())

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_not_done(problem):
            self.not_done(self._reason(problem))
        self._left(problem)

    def record(self, outcome: Any = None) -> None:
        """It happened, with this outcome; never refused for its size or type. Script: `outcome`.

        Raises:
            LeaseLost: The lease is not held any more; the outcome was kept as testimony.
            EffectAlreadyDone: An earlier attempt has done it.
        """
        self._lease._queue._drive(self._record(outcome))

    def not_done(self, reason: str = "") -> None:
        """It certainly did not happen; it may be tried again. Script: `outcome`.

        Raises:
            LeaseLost: The lease is not held any more.
            EffectAlreadyDone: An earlier attempt has done it.
        """
        self._lease._queue._drive(self._not_done(reason))
