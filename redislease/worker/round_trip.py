"""One round trip of a worker: what was finished goes out, the next claim with it, and what handlers have to say."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from redislease import limits
from redislease.commands import claim as claim_commands
from redislease.commands import settle
from redislease.commands.call import Call
from redislease.worker.attempt import Attempt, Verb
from redislease.worker.errand import Errand


@dataclass(slots=True)
class Ending:
    """The end of one lease, on its way to the server.

    Attributes:
        verb: What to send.
        attempt: The attempt that ended; None for a lease that ends without one.
        ends_s: When the lease of one without an attempt ends, by the local clock.
        renewed: Whether the heartbeat goes on while the server cannot be reached.
    """

    verb: Any
    attempt: Attempt | None
    ends_s: float = 0.0
    renewed: bool = True

    @property
    def deadline_s(self) -> float:
        """Until when it can be delivered, by the local clock."""
        return self.ends_s if self.attempt is None else self.attempt.lease.deadline_s


class Outbox:
    """Endings that wait to be sent."""

    def __init__(self) -> None:
        self._completions: deque[Ending] = deque()
        self._failures: deque[Ending] = deque()
        self._returns: deque[Ending] = deque()

    def __len__(self) -> int:
        return len(self._completions) + len(self._failures) + len(self._returns)

    def put(self, verb: Verb, attempt: Attempt | None, ends_s: float = 0.0) -> None:
        """Adds an ending."""
        kind = type(verb)
        ending = Ending(verb, attempt, ends_s)
        if kind is settle.Completion:
            self._completions.append(ending)
        elif kind is settle.Failure:
            self._failures.append(ending)
        else:
            self._returns.append(ending)

    def take(self) -> RoundTrip:
        """As many as fit into one round trip."""
        trip = RoundTrip()
        size = 0
        while self._completions and len(trip.completions) < limits.SETTLE_BATCH:
            size += len(self._completions[0].verb.result)
            if size > limits.CALL_BYTES and trip.completions:
                break
            trip.completions.append(self._completions.popleft())
        for waiting, taken in ((self._failures, trip.failures), (self._returns, trip.returns)):
            while waiting and len(taken) < limits.SETTLE_BATCH:
                taken.append(waiting.popleft())
        return trip


@dataclass(slots=True)
class RoundTrip:
    """What one round trip carries; it is repeated, with the same claim, until everything in it is answered.

    Attributes:
        errands: Calls of handlers that go along with one attempt.
        completions: Handlers that returned.
        failures: Handlers that raised.
        returns: Leases that are given back.
        reserved: Places that its claim may fill.
        claims: Whether it claims at all.
        claim: The claim, once its number was drawn.
    """

    errands: list[Errand] = field(default_factory=list)
    completions: list[Ending] = field(default_factory=list)
    failures: list[Ending] = field(default_factory=list)
    returns: list[Ending] = field(default_factory=list)
    reserved: int = 0
    claims: bool = False
    claim: settle.NextClaim | None = None

    def __bool__(self) -> bool:
        return self.claims or bool(self.errands or self.completions or self.failures or self.returns)

    def parts(self) -> list[list[Ending]]:
        """The endings by verb, in the order of `calls`."""
        parts = [part for part in (self.failures, self.returns) if part]
        return [*parts, self.completions] if self.completions or self.claim else parts

    def calls(self) -> list[Call[Any]]:
        """What to send for `parts`: the completions carry the claim where there are any."""
        calls: list[Call[Any]] = []
        if self.failures:
            calls.append(settle.fail([one.verb for one in self.failures]))
        if self.returns:
            calls.append(settle.release([one.verb for one in self.returns]))
        claim = self.claim
        if self.completions:
            calls.append(settle.complete([one.verb for one in self.completions], claim))
        elif claim:
            calls.append(claim_commands.claim(claim.owner, claim.request_number, limit=claim.limit, started=False))
        return calls
