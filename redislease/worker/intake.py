"""Makes attempts of what was claimed, and decides what goes back without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redislease import limits
from redislease.async_lease import AsyncLease
from redislease.async_queue import AsyncQueue
from redislease.commands import effects
from redislease.commands.settle import Failure, Return
from redislease.effect_records import HANDLER
from redislease.errors import PayloadInvalid, RedisLeaseError
from redislease.handle import Handle
from redislease.lease import Lease
from redislease.models import Grant, Lost
from redislease.queue import Queue
from redislease.signature import UnknownParameter
from redislease.worker.attempt import LOG, Attempt, Verb

GIVE_BACK_S_MAX = 60.0
DECLARE_S_MAX = 5.0

OnEnd = Callable[[Attempt, Verb | None], None]


@dataclass(slots=True)
class Delivery:
    """What became of some grants.

    Attributes:
        attempts: To be started.
        in_doubt: Attempts that may start when their implicit effect is recorded.
        on_probation: Attempts that have to say one by one that they start.
        refused: Leases that end without an attempt: what to send, and until when by the local clock.
    """

    attempts: list[Attempt] = field(default_factory=list)
    in_doubt: list[Attempt] = field(default_factory=list)
    on_probation: list[Attempt] = field(default_factory=list)
    refused: list[tuple[Verb, float]] = field(default_factory=list)


class Intake:
    """The door of one queue of a worker.

    Args:
        queue: Of async handlers, with the handlers by name.
        sync_queue: Of plain functions.
        on_end: Told how each attempt of an async handler ended.
        on_end_in_thread: The same for plain functions; called in their thread.
    """

    def __init__(self, queue: AsyncQueue, sync_queue: Queue, on_end: OnEnd, on_end_in_thread: OnEnd) -> None:
        self._queue = queue
        self._sync_queue = sync_queue
        self._on_end = on_end
        self._on_end_in_thread = on_end_in_thread
        self._loop = asyncio.get_running_loop()
        self._tasks = queue._tasks

    def sort(self, owner: str, grants: list[Grant], sent_s: float) -> Delivery:
        """Makes attempts of grants."""
        found = Delivery()
        for grant in grants:
            task = self._tasks.get(grant.name)
            if task is None:
                self._give_back(found, owner, grant, sent_s, f"no handler named {grant.name!r}")
                continue
            try:
                args, kwargs = task.signature.arguments(grant.payload)
            except UnknownParameter as problem:
                self._give_back(found, owner, grant, sent_s, str(problem))
                continue
            except Exception as problem:  # noqa: BLE001 - validators are the application's, and may raise anything
                self._refuse(found, owner, grant, sent_s, problem)
                continue
            lease: Lease | AsyncLease
            if task.signature.is_async:
                lease, on_end = AsyncLease(self._queue, owner, grant, sent_s), self._on_end
            else:
                lease, on_end = Lease(self._sync_queue, owner, grant, sent_s), self._on_end_in_thread
            if task.signature.takes_lease:
                args.insert(0, lease)
            attempt = Attempt(task, lease, args, kwargs, on_end, self._loop)
            if grant.unstarted:
                found.on_probation.append(attempt)
            elif grant.side_effect == "non_idempotent" and not grant.records_effects:
                found.in_doubt.append(attempt)
            else:
                found.attempts.append(attempt)
        return found

    def unstarted(self, owner: str, grant: Grant, delay_s: float | None = None) -> Return:
        """Gives a task back that was never begun."""
        handle = Handle(self._queue.name, grant.id, owner, grant.generation, grant.token, grant.lease_ms)
        delay_ms = None if delay_s is None else round(delay_s * 1000)
        return Return(handle, delay_ms, never_started=True, fresh=delay_ms is not None)

    def _give_back(self, found: Delivery, owner: str, grant: Grant, sent_s: float, why: str) -> None:
        """For rolling deploys: another version of the worker may know what this one does not."""
        delay_s = give_back_delay_s(grant)
        LOG.warning("queue %s: task %s is given back for %g s: %s", self._queue.name, grant.id, delay_s, why)
        found.refused.append((self.unstarted(owner, grant, delay_s), ends_s(grant, sent_s)))

    def _refuse(self, found: Delivery, owner: str, grant: Grant, sent_s: float, problem: Exception) -> None:
        """A payload that no longer fits is dead; a validator that breaks is a failure of the attempt."""
        fits_never = isinstance(problem, PayloadInvalid)
        lease = Lease(self._sync_queue, owner, grant, sent_s)
        text = f"schema: {problem}" if fits_never else problem
        failure: Failure = lease.failure(text, retry=not fits_never, not_done=True)
        LOG.warning("queue %s: the payload of task %s cannot be read", self._queue.name, grant.id)
        found.refused.append((failure, ends_s(grant, sent_s)))

    async def declare(self, attempts: list[Attempt]) -> list[tuple[Attempt, Verb | None]]:
        """Records that handlers begin right now, and with it the implicit effect of tasks that record none.

        Returns:
            The attempts that must not start, each with what to send instead.
        """
        refused: list[tuple[Attempt, Verb | None]] = []
        for first in range(0, len(attempts), limits.SETTLE_BATCH):
            part = attempts[first : first + limits.SETTLE_BATCH]
            intents = [effects.Intent(one.lease._handle, HANDLER, "-", HANDLER, "-") for one in part]
            patience_s = min(DECLARE_S_MAX, *(one.lease.remaining / 2 for one in part))
            answers: list[Any]
            try:
                (answers,) = await self._queue._transport.run_many([effects.intent(intents)], retry_for_s=patience_s)
            except RedisLeaseError as problem:
                LOG.warning("queue %s: %d handlers are not started: %s", self._queue.name, len(part), problem)
                answers = [problem] * len(part)
            for attempt, answer in zip(part, answers, strict=True):
                if isinstance(answer, effects.Intended) and answer.word == "open":
                    continue
                grant, owner = attempt.lease._grant, attempt.lease.owner
                back = None if isinstance(answer, Lost) else self.unstarted(owner, grant, give_back_delay_s(grant))
                refused.append((attempt, back))
        return refused


def give_back_delay_s(grant: Grant) -> float:
    """1 s, doubled with each acquisition of the task, up to a minute."""
    return min(GIVE_BACK_S_MAX, 2.0 ** min(grant.generation - 1, 6))


def ends_s(grant: Grant, sent_s: float) -> float:
    """When a lease that nobody renews ends, by the local clock."""
    return sent_s + grant.remaining_ms / 1000
