"""One queue of a worker: settles what is done and claims into the free slots, in one call where there is both."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from redislease import limits, local_clock
from redislease.async_lease import AsyncLease
from redislease.async_queue import AsyncQueue
from redislease.commands import claim as claim_commands
from redislease.commands import effects, settle
from redislease.commands.call import Call
from redislease.effect_records import HANDLER
from redislease.errors import (
    NotReplicated,
    PayloadInvalid,
    RedisLeaseError,
    ServerError,
    WorkerUnknown,
)
from redislease.flows.claiming import sleep_s
from redislease.heartbeat import Heartbeat
from redislease.lease import Lease
from redislease.models import Claimed, Grant, Handle, Lost, Owner
from redislease.queue import Queue
from redislease.signature import UnknownParameter
from redislease.worker.attempt import LOG, Attempt, Ending, prepare, run_async, run_in_thread
from redislease.worker.slots import Slots
from redislease.worker.threads import DaemonPool

GIVE_BACK_S_MAX = 60.0
PAUSE_AFTER_ERROR_S = 0.5


class Pump:
    """The claim loop of one queue.

    Args:
        queue: For the calls.
        sync_queue: For the leases of thread handlers.
        heartbeat: Keeps the leases alive.
        slots: Shared with the other queues of the worker.
        number: Which of the worker's queues it is.
        pool: For thread handlers.
    """

    def __init__(
        self, queue: AsyncQueue, sync_queue: Queue, heartbeat: Heartbeat, slots: Slots, number: int, pool: DaemonPool
    ) -> None:
        self.queue = queue
        self.attempts: set[Attempt] = set()
        self._sync_queue = sync_queue
        self._heartbeat = heartbeat
        self._slots = slots
        self._number = number
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._endings: list[tuple[Attempt | None, Ending]] = []
        self._stirred = asyncio.Event()
        self._hungry = True
        self._claiming = True
        self._sleep_s = limits.BLOCK_S_MAX
        self._owner: Owner | None = None
        self._strangers: defaultdict[str, int] = defaultdict(int)

    # The loop

    async def run(self) -> None:
        """Settles and claims until `stop_claiming` was called and everything is settled."""
        listener = asyncio.create_task(self._listen())
        try:
            while self._claiming or self.attempts or self._endings:
                limit = self._slots.claimable(self._number) if self._claiming else 0
                if self._endings or (limit and self._hungry):
                    await self._step(limit)
                else:
                    self._stirred.clear()
                    if not self._endings:
                        await self._stirred.wait()
        finally:
            listener.cancel()

    def stop_claiming(self) -> None:
        """Takes nothing more."""
        self._claiming = False
        self._stirred.set()

    def stir(self) -> None:
        """Looks again whether there is something to do."""
        self._stirred.set()

    async def _listen(self) -> None:
        """Sleeps on the bells: `wake` while there are free slots and nothing is known to wait, and our own signal."""
        while self._claiming or self.attempts:
            owner = self._owner
            if owner is None:
                await asyncio.sleep(0.05)
                continue
            keys = [self.queue.keys.signal(owner.name)]
            if self._claiming and not self._hungry and self._slots.free > 0:
                keys.insert(0, self.queue.keys.wake())
            sleep_s = self._sleep_s
            try:
                rung = await self.queue._transport.block(keys, sleep_s)
            except ServerError:
                await asyncio.sleep(PAUSE_AFTER_ERROR_S)
                rung = None
            if rung == self.queue.keys.signal(owner.name):
                self._heartbeat.renew_all_now()
            elif rung or len(keys) == 2:
                self._hungry = True
                self._stirred.set()

    async def _step(self, limit: int) -> None:
        batch, self._endings = self._endings[: limits.SETTLE_BATCH], self._endings[limits.SETTLE_BATCH :]
        try:
            await self._exchange(batch, limit)
        except ServerError as problem:
            LOG.warning("queue %s: %s", self.queue.name, problem)
            self._endings = batch + self._endings
            await asyncio.sleep(PAUSE_AFTER_ERROR_S)

    async def _exchange(self, batch: list[tuple[Attempt | None, Ending]], limit: int) -> None:
        """One round trip: completions with the next claim, and what was failed or given back beside them."""
        kinds: dict[type, list[tuple[Attempt | None, Any]]] = defaultdict(list)
        for pair in batch:
            kinds[type(pair[1])].append(pair)
        calls: list[Call[Any]] = []
        parts: list[list[tuple[Attempt | None, Any]]] = []
        claim: settle.NextClaim | None = None
        if limit:
            owner = await self._identity()
            number = self.queue._context.identities.next_number(owner)
            claim = settle.NextClaim(owner.name, number, limit, started=False)
        for kind, make in ((settle.Failure, settle.fail), (settle.Return, settle.release)):
            if kinds[kind]:
                calls.append(make([one for _, one in kinds[kind]]))
                parts.append(kinds[kind])
        completions = kinds[settle.Completion]
        if completions:
            calls.append(settle.complete([one for _, one in completions], claim))
            parts.append(completions)
        elif claim:
            calls.append(claim_commands.claim(claim.owner, claim.request_number, limit=limit, started=False))
            parts.append([])
        sent_s = local_clock.elapsed_s()
        answers = await self.queue._transport.run_many(calls, return_errors=True)
        for part, answer in zip(parts, answers, strict=True):
            await self._take(part, answer, sent_s)

    async def _take(self, part: list[tuple[Attempt | None, Any]], answer: Any, sent_s: float) -> None:
        unconfirmed = isinstance(answer, NotReplicated)
        if unconfirmed:
            # Repeated until a replica confirms it; what was claimed meanwhile is given back.
            self._endings.extend(part)
            answer = answer.answer
        elif isinstance(answer, WorkerUnknown):
            self._forget_identity()
            return
        elif isinstance(answer, RedisLeaseError):
            LOG.warning("queue %s: %s", self.queue.name, answer)
            self._endings.extend(part)
            await asyncio.sleep(PAUSE_AFTER_ERROR_S)
            return
        claimed: Any = answer if isinstance(answer, Claimed) else None
        if isinstance(answer, tuple):
            answer, claimed = answer
        if part and not unconfirmed:
            self._note_ends(part, answer)
        if isinstance(claimed, WorkerUnknown):
            self._forget_identity()
        elif isinstance(claimed, Claimed):
            await self._receive(claimed, sent_s, confirmed=not unconfirmed)

    def _note_ends(self, part: list[tuple[Attempt | None, Any]], answers: list[Any]) -> None:
        for (attempt, _), answer in zip(part, answers, strict=True):
            if isinstance(answer, Lost):
                LOG.warning("queue %s: an ending was refused: %s", self.queue.name, answer.reason)
            if attempt is not None:
                attempt.lease.note_end(answer)

    async def _identity(self) -> Owner:
        if self._owner is None:
            self._owner = await self.queue._drive(self.queue._context.identities.default())
        return self._owner

    def _forget_identity(self) -> None:
        if self._owner is not None:
            self.queue._context.identities.forget(self._owner)
            self._owner = None

    # Claimed tasks

    async def _receive(self, claimed: Claimed, sent_s: float, *, confirmed: bool) -> None:
        self._hungry = claimed.more
        self._slots.say(self._number, hungry=claimed.more)
        self._sleep_s = sleep_s(claimed)
        if not confirmed:
            self._endings.extend((None, self._unstarted(grant)) for grant in claimed.grants)
            return
        attempts = [attempt for grant in claimed.grants if (attempt := self._prepare(grant, sent_s)) is not None]
        self._slots.used += len(attempts)
        doubtful = [attempt for attempt in attempts if self._is_implicit(attempt)]
        for attempt in attempts:
            self.attempts.add(attempt)
            self._heartbeat.add(attempt.lease)
        if doubtful:
            refused = await self._declare(doubtful)
            attempts = [attempt for attempt in attempts if attempt not in refused]
        for attempt in attempts:
            self._start(attempt)

    def _handle(self, grant: Grant) -> Handle:
        assert self._owner is not None
        return Handle(self.queue.name, grant.id, self._owner.name, grant.generation, grant.token, grant.lease_ms)

    def _unstarted(self, grant: Grant, delay_s: float | None = None) -> settle.Return:
        delay_ms = None if delay_s is None else round(delay_s * 1000)
        return settle.Return(self._handle(grant), delay_ms, never_started=True, fresh=delay_ms is not None)

    def _give_back(self, grant: Grant, why: str) -> None:
        """For rolling deploys: another version of the worker may know what this one does not."""
        self._strangers[why] += 1
        delay_s = min(GIVE_BACK_S_MAX, 2.0 ** min(self._strangers[why] - 1, 6))
        LOG.warning("queue %s: task %s is given back for %g s: %s", self.queue.name, grant.id, delay_s, why)
        self._endings.append((None, self._unstarted(grant, delay_s)))

    def _prepare(self, grant: Grant, sent_s: float) -> Attempt | None:
        task = self.queue._tasks.get(grant.name)
        if task is None:
            self._give_back(grant, f"no handler named {grant.name!r}")
            return None
        assert self._owner is not None
        owner = self._owner.name
        try:
            attempt = prepare(
                task,
                grant,
                lambda one: Lease(self._sync_queue, owner, one, sent_s),
                lambda one: AsyncLease(self.queue, owner, one, sent_s),
            )
        except UnknownParameter as problem:
            self._give_back(grant, str(problem))
            return None
        except PayloadInvalid as problem:
            failure = settle.Failure(self._handle(grant), f"schema: {problem}", retry=False, not_done=True)
            self._endings.append((None, failure))
            return None
        return attempt

    @staticmethod
    def _is_implicit(attempt: Attempt) -> bool:
        grant = attempt.lease._grant
        return grant.side_effect == "non_idempotent" and not grant.records_effects

    async def _declare(self, attempts: list[Attempt]) -> set[Attempt]:
        """Records the implicit effect of tasks that record none, right before their handlers begin."""
        intents = [
            effects.Intent(attempt.lease._handle, HANDLER, "-", HANDLER, "-") for attempt in attempts
        ]
        refused: set[Attempt] = set()
        for first in range(0, len(intents), limits.SETTLE_BATCH):
            part = attempts[first : first + limits.SETTLE_BATCH]
            try:
                answers: list[Any] = await self.queue.run(effects.intent(intents[first : first + limits.SETTLE_BATCH]))
            except RedisLeaseError as problem:
                LOG.warning("queue %s: handlers are not started: %s", self.queue.name, problem)
                answers = [problem] * len(part)
            for attempt, answer in zip(part, answers, strict=True):
                if isinstance(answer, effects.Intended) and answer.word == "open":
                    continue
                refused.add(attempt)
                self._finish(attempt, None if isinstance(answer, Lost) else self._unstarted(attempt.lease._grant, 1.0))
        return refused

    def _start(self, attempt: Attempt) -> None:
        attempt.lease.on_lost = lambda _reason: self._call(self._stop_handler, attempt)
        if attempt.task.signature.is_async:
            attempt.running = _spawn(self._run_async(attempt), self._loop)
        else:
            self._pool.submit(lambda: self._run_thread(attempt))

    async def _run_async(self, attempt: Attempt) -> None:
        self._finish(attempt, await run_async(attempt))

    def _run_thread(self, attempt: Attempt) -> None:
        ending = run_in_thread(attempt)
        self._call(self._finish, attempt, ending)

    def _call(self, function: Callable[..., Any], *args: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    @staticmethod
    def _stop_handler(attempt: Attempt) -> None:
        if attempt.running is not None:
            attempt.running.cancel()

    def _finish(self, attempt: Attempt, ending: Ending | None) -> None:
        if attempt not in self.attempts:
            return
        self.attempts.discard(attempt)
        self._heartbeat.remove(attempt.lease)
        self._slots.used -= 1
        if ending is not None:
            self._endings.append((attempt, ending))
        self._stirred.set()

    # Ending

    async def drain(self, grace_s: float) -> None:
        """Waits for running handlers; ends those that take longer, as interrupted."""
        deadline = time.monotonic() + grace_s
        while self.attempts and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for attempt in list(self.attempts):
            attempt.interrupted = True
            self._stop_handler(attempt)

    def abandon(self) -> None:
        """Leaves what still runs to the deadline of its lease: a handler that cannot be stopped may still act."""
        for attempt in list(self.attempts):
            LOG.warning("queue %s: task %s is left to its lease", self.queue.name, attempt.lease.id)
            self.attempts.discard(attempt)
            self._heartbeat.remove(attempt.lease)
        self._stirred.set()


def _spawn(coroutine: Awaitable[None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
    """Starts a coroutine; eagerly where the standard library can, so that one that never waits costs no turn."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)  # type: ignore[arg-type,call-arg,unused-ignore]
    return loop.create_task(coroutine)  # type: ignore[arg-type]
