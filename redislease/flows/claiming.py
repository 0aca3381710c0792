"""Claiming tasks, and waiting for them."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass

from redislease import limits, local_clock, validation
from redislease.commands import claim as commands
from redislease.commands.settle import Return, release
from redislease.errors import NotReplicated, ServerUnavailable, WorkerUnknown
from redislease.flow import Block, Flow, Run
from redislease.flows.context import QueueContext
from redislease.handle import Handle
from redislease.identity import default_worker_name
from redislease.models import Claimed, Owner


@dataclass(frozen=True, slots=True)
class Batch:
    """What a claim brought.

    Attributes:
        owner: Whom the leases belong to.
        claimed: The server's answer.
        sent_s: The local clock before the claim was sent.
    """

    owner: str
    claimed: Claimed
    sent_s: float


def claim_once(
    context: QueueContext, limit: int, *, lane: str = "ready", owner: Owner | None = None, started: bool = True
) -> Flow[Batch]:
    """One claim without waiting.

    An identity of our own that the server has forgotten is registered anew; a caller's own is its business.
    """
    validation.integer(limit, "limit", low=0, high=limits.BATCH)
    commands.lane(lane)
    while True:
        who: Owner = owner or (yield from context.identities.default())
        call = commands.claim(who.name, context.identities.next_number(who), limit=limit, lane=lane, started=started)
        sent_s = local_clock.elapsed_s()
        try:
            claimed: Claimed = yield Run(call)
        except WorkerUnknown:
            if owner is not None:
                raise
            context.identities.forget(who)
            continue
        except NotReplicated as unconfirmed:
            claimed = yield from _give_back(context, who, unconfirmed)
        return Batch(who.name, claimed, sent_s)


def _give_back(context: QueueContext, owner: Owner, unconfirmed: NotReplicated) -> Flow[Claimed]:
    """Leases that no replica has confirmed might be given to somebody else after a failover: nobody acts on them."""
    claimed = unconfirmed.answer
    assert isinstance(claimed, Claimed)
    if claimed.grants:
        handles = [Handle(context.name, one.id, owner.name, one.generation, one.token) for one in claimed.grants]
        for first in range(0, len(handles), limits.SETTLE_BATCH):
            part = handles[first : first + limits.SETTLE_BATCH]
            with suppress(NotReplicated):
                yield Run(release([Return(handle, never_started=True) for handle in part]))
    return Claimed([], claimed.more, claimed.paused, claimed.next_due_at, claimed.now)


def claim(
    context: QueueContext,
    limit: int,
    *,
    wait_s: float | None = None,
    lane: str = "ready",
    owner: Owner | None = None,
    started: bool = True,
) -> Flow[Batch]:
    """Claims up to `limit` tasks; sleeps on the bell for at most `wait_s` seconds while there is none."""
    deadline = time.monotonic() + (wait_s or 0)
    while True:
        batch: Batch = yield from claim_once(context, limit, lane=lane, owner=owner, started=started)
        left_s = deadline - time.monotonic()
        if batch.claimed.grants or limit == 0 or left_s <= 0:
            return batch
        if not batch.claimed.more:
            # A server that is away is the next claim's business, which has the patience for it.
            with suppress(ServerUnavailable):
                yield Block([context.keys.wake(lane)], min(left_s, sleep_s(batch.claimed)))
        if owner is not None:
            # Other processes may claim as this owner: a number of our own counting could be one of theirs.
            owner = yield Run(commands.register(default_worker_name(), owner=owner.name))


def sleep_s(claimed: Claimed) -> float:
    """How long to sleep on the bell: until the next task is due, with a little jitter, within bounds."""
    if claimed.next_due_at is None:
        return limits.BLOCK_S_MAX
    until_due_s = (claimed.next_due_at - claimed.now) / 1000 + random.uniform(0, 0.2)
    return min(max(until_due_s, limits.BLOCK_S_MIN), limits.BLOCK_S_MAX)


def wait_s(value: object) -> float | None:
    """A waiting time in seconds, 0 to an hour."""
    if value is None:
        return None
    return validation.duration_ms(value, "wait", low_ms=0, high_ms=3_600_000) / 1000
