"""Looking into a queue, sweeping it and deciding about its tasks, for threads."""

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


class QueueOperations(ABC):
    """The part of `Queue` that needs no lease."""

    _context: QueueContext

    @abstractmethod
    def _drive(self, flow: Flow[T]) -> T:
        """Carries out a flow."""

    def run(self, call: Call[T]) -> T:
        """Runs one call of `redislease.commands`."""
        return self._drive(run(call))

    # Looking

    def get(self, task_id: str) -> Task:
        """A task as the server holds it.

        Raises:
            TaskUnknown: There is none.
        """
        return self._drive(looking.get(self._context, task_id))

    def detail(self, task_id: str) -> TaskDetail:
        """A task with its payload, result and progress.

        Raises:
            TaskUnknown: There is none.
        """
        return self._drive(looking.detail(self._context, task_id))

    def result(self, task_id: str) -> Any:
        """The result of a task; None while it has none.

        Raises:
            TaskUnknown: There is no such task.
        """
        return self._drive(looking.result(self._context, task_id))

    def wait(self, task_id: str, timeout: Seconds | None = None) -> Any:
        """The result of a task once it is completed; asks the server again and again, at most 0.5 s apart.

        Args:
            task_id: The task.
            timeout: Seconds to wait; without it as long as it takes.

        Raises:
            TaskNotCompleted: It is dead or cancelled.
            TaskUnknown: There is no such task.
            WaitTimeout: It had not ended in time.
        """
        stored = self._drive(waiting.result(self._context, task_id, timeout))
        return encoding.from_json(stored, "result") if stored else None

    def tasks(self, status: Status | str, *, limit: int = 100, offset: int = 0) -> list[Task]:
        """The tasks of a state in the order of its index; `unsettled` lists ended tasks with effects in doubt."""
        return self._drive(looking.tasks(self._context, status, limit=limit, offset=offset))

    def effects(self, task_id: str) -> list[EffectRecord]:
        """The effects of a task, oldest first; the implicit one of a task that records none while it is open.

        Raises:
            TaskUnknown: There is no such task.
        """
        return self._drive(looking.effects(self._context, task_id))

    def evidence(self, task_id: str) -> list[dict[str, Any]]:
        """What was recorded about a task, also after it was purged."""
        return self._drive(looking.evidence(self._context, task_id))

    def audit(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """The last decisions of operators, oldest first."""
        return self._drive(looking.audit(self._context, limit=limit))

    def workers(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """Registered owners, the one seen last first."""
        return self._drive(looking.workers(self._context, limit=limit))

    def stats(self) -> Stats:
        """The queue at a glance. Script: `stats`."""
        return self.run(inspect.stats(self._context.name))

    def check(self, index: str, *, offset: int = 0, limit: int = limits.BATCH) -> Checked:
        """Compares a stretch of one index with the hashes of its tasks. Script: `check`."""
        return self.run(inspect.check(index, offset, limit))

    # Sweeping

    def reap(self, limit: int = limits.REAP) -> Reaped:
        """Recovers expired leases and promotes due tasks, at most `limit` of each. Script: `reap`."""
        return self.run(sweep.reap(limit))

    def purge(
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
        """Deletes what has outlived its retention in seconds; None keeps a state. Script: `purge`.

        At least 60 s are always kept. An operator names themselves with `by`; a routine purge names nobody.
        """
        return self._drive(sweeping.purge(completed, cancelled, dead, evidence, limit=limit, by=by, reason=reason))

    # Operating

    def cancel(self, task_id: str, *, by: str, reason: str = "") -> Decided:
        """Cancels a live task for good. Script: `cancel`.

        Raises:
            TaskUnknown: There is none.
            NotAllowedNow: It has ended; the error says who decided what.
        """
        return self._drive(operating.cancel(self._context, task_id, by=by, reason=reason))

    def revoke(self, task_id: str, *, token: int | None = None, by: str, reason: str = "") -> Decided:
        """Takes a lease away from its holder; the policy decides where the task goes. Script: `revoke`.

        Args:
            task_id: The task.
            token: Its fencing token as you saw it; the one it has now by default.
            by: Who decides.
            reason: Why.

        Raises:
            TaskUnknown: There is none.
            NotAllowedNow: It is not leased, or under another token.
        """
        return self._drive(operating.revoke(self._context, task_id, token, by=by, reason=reason))

    def requeue(self, task_id: str, *, token: int | None = None, by: str, reason: str = "") -> Decided:
        """Makes a dead task ready again, behind what waits now. Script: `requeue`.

        Raises:
            TaskUnknown: There is none.
            NotAllowedNow: It is not dead, or has effects in doubt.
        """
        return self._drive(operating.requeue(self._context, task_id, token, by=by, reason=reason))

    def resolve(
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
        """Decides a task in doubt. Script: `resolve`.

        Args:
            task_id: The task.
            decision: `done`, `retry` or `dead`.
            token: Its fencing token as you saw it; the one it has now by default.
            by: Who decides.
            reason: Why.
            effects: `done`, `Done(outcome)` or `not_done` for each effect that was looked into; the implicit one is
                `handler`.
            result: The task's result, with `done`.
            accept_late: Believe what a worker said of its effect after it had lost the lease, where `effects` does not
                name it.

        Raises:
            TaskUnknown: There is none.
            InvalidInput: Not a decision, or it contradicts the effects.
            NotAllowedNow: It is not in doubt, or `retry` while an effect is undecided.
        """
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
        return self._drive(flow)

    def pause(self, level: str = "claims", *, by: str, reason: str = "") -> Paused:
        """Stops claims (`claims`), or claims and new effects (`effects`). Script: `pause`.

        Raises:
            NotAllowedNow: Somebody paused or resumed the queue at the same time.
        """
        return self._drive(operating.pause(self._context, level, by=by, reason=reason))

    def resume(self, *, by: str, reason: str = "") -> Paused:
        """Ends a pause. Script: `pause`.

        Raises:
            NotAllowedNow: Somebody paused or resumed the queue at the same time.
        """
        return self._drive(operating.resume(self._context, by=by, reason=reason))
