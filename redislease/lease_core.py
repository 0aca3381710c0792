"""What `Lease` and `AsyncLease` have in common: what is known locally, and the flows of their verbs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redislease import encoding, limits, local_clock, validation
from redislease.backoff import Backoff
from redislease.commands.hold import raise_lost
from redislease.commands.settle import Completion, Failure, Return
from redislease.errors import InvalidInput, LeaseLost, NotDone, QueuePaused, RedisLeaseError, ServerOutOfMemory, reading
from redislease.flow import Flow
from redislease.flows import settling
from redislease.handle import Handle
from redislease.local_process import own_pid
from redislease.models import Grant, Lost, Renewed, Settled, SideEffect
from redislease.redaction import Redaction


@dataclass(frozen=True, slots=True)
class LeasedTask:
    """The task of a lease as it was when it was claimed. Times are milliseconds of the server's clock."""

    id: str
    queue: str
    name: str
    side_effect: SideEffect
    idempotency_key: str
    priority: int
    created_at: int
    attempts: int
    failures: int
    lease_ms: int
    runtime_deadline: int | None


PUT_OFF_S = 5
"""After so many seconds a task is ready again whose effect was refused for a reason that is not its own."""


class LeaseCore:
    """Temporary authority over one task.

    The lease belongs to the process that claimed it. What is asked of it without a round trip (`remaining`, `lost`,
    `check`) is answered from a local deadline that was taken before the last confirmed claim or renewal was sent: it
    says no before the server would.
    """

    # What most leases never change, which saves their making some time.
    _capped = False
    _lost_reason: str | None = None
    _settled: Settled | None = None
    _reports = 0
    _trouble: RedisLeaseError | None = None
    """Why an effect could not begin, if the server was the reason: that is not the task's failure."""
    on_lost: Callable[[str], None] | None = None
    _payload: dict[str, Any] | None = None

    def __init__(self, queue: str, owner: str, grant: Grant, sent_s: float, redaction: Redaction) -> None:
        self._grant = grant
        self._redaction = redaction
        self._handle = Handle(queue, grant.id, owner, grant.generation, grant.token, grant.lease_ms)
        self._pid = own_pid()
        self._expires_at = grant.expires_at
        self._deadline_s = sent_s + grant.remaining_ms / 1000
        if grant.runtime_deadline is not None:
            self._capped = grant.expires_at >= grant.runtime_deadline

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._handle.id} generation {self.generation}>"

    @property
    def id(self) -> str:
        """The task's id."""
        return self._handle.id

    @property
    def task(self) -> LeasedTask:
        """The task as it was claimed."""
        grant = self._grant
        return LeasedTask(
            grant.id,
            self._handle.queue,
            grant.name,
            SideEffect(grant.side_effect),
            grant.idempotency_key,
            grant.priority,
            grant.created_at,
            grant.attempts,
            grant.failures,
            grant.lease_ms,
            grant.runtime_deadline,
        )

    @property
    def payload(self) -> dict[str, Any]:
        """The payload, decoded on first use."""
        if self._payload is None:
            self._payload = encoding.payload_from_json(self._grant.payload)
        return self._payload

    @property
    def owner(self) -> str:
        """The identity that holds the lease."""
        return self._handle.owner

    @property
    def generation(self) -> int:
        """Which acquisition of the task this is: 1, 2, 3 … For people."""
        return self._handle.generation

    @property
    def fencing_token(self) -> int:
        """The token of this acquisition, higher than every earlier one of the queue. For receivers."""
        return self._handle.token

    @property
    def expires_at(self) -> int:
        """When the lease ends unless it is renewed: milliseconds of the server's clock."""
        return self._expires_at

    @property
    def remaining(self) -> float:
        """Seconds left by the local deadline; 0 when the lease is lost or settled."""
        if self._lost_reason or self._settled:
            return 0.0
        return max(0.0, self._deadline_s - local_clock.elapsed_s())

    @property
    def lost(self) -> bool:
        """Whether the lease is known to be lost, or its local deadline has passed."""
        return self.lost_reason is not None

    @property
    def lost_reason(self) -> str | None:
        """Why, as one word; None while it is held or after it was settled."""
        if self._lost_reason is None and self._settled is None:
            if self._pid != own_pid():
                return "forked"
            if local_clock.elapsed_s() >= self._deadline_s:
                return "max_runtime" if self._capped else "deadline"
        return self._lost_reason

    @property
    def gone(self) -> bool:
        """Whether the lease is known to be lost for good: only a passed deadline can still turn out to be early."""
        return self._lost_reason is not None

    @property
    def settled(self) -> bool:
        """Whether its holder has ended it."""
        return self._settled is not None

    def check(self) -> None:
        """Raises when the lease is not known to be held. Local: nothing is sent.

        Raises:
            LeaseLost: It is lost, or it was not renewed in time.
        """
        reason = self.lost_reason or ("settled" if self._settled else None)
        if reason:
            raise_lost(self._handle, Lost(reason, None, None))

    def handle(self) -> str:
        """The lease as text, for another process of the same worker: `queue.attach(handle)`."""
        return self._handle.encode()

    def note_renewal(self, answer: Renewed | Lost, sent_s: float) -> None:
        """Takes in what a renewal said; also called by the heartbeat."""
        if isinstance(answer, Lost):
            self.note_loss(answer.reason)
        else:
            self._expires_at = answer.expires_at
            self._deadline_s = sent_s + answer.remaining_ms / 1000
            self._capped = answer.capped

    def note_loss(self, reason: str) -> None:
        """Remembers that the server refused the lease; one that its holder has ended is not lost."""
        if self._settled is None and self._lost_reason is None and reason != "settled":
            self._lost_reason = reason
            if self.on_lost:
                self.on_lost(reason)

    def note_deadline(self) -> None:
        """Tells whoever works on the task that the local deadline has passed, if it has."""
        if self._lost_reason is None and self.on_lost:
            reason = self.lost_reason
            if reason == "max_runtime":
                self.note_loss(reason)
            elif reason:
                self.on_lost(reason)

    @property
    def deadline_s(self) -> float:
        """The local deadline, on the clock of `local_clock`."""
        return self._deadline_s

    @property
    def capped(self) -> bool:
        """Whether `max_runtime` ends the lease at its deadline, so that it cannot be extended further."""
        return self._capped

    @property
    def heartbeat_s(self) -> float:
        """Seconds between two renewals."""
        return self._grant.lease_ms / 1000 / limits.HEARTBEATS_PER_LEASE

    def note_end(self, answer: Settled | Lost) -> None:
        """Takes in what an ending said."""
        if isinstance(answer, Lost):
            self.note_loss(answer.reason)
        else:
            self._settled = answer

    def _own_process(self) -> None:
        if self._pid != own_pid():
            raise LeaseLost("forked", task_id=self.id, generation=self.generation)

    def _patience_s(self) -> float:
        return self._deadline_s - local_clock.elapsed_s()

    def _held(self, answer: Settled | Lost) -> Settled:
        if isinstance(answer, Lost):
            self.note_loss(answer.reason)
            raise_lost(self._handle, answer)
        assert isinstance(answer, Settled)
        return answer

    def _ended(self, answer: Settled | Lost) -> Settled:
        self._settled = self._held(answer)
        return self._settled

    def _renew(self, lease_duration: Any) -> Flow[Renewed]:
        self._own_process()
        length = None if lease_duration is None else validation.lease_ms(lease_duration)
        sent_s = local_clock.elapsed_s()
        answer: Renewed | Lost = yield from settling.renew(self._handle, length, self._patience_s())
        self.note_renewal(answer, sent_s)
        if isinstance(answer, Lost):
            raise_lost(self._handle, answer)
        assert isinstance(answer, Renewed)
        return answer

    def _progress(self, done: Any, total: Any, note: Any) -> Flow[None]:
        self._own_process()
        self._reports += 1
        if isinstance(note, str):
            note = self._redaction.reason(validation.note(note, "the note", empty=True))
        answer = yield from settling.progress(self._handle, self._reports, done, total, note, self._patience_s())
        self._held(answer)

    def completion(self, result: Any, result_ref: Any = None) -> Completion:
        """A checked completion of this lease, for calls that settle many."""
        self._own_process()
        return settling.completion(self._handle, result, result_ref)

    def _complete(self, result: Any, result_ref: Any) -> Flow[Settled]:
        one = self.completion(result, result_ref)
        answer = yield from settling.complete(one, self._patience_s())
        return self._ended(answer)

    def failure(self, error: Any, *, retry: bool = True, delay: Any = None, not_done: bool = False) -> Failure:
        """A checked failure of this lease; without a delay the task's own backoff decides."""
        self._own_process()
        if delay is not None and not retry:
            raise InvalidInput("a failure for good comes back never, so it has no delay")
        if delay is not None:
            delay_ms = validation.delay_ms(delay)
        else:
            with reading("the backoff of the task"):
                backoff = Backoff.decode(self._grant.retry)
            delay_ms = backoff.delay_ms(self._grant.failures + 1, random.random())
        text = self._redaction.error(error)
        return settling.failure(self._handle, text, retry=retry, delay_ms=delay_ms, not_done=not_done)

    def _fail(self, error: Any, retry: Any, delay: Any, not_done: Any) -> Flow[Settled]:
        one = self.failure(error, retry=retry, delay=delay, not_done=not_done)
        answer = yield from settling.fail(one, self._patience_s())
        return self._ended(answer)

    @staticmethod
    def says_not_done(problem: BaseException) -> bool:
        """Whether an exception says that nothing happened, and not only that some effect inside did not."""
        return isinstance(problem, NotDone) and not problem.heard

    def is_put_off_by(self, problem: BaseException) -> bool:
        """Whether an effect was refused for a reason that is not the task's: it comes back, and counts no failure."""
        return isinstance(problem, QueuePaused | ServerOutOfMemory) or problem is self._trouble

    def giving_back(self, delay: Any = None, *, interrupted: bool = False, never_started: bool = False) -> Return:
        """A checked release of this lease."""
        self._own_process()
        delay_ms = None if delay is None else validation.delay_ms(delay)
        return Return(self._handle, delay_ms, interrupted, never_started, fresh=delay_ms is not None)

    def _release(self, delay: Any, interrupted: bool) -> Flow[Settled]:
        one = self.giving_back(delay, interrupted=interrupted)
        answer = yield from settling.release(one, self._patience_s())
        return self._ended(answer)
