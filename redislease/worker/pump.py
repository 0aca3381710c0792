"""One queue of a worker: settles what is done and claims into the free places, in one call where there is both."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial

from redislease import limits, local_clock
from redislease.async_queue import AsyncQueue
from redislease.flows.claiming import Batch, sleep_s
from redislease.heartbeat import Heartbeat
from redislease.models import Claimed
from redislease.queue import Queue
from redislease.worker.attempt import LOG, SHUTDOWN, Attempt, Verb
from redislease.worker.bells import SignalBell, WakeBell
from redislease.worker.courier import Courier
from redislease.worker.gatherer import Gatherer
from redislease.worker.intake import Intake, ends_s
from redislease.worker.observer import Observers
from redislease.worker.probation import Probation
from redislease.worker.round_trip import Outbox, RoundTrip
from redislease.worker.slots import Slots
from redislease.worker.standing import Answered
from redislease.worker.thread_gatherer import ThreadGatherer
from redislease.worker.threads import DaemonPool

PARALLEL = 2
"""Round trips under way at a time: while the server works on one, this process works on the other."""


class Pump:
    """The claims and endings of one queue.

    Args:
        calls: For claims and endings, on connections that no handler shares.
        queue: For the leases of async handlers.
        sync_queue: For the leases of plain functions.
        heartbeat: Keeps the leases alive.
        slots: Shared with the other queues of the worker.
        number: Which of the worker's queues it is.
        pool: For plain functions.
        observers: Told of every lease event.
    """

    def __init__(
        self,
        calls: AsyncQueue,
        queue: AsyncQueue,
        sync_queue: Queue,
        heartbeat: Heartbeat,
        slots: Slots,
        number: int,
        pool: DaemonPool,
        observers: Observers,
    ) -> None:
        self.name = calls.name
        self.attempts: set[Attempt] = set()
        self._heartbeat = heartbeat
        self._slots = slots
        self._number = number
        self._pool = pool
        self._observers = observers
        self._observed = bool(observers)
        self._loop = asyncio.get_running_loop()
        self._intake = Intake(queue, sync_queue, self._finish, self._note_end_in_thread)
        self._probation = Probation(self._begin, self._give_back)
        self._outbox = Outbox()
        self._trips: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._claims_under_way = 0
        self._stirred = False
        self._rung = True
        self._claiming = True
        self._sleep_s = limits.BLOCK_S_MAX
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._wake = WakeBell(calls, self._sleepy, self._leave_claim, self._on_wake)
        self._signal = SignalBell(calls, heartbeat.renew_all_now)
        self._gatherer = Gatherer(queue._transport, self.stir)
        queue._transport.line = self._gatherer
        sync_queue._transport.line = ThreadGatherer(sync_queue._transport)
        self._courier = Courier(
            calls, heartbeat, self._signal.listen_for, self._note_trouble, observers, self._receive, self._gatherer
        )
        slots.on_change(self.stir)

    async def run(self) -> None:
        """Settles and claims until `stop_claiming` was called and everything is settled.

        Raises:
            ConfigurationError: The queue cannot be served by this version, or not with this configuration.
        """
        bells = [asyncio.create_task(bell.listen()) for bell in (self._wake, self._signal)]
        for bell in bells:
            bell.add_done_callback(self._note_failure)
        self.stir()
        try:
            await asyncio.shield(self._done)
        finally:
            self._gatherer.close()
            self._probation.close()
            for bell in bells:
                bell.cancel()
            await asyncio.gather(*bells, return_exceptions=True)

    def stop_claiming(self) -> None:
        """Takes nothing more."""
        if self._claiming:
            self._claiming = False
            slept, standing = self._wake.stop()
            # A ring that has reached nobody any more belongs to another worker: what is sent now passes it on.
            if standing is None:
                self._rung = slept
            else:
                self._send(standing)
            self.stir()

    def interrupt(self) -> None:
        """Ends the handlers that still run, because the worker ends."""
        for attempt in list(self.attempts):
            attempt.interrupt()

    def abandon(self) -> None:
        """Leaves what still runs to the deadline of its lease: a handler that cannot be stopped may still act."""
        self._courier.abandon()
        self._gatherer.close()
        for attempt in list(self.attempts):
            LOG.warning("queue %s: task %s is left to its lease", self.name, attempt.lease.id)
            self._heartbeat.remove(attempt.lease)
        self.attempts.clear()
        self.stir()

    # When to do what

    def stir(self) -> None:
        """Looks, when the loop comes round, whether there is something to do."""
        if not self._stirred:
            self._stirred = True
            self._loop.call_soon(self._launch)

    def _launch(self) -> None:
        self._stirred = False
        while trip := self._next_trip():
            self._send(trip)
        if self._sleepy() is not None:
            self._wake.allow()
        elif not (self._claiming or self.attempts or self._outbox or self._under_way or self._done.done()):
            self._done.set_result(None)

    def _next_trip(self) -> RoundTrip | None:
        """What to send now; None when there is nothing, or enough is under way."""
        if self._under_way >= PARALLEL:
            return None
        trip = self._outbox.take()
        trip.errands = self._gatherer.take()
        wanted = self._claiming and self._slots.is_hungry(self._number)
        limit = self._slots.claimable(self._number) if self._claiming and (wanted or self._rung) else 0
        # A claim of nothing, which passes a ring on, goes without completions: their script makes no such claim.
        if limit or (self._rung and not trip.completions):
            self._rung = False
            self._slots.reserve(self._number, limit)
            self._claims_under_way += 1
            trip.claims, trip.reserved = True, limit
        return trip or None

    def _send(self, trip: RoundTrip) -> None:
        self._under_way += 1
        task = self._loop.create_task(self._carry_out(trip))
        self._trips.add(task)
        task.add_done_callback(self._land)

    def _land(self, task: asyncio.Task[None]) -> None:
        self._trips.discard(task)
        self._note_failure(task)

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not self._done.done():
            self._done.set_exception(problem)

    def _sleepy(self) -> float | None:
        """How long to sleep on the bell, in seconds; None while there is something to do, or no place."""
        busy = self._rung or self._claims_under_way or self._slots.is_hungry(self._number)
        if busy or not self._claiming or not self._slots.claimable(self._number):
            return None
        return self._sleep_s

    def _leave_claim(self) -> RoundTrip | None:
        """The claim that stands behind the bell, with its place reserved; None when none may, see `standing`."""
        busy = self.attempts or self._under_way or self._outbox
        trip = None if busy or self._slots.shared else self._courier.standing_claim()
        if trip is not None:
            self._slots.reserve(self._number, trip.reserved)
            self._claims_under_way += 1
        return trip

    async def _on_wake(self, rung: bool, trip: RoundTrip | None, answered: Answered | None) -> None:
        """A bell rang, or the time is over. A ring that comes when there is no place left is passed on.

        The claim is sent from here and not from a task of its own: whoever waits for the task waits for that too.
        """
        if trip is None and (rung or self._sleepy() is not None):
            self._rung = True
            trip = self._next_trip()
        if trip is not None:
            self._under_way += 1
            await self._carry_out(trip, answered)

    async def _carry_out(self, trip: RoundTrip, answered: Answered | None = None) -> None:
        claims = trip.claims
        try:
            await self._courier.carry(trip, answered)
        finally:
            self._claims_under_way -= claims
            self._under_way -= 1
            self._slots.release(self._number, trip.reserved)
            self.stir()

    def _note_trouble(self) -> None:
        self._slots.say(self._number, hungry=False)

    # Claimed tasks

    async def _receive(self, trip: RoundTrip, batch: Batch, confirmed: bool) -> None:
        owner, claimed, sent_s = batch.owner, batch.claimed, batch.sent_s
        self._sleep_s = sleep_s(claimed)
        reserved, trip.reserved = trip.reserved, 0
        if not (confirmed and self._claiming):
            for grant in claimed.grants:
                self._outbox.put(self._intake.unstarted(owner, grant), None, ends_s(grant, sent_s))
            self._settle_places(claimed, reserved)
            return
        delivery = self._intake.sort(owner, claimed.grants, sent_s)
        for verb, deadline_s in delivery.refused:
            self._outbox.put(verb, None, deadline_s)
        attempts = [*delivery.attempts, *delivery.in_doubt, *delivery.on_probation]
        self.attempts.update(attempts)
        self._heartbeat.add(*[attempt.lease for attempt in attempts])
        if self._observed:
            for attempt in attempts:
                attempt.on_loss = self._observers.lost
                self._observers.claimed(attempt.lease)
        now_s = local_clock.elapsed_s()
        for attempt in delivery.attempts:
            self._start(attempt, now_s)
        for attempt in delivery.on_probation:
            attempt.lease.on_lost = partial(self._leave_line, attempt)
        self._probation.add(delivery.on_probation, self._note_failure)
        # Behind the handlers, so that they begin before the next round trip is made ready.
        self._settle_places(claimed, reserved - len(attempts))
        if delivery.in_doubt:
            await self._begin(*delivery.in_doubt)

    def _give_back(self, attempt: Attempt) -> None:
        """Ends an attempt that never began."""
        self._finish(attempt, self._intake.unstarted(attempt.lease.owner, attempt.lease._grant))

    def _leave_line(self, attempt: Attempt, reason: str) -> None:
        """The lease of an attempt that has not begun is lost; called from any thread."""

        def leave() -> None:
            if self._probation.leave(attempt):
                LOG.warning("task %s: its lease is lost before its handler has begun: %s", attempt.lease.id, reason)
                self._finish(attempt, None)

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(leave)

    async def _begin(self, *attempts: Attempt) -> None:
        """Starts handlers whose start the server has to know of first."""
        refused = dict(await self._intake.declare(list(attempts)) if self._claiming else ())
        now_s = local_clock.elapsed_s()
        for attempt in attempts:
            if attempt in refused:
                self._finish(attempt, refused[attempt])
            else:
                self._start(attempt, now_s)

    def _settle_places(self, claimed: Claimed, unused: int) -> None:
        """Frees the places that a claim did not need, and notes whether there is more to claim."""
        self._slots.say(self._number, hungry=claimed.more)
        self._slots.serve(self._number, len(claimed.grants))
        self._slots.release(self._number, unused)

    def _start(self, attempt: Attempt, now_s: float) -> None:
        """Starts a handler, unless its lease was lost or the worker was stopped in between."""
        lease = attempt.lease
        attempt.started_s = now_s
        lease.on_lost = attempt.lose
        if not self._claiming or lease.gone or lease.deadline_s <= now_s:
            lost = lease.gone and lease.lost_reason != SHUTDOWN
            if lost:
                self._finish(attempt, None)
            else:
                self._give_back(attempt)
        elif not attempt.task.signature.is_async:
            self._pool.submit(attempt.run_in_thread)
        elif sys.version_info >= (3, 12):
            # Eagerly, so that a handler that never waits costs no turn of the loop.
            attempt.running = asyncio.Task(attempt.run(), loop=self._loop, eager_start=True)
        else:
            attempt.running = asyncio.Task(attempt.run(), loop=self._loop)

    def _note_end_in_thread(self, attempt: Attempt, verb: Verb | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish, attempt, verb)

    def _finish(self, attempt: Attempt, verb: Verb | None) -> None:
        if attempt not in self.attempts:
            return
        self.attempts.discard(attempt)
        self._probation.note_end(attempt)
        attempt.lease.on_lost = None
        if self._observed and attempt.started_s:
            self._observers.handled(attempt.lease, local_clock.elapsed_s() - attempt.started_s)
        if verb is None:
            self._heartbeat.remove(attempt.lease)
        else:
            self._outbox.put(verb, attempt)
        self._slots.release(self._number)
