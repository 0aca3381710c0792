"""Looking into a queue, sweeping it and deciding about its tasks, for asyncio."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

from redislease import encoding, limits
from redislease.commands import inspect, sweep
from redislease.commands.call import Call
from redislease.commands.enqueue import Seconds
from redislease.effect_records import EffectRecord
from redislease.flow import Flow, run
from redislease.flows import looking, operating, sweeping, waiting
from redislease.flows.context import QueueContext
from redislease.models import Checked, Decided, Done, Paused, Purged, Reaped, Stats, Status, Task, TaskDetail

T = TypeVar("T")


class AsyncQueueOperations(ABC):
    """The part of `Queue` that needs no lease."""

    _context: QueueContext

    @abstractmethod
    async def _drive(self, flow: Flow[T]) -> T:
        """Carries out a flow."""

    async def run(self, call: Call[T]) -> T:
        """Runs one call of `redislease.commands`."""
        return await self._drive(run(call))

    # Looking

    async def get(self, task_id: str) -> Task:
        """As `Queue.get`."""
        return await self._drive(looking.get(self._context, task_id))

    async def detail(self, task_id: str) -> TaskDetail:
        """As `Queue.detail`."""
        return await self._drive(looking.detail(self._context, task_id))

    async def result(self, task_id: str) -> Any:
        """As `Queue.result`."""
        return await self._drive(looking.result(self._context, task_id))

    async def wait(self, task_id: str, timeout: Seconds | None = None) -> Any:  # noqa: ASYNC109
        """As `Queue.wait`."""
        stored = await self._drive(waiting.result(self._context, task_id, timeout))
        return encoding.from_json(stored, "result") if stored else None

    async def tasks(self, status: Status | str, *, limit: int = 100, offset: int = 0) -> list[Task]:
        """As `Queue.tasks`."""
        return await self._drive(looking.tasks(self._context, status, limit=limit, offset=offset))

    async def effects(self, task_id: str) -> list[EffectRecord]:
        """As `Queue.effects`."""
        return await self._drive(looking.effects(self._context, task_id))

    async def evidence(self, task_id: str) -> list[dict[str, Any]]:
        """As `Queue.evidence`."""
        return await self._drive(looking.evidence(self._context, task_id))

    async def audit(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """As `Queue.audit`."""
        return await self._drive(looking.audit(self._context, limit=limit))

    async def workers(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """As `Queue.workers`."""
        return await self._drive(looking.workers(self._context, limit=limit))

    async def stats(self) -> Stats:
        """As `Queue.stats`. Script: `stats`."""
        return await self.run(inspect.stats(self._context.name))

    async def check(self, index: str, *, offset: int = 0, limit: int = limits.BATCH) -> Checked:
        """As `Queue.check`. Script: `check`."""
        return await self.run(inspect.check(index, offset, limit))

    # Sweeping

    async def reap(self, limit: int = limits.REAP) -> Reaped:
        """As `Queue.reap`. Script: `reap`."""
        return await self.run(sweep.reap(limit))

    async def purge(
        self,
        *,
        completed: Seconds | None = limits.COMPLETED_RETENTION_MS / 1000,
        cancelled: Seconds | None = limits.CANCELLED_RETENTION_MS / 1000,
        dead: Seconds | None = None,
        evidence: Seconds = limits.EVIDENCE_RETENTION_MS / 1000,
        limit: int = limits.PURGE,
        by: str | None = None,
        reason: str = "",
    ) -> Purged:
        """As `Queue.purge`. Script: `purge`."""
        return await self._drive(
            sweeping.purge(completed, cancelled, dead, evidence, limit=limit, by=by, reason=reason)
        )

    # Operating

    async def cancel(self, task_id: str, *, by: str, reason: str = "") -> Decided:
        """As `Queue.cancel`. Script: `cancel`."""
        return await self._drive(operating.cancel(self._context, task_id, by=by, reason=reason))

    async def revoke(self, task_id: str, *, token: int | None = None, by: str, reason: str = "") -> Decided:
        """As `Queue.revoke`. Script: `revoke`."""
        return await self._drive(operating.revoke(self._context, task_id, token, by=by, reason=reason))

    async def requeue(self, task_id: str, *, token: int | None = None, by: str, reason: str = "") -> Decided:
        """As `Queue.requeue`. Script: `requeue`."""
        return await self._drive(operating.requeue(self._context, task_id, token, by=by, reason=reason))

    async def resolve(
        self,
        task_id: str,
        decision: str,
        *,
        token: int | None = None,
        by: str,
        reason: str = "",
        effects: Mapping[str, str | Done] | None = None,
        result: Any = None,
        accept_late: bool = False,
    ) -> Decided:
        """As `Queue.resolve`. Script: `resolve`."""
        flow = operating.resolve(
            self._context,
            task_id,
            decision,
            token,
            by=by,
            reason=reason,
            effects=effects,
            result=result,
            accept_late=accept_late,
        )
        return await self._drive(flow)

    async def pause(self, level: str = "claims", *, by: str, reason: str = "") -> Paused:
        """As `Queue.pause`. Script: `pause`."""
        return await self._drive(operating.pause(self._context, level, by=by, reason=reason))

    async def resume(self, *, by: str, reason: str = "") -> Paused:
        """As `Queue.resume`. Script: `pause`."""
        return await self._drive(operating.resume(self._context, by=by, reason=reason))
