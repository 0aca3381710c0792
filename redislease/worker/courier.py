"""Carries round trips to the server and their answers back: identity, repetition, and what cannot be delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redislease import local_clock
from redislease.async_queue import AsyncQueue
from redislease.commands import settle
from redislease.connection.failures import is_retriable
from redislease.connection.retry import backoff_delays
from redislease.errors import (
    ConfigurationError,
    NotReplicated,
    QueueExhausted,
    RedisLeaseError,
    ServerUnavailable,
    WorkerUnknown,
)
from redislease.flows.claiming import Batch
from redislease.heartbeat import Heartbeat
from redislease.identity import default_worker_name, registered
from redislease.lease_core import LeaseCore
from redislease.models import Claimed, Lost, Owner
from redislease.worker.attempt import LOG
from redislease.worker.errand import Shared
from redislease.worker.gatherer import Gatherer
from redislease.worker.observer import Observers
from redislease.worker.round_trip import Ending, RoundTrip
from redislease.worker.standing import LIMIT, Answered

VERBS = {settle.Completion: "complete", settle.Failure: "fail", settle.Return: "release"}

Receive = Callable[[RoundTrip, Batch, bool], Awaitable[None]]


class Courier:
    """The way of one queue's claims and endings to the server.

    A trip is repeated as it is, with the number of its claim, so that nothing is claimed or ended twice. While it is
    repeated, the leases of its endings are renewed, as far as the reason is that the server cannot be reached. Each
    attempt takes along what the gatherer has.

    Args:
        calls: On connections that no handler shares.
        heartbeat: Keeps the leases alive.
        on_owner: Told under which identity is claimed.
        on_trouble: Told that a claim could not be made.
        observers: Told of every ending that was recorded.
        receive: Given what a claim brought, and whether it is confirmed.
        gatherer: Has the calls of handlers.
    """

    def __init__(
        self,
        calls: AsyncQueue,
        heartbeat: Heartbeat,
        on_owner: Callable[[str], None],
        on_trouble: Callable[[], None],
        observers: Observers,
        receive: Receive,
        gatherer: Gatherer,
    ) -> None:
        self.name = calls.name
        self._calls = calls
        self._heartbeat = heartbeat
        self._on_owner = on_owner
        self._on_trouble = on_trouble
        self._observers = observers
        self._observed = bool(observers)
        self._receive = receive
        self._gatherer = gatherer
        self._owner: Owner | None = None
        self._abandoned = False
        self._troubled = False

    def standing_claim(self) -> RoundTrip | None:
        """A claim that is to stand behind the bell; None before there is an identity to claim as, or where none can."""
        if self._owner is None or not self._calls._transport.runs_behind_bells:
            return None
        return RoundTrip(reserved=LIMIT, claims=True, claim=self._next_claim(self._owner, LIMIT))

    async def carry(self, trip: RoundTrip, answered: Answered | None = None) -> None:
        """Sends a trip until everything in it is answered, or cannot be recorded any more.

        Args:
            trip: What to send.
            answered: What its claim, and nothing else, has been answered already.
        """
        if answered is not None and not answered.is_stale:
            await self._take(trip, trip.completions, answered.answer, answered.sent_s)
        delays = backoff_delays()
        while trip and not self._abandoned:
            problem = await self._attempt(trip)
            if problem is None or not trip:
                continue
            self._note_trouble(trip, problem)
            await asyncio.sleep(next(delays))
            self._drop_late(trip, problem)
            trip.errands = self._gatherer.take()
        if trip.errands:
            Shared(trip.errands).give_back()

    def abandon(self) -> None:
        """Gives up what is not answered yet."""
        self._abandoned = True

    async def _attempt(self, trip: RoundTrip) -> RedisLeaseError | None:
        """Sends a trip; what was answered leaves it."""
        leases = [one.attempt.lease for part in trip.parts() for one in part if one.attempt is not None]
        self._heartbeat.remove(*leases)
        shared, trip.errands = Shared(trip.errands), []
        try:
            if trip.claims and trip.claim is None:
                trip.claim = await self._draw_claim(trip.reserved)
            parts = trip.parts()
            sent_s = local_clock.elapsed_s()
            calls = [*shared.calls, *trip.calls()]
            answers = await self._calls._transport.run_many(calls, retry_for_s=0, return_errors=True)
            shared.take(answers[: len(shared.calls)])
            del answers[: len(shared.calls)]
        except ConfigurationError:
            raise
        except RedisLeaseError as problem:
            return problem
        finally:
            shared.give_back()
        problems = [await self._take(trip, part, answer, sent_s) for part, answer in zip(parts, answers, strict=True)]
        return next((problem for problem in problems if problem is not None), None)

    async def _take(self, trip: RoundTrip, part: list[Ending], answer: Any, sent_s: float) -> RedisLeaseError | None:
        """Takes in what one call answered; answers why it must be sent again, if it must."""
        unconfirmed = answer if isinstance(answer, NotReplicated) else None
        if unconfirmed is not None:
            answer = unconfirmed.answer
        if isinstance(answer, ConfigurationError):
            raise answer
        carries_claim = trip.claim is not None and part is trip.completions
        if isinstance(answer, RedisLeaseError):
            return self._claim_refused(trip, answer) if carries_claim and not part else answer
        claimed: Any = answer if isinstance(answer, Claimed) else None
        if isinstance(answer, tuple):
            answer, claimed = answer
        if part:
            self._note_answers(part, answer, kept=unconfirmed is not None)
        if not carries_claim:
            return unconfirmed
        if isinstance(claimed, RedisLeaseError):
            return self._claim_refused(trip, claimed)
        owner = trip.claim.owner if trip.claim else ""
        trip.claims, trip.claim = False, None
        self._note_recovery()
        await self._receive(trip, Batch(owner, claimed, sent_s), unconfirmed is None)
        return unconfirmed if part else None

    def _note_answers(self, part: list[Ending], answers: list[Any], *, kept: bool) -> None:
        for ending, answer in zip(part, answers, strict=True):
            # What no replica has confirmed is sent again while its lease would have lived.
            ending.renewed = False
            if isinstance(answer, Lost):
                LOG.warning("queue %s: the end of %s was refused: %s", self.name, ending.verb.handle.id, answer.reason)
            if ending.attempt is not None:
                lease = ending.attempt.lease
                if self._observed and not lease.settled:
                    if isinstance(answer, Lost):
                        self._observers.lost(lease, answer.reason)
                    else:
                        self._observers.ended(lease, VERBS[type(ending.verb)], answer.status)
                lease.note_end(answer)
        if not kept:
            part.clear()

    async def _draw_claim(self, limit: int) -> settle.NextClaim:
        if self._owner is None:
            name = self._calls._worker_name or default_worker_name()
            self._owner = await self._calls._drive(registered(name, retry_for_s=0))
            self._on_owner(self._owner.name)
        return self._next_claim(self._owner, limit)

    def _next_claim(self, owner: Owner, limit: int) -> settle.NextClaim:
        number = self._calls._context.identities.next_number(owner)
        return settle.NextClaim(owner.name, number, limit, started=False)

    def _claim_refused(self, trip: RoundTrip, refusal: RedisLeaseError) -> RedisLeaseError | None:
        """The next attempt claims under a new number, or as somebody else; what else was sent stands."""
        if isinstance(refusal, WorkerUnknown) and trip.claim is not None:
            if self._owner is not None and self._owner.name == trip.claim.owner:
                self._owner = None
            trip.claim = None
            return None
        if isinstance(refusal, QueueExhausted | ServerUnavailable):
            trip.claim = None
        return refusal

    # Trouble

    def _note_trouble(self, trip: RoundTrip, problem: RedisLeaseError) -> None:
        if not self._troubled:
            self._troubled = True
            LOG.warning("queue %s: a call failed and is repeated: %s", self.name, problem)
        if trip.claims:
            self._on_trouble()
        leases: list[LeaseCore] = []
        for part in trip.parts():
            for one in part:
                if one.attempt is not None and one.renewed and is_retriable(problem):
                    leases.append(one.attempt.lease)
        self._heartbeat.add(*leases)

    def _note_recovery(self) -> None:
        if self._troubled:
            self._troubled = False
            LOG.warning("queue %s: calls are answered again", self.name)

    def _drop_late(self, trip: RoundTrip, problem: RedisLeaseError) -> None:
        """Gives up endings whose lease is over: the server would refuse them."""
        now_s = local_clock.elapsed_s()
        for part in trip.parts():
            late = [one for one in part if one.deadline_s <= now_s]
            for one in late:
                part.remove(one)
                LOG.warning("queue %s: the end of %s was not recorded: %s", self.name, one.verb.handle.id, problem)
                if one.attempt is not None:
                    self._heartbeat.remove(one.attempt.lease)
