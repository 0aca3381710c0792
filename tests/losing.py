"""Every way to lose a lease, and every verb of a worker: the two sides of the refusal table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis
from virtual_clock import VirtualClock

LEASE_S = 60
PAST_LEASE_MS = LEASE_S * 1000 + 1


@dataclass
class Scene:
    """A task, the lease that will be lost, and who else is there."""

    queue: Any
    other: Any
    clock: VirtualClock
    lease: Any

    @property
    def task_id(self) -> str:
        """The task."""
        return str(self.lease.id)


def expired_and_unclaimed(scene: Scene) -> str:
    """Nobody has noticed yet."""
    scene.clock.advance_ms(PAST_LEASE_MS)
    return "expired"


def expired_and_recovered(scene: Scene) -> str:
    """Recovered, but nobody has claimed it again."""
    scene.clock.advance_ms(PAST_LEASE_MS)
    scene.queue.reap()
    return "expired"


def reclaimed_by_another(scene: Scene) -> str:
    """Another worker holds generation 2."""
    scene.clock.advance_ms(PAST_LEASE_MS)
    assert [lease.generation for lease in scene.other.claim()] == [2]
    return "reclaimed"


def reclaimed_by_the_same(scene: Scene) -> str:
    """The same worker, under the same identity, holds generation 2."""
    scene.clock.advance_ms(PAST_LEASE_MS)
    leases = scene.queue.claim()
    assert [lease.generation for lease in leases] == [2]
    assert leases[0].owner == scene.lease.owner
    return "reclaimed"


def settled_by_another(scene: Scene) -> str:
    """Another worker has completed generation 2."""
    scene.clock.advance_ms(PAST_LEASE_MS)
    scene.other.claim()[0].complete("theirs")
    return "superseded"


def completed(scene: Scene) -> str:
    """The holder itself has completed it."""
    scene.lease.complete("mine")
    return "settled"


def cancelled(scene: Scene) -> str:
    """An operator has cancelled it."""
    scene.queue.cancel(scene.task_id, by="ops")
    return "cancelled"


def revoked(scene: Scene) -> str:
    """An operator has taken the lease away."""
    scene.queue.revoke(scene.task_id, by="ops")
    return "revoked"


def dead(scene: Scene) -> str:
    """The holder has failed it for good."""
    scene.lease.fail("broken", retry=False)
    return "settled"


def purged(scene: Scene) -> str:
    """It was cancelled, and purged after its retention."""
    scene.queue.cancel(scene.task_id, by="ops")
    scene.clock.advance_ms(61_000)
    assert scene.queue.purge(cancelled=0, evidence=0).cancelled == 1
    return "unknown"


def enqueued_again(scene: Scene) -> str:
    """It was purged, and another task has the id now."""
    purged(scene)
    scene.queue.enqueue("again", side_effect="idempotent", task_id=scene.task_id)
    return "superseded"


def enqueued_again_and_claimed(scene: Scene) -> str:
    """Another task has the id now, and is being worked on under the same generation."""
    enqueued_again(scene)
    assert [lease.generation for lease in scene.other.claim()] == [1]
    return "reclaimed"


WAYS: dict[str, Callable[[Scene], str]] = {
    way.__name__: way
    for way in (
        expired_and_unclaimed,
        expired_and_recovered,
        reclaimed_by_another,
        reclaimed_by_the_same,
        settled_by_another,
        completed,
        cancelled,
        revoked,
        dead,
        purged,
        enqueued_again,
        enqueued_again_and_claimed,
    )
}

VERBS: dict[str, Callable[[Any], Any]] = {
    "renew": lambda lease: lease.renew(),
    "verify": lambda lease: lease.verify(),
    "progress": lambda lease: lease.progress(1),
    "complete": lambda lease: lease.complete("late"),
    "fail": lambda lease: lease.fail("late"),
    "fail_fatally": lambda lease: lease.fail("late", retry=False),
    "release": lambda lease: lease.release(),
    "release_later": lambda lease: lease.release(delay=5),
}

SETTLES_AS = {
    "complete": "complete",
    "fail": "fail",
    "fail_fatally": "fail",
    "release": "release",
    "release_later": "release",
}
SETTLED_BY = {"completed": "complete", "dead": "fail"}


def dump(client: redis.Redis, base: str) -> dict[bytes, bytes | None]:
    """Every key of a queue but the evidence, byte for byte."""
    names = sorted(client.scan_iter(f"{base}*", count=1000))
    return {name: client.dump(name) for name in names if not name.startswith(f"{base}evidence:".encode())}
