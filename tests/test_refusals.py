"""G2: every verb of a worker × every way to have lost the lease is refused, with its reason, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from losing import LEASE_S, PAST_LEASE_MS, SETTLED_BY, SETTLES_AS, VERBS, WAYS, Scene, dump
from virtual_clock import VirtualClock

from redislease import LeaseEnded, LeaseLost, Queue
from redislease.commands import hold, settle
from redislease.handle import Handle
from redislease.keys import QueueKeys
from redislease.models import Lost

pytestmark = pytest.mark.contract


@pytest.fixture
def scene(queue: Any, other: Any, clock: VirtualClock) -> Scene:
    queue.enqueue("work", {"n": 1}, side_effect="idempotent", lease_duration=LEASE_S, max_expirations=100)
    return Scene(queue, other, clock, queue.claim()[0])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("way", WAYS)
def test_every_verb_is_refused_after_every_loss(
    scene: Scene, way: str, verb: str, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    reason = WAYS[way](scene)
    before = dump(redis_client, keys.base)
    if SETTLED_BY.get(way) is not None and SETTLED_BY.get(way) == SETTLES_AS.get(verb):
        assert VERBS[verb](scene.lease).replay
    else:
        with pytest.raises(LeaseLost) as refused:
            VERBS[verb](scene.lease)
        assert refused.value.reason == reason
        assert isinstance(refused.value, LeaseEnded) == (reason == "settled")
        assert scene.lease.lost_reason == (None if reason == "settled" else reason)
    assert dump(redis_client, keys.base) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_leaves_evidence_once(scene: Scene, way: str) -> None:
    reason = WAYS[way](scene)
    for _ in range(3):
        with pytest.raises(LeaseLost):
            scene.lease.release() if way in SETTLED_BY else scene.lease.complete("late")
    late = [line for line in scene.queue.evidence(scene.task_id) if line["event"] == "late_result"]
    if reason == "unknown":
        assert late == []
    else:
        assert [(line["reason"], line["token"], line["owner"]) for line in late] == [
            (reason, str(scene.lease.fencing_token), scene.lease.owner)
        ]


def test_refusals_fill_at_most_twenty_lines(scene: Scene) -> None:
    """A worker that never learns cannot fill the server."""
    scene.queue.cancel(scene.task_id, by="ops")
    fence = scene.queue.stats().fence
    for token in range(fence - 70, fence - 10):
        forged = Handle(scene.queue.name, scene.task_id, "w-99", 1, token)
        (answer,) = scene.queue.run(settle.complete([settle.Completion(forged)]))[0]
        assert answer == Lost("superseded", "cancelled", 1)
    events = [line["event"] for line in scene.queue.evidence(scene.task_id)]
    assert events.count("late_result") == 20


def mixed(lease: Any, **changed: Any) -> Handle:
    handle = Handle.decode(lease.handle())
    values = {name: getattr(handle, name) for name in ("queue", "id", "owner", "generation", "token")}
    return Handle(**(values | changed))


@pytest.mark.parametrize("changed", [{"owner": "w-999"}, {"generation": 1}, {"generation": 3}, {"owner": "other-9"}])
def test_a_handle_mixed_from_two_leases_is_not_the_owner(
    scene: Scene, changed: dict[str, Any], redis_client: redis.Redis, keys: QueueKeys
) -> None:
    scene.clock.advance_ms(PAST_LEASE_MS)
    (held,) = scene.other.claim()
    before = dump(redis_client, keys.base)
    handle = mixed(held, **changed)
    answers = [
        scene.queue.run(hold.renew([(handle, None)]))[0],
        scene.queue.run(hold.progress(handle, 1, 1))[0],
        scene.queue.run(settle.complete([settle.Completion(handle)]))[0][0],
        scene.queue.run(settle.fail([settle.Failure(handle, "x")]))[0],
        scene.queue.run(settle.release([settle.Return(handle)]))[0],
    ]
    assert answers == [Lost("not_owner", "leased", 2)] * 5
    assert dump(redis_client, keys.base) == before
    held.complete()


def test_a_token_that_was_never_issued_is_refused(scene: Scene) -> None:
    handle = mixed(scene.lease, token=scene.queue.stats().fence + 1)
    assert scene.queue.run(hold.renew([(handle, None)])) == [Lost("not_issued", "leased", 1)]
    scene.lease.renew()


def test_the_last_millisecond_counts(scene: Scene) -> None:
    """A lease is held while its expiry has not passed, and gone one millisecond later."""
    scene.clock.set_ms(scene.lease.expires_at)
    assert scene.queue.reap().recovered == []
    scene.lease.progress(1)
    scene.clock.advance_ms(1)
    with pytest.raises(LeaseLost, match="expired"):
        scene.lease.progress(2)
    assert [one.cause for one in scene.queue.reap().recovered] == ["expired"]


def test_the_cap_is_named(queue: Any, clock: VirtualClock) -> None:
    """A lease that ends at max_runtime says so, before and after its recovery."""
    queue.enqueue("work", side_effect="idempotent", lease_duration=60, max_runtime=90)
    (lease,) = queue.claim()
    clock.advance_ms(50_000)
    renewed = lease.renew()
    assert (renewed.capped, renewed.remaining_ms) == (True, 40_000)
    clock.advance_ms(40_001)
    with pytest.raises(LeaseLost, match="max_runtime"):
        lease.complete()
    assert [one.cause for one in queue.reap().recovered] == ["max_runtime"]
    with pytest.raises(LeaseLost, match="max_runtime"):
        lease.complete()
    assert queue.get(lease.id).expirations == 1


def test_the_same_task_twice_in_one_batch_is_one_completion(scene: Scene) -> None:
    handle = Handle.decode(scene.lease.handle())
    twice = [settle.Completion(handle, b"1"), settle.Completion(handle, b"2")]
    first, second = scene.queue.run(settle.complete(twice))[0]
    assert (first.status, first.replay) == ("completed", False)
    assert (second.status, second.replay) == ("completed", True)
    assert scene.queue.result(scene.task_id) == 1
    assert scene.queue.stats().counters["completed"] == 1


def test_a_refused_item_does_not_stop_the_others(queue: Any, clock: VirtualClock) -> None:
    for _ in range(3):
        queue.enqueue("work", side_effect="idempotent")
    leases = queue.claim(3)
    queue.cancel(leases[1].id, by="ops")
    answers, _ = queue.complete_many([(lease, lease.id) for lease in leases])
    assert [getattr(answer, "reason", "") for answer in answers] == ["", "cancelled", ""]
    assert [queue.get(lease.id).status for lease in leases] == ["completed", "cancelled", "completed"]


def test_sync_and_async_refuse_alike() -> None:
    """The table above runs over both; this keeps the two facades from drifting apart."""
    from redislease import AsyncLease, AsyncQueue, Lease

    for sync, asynchronous in ((Queue, AsyncQueue), (Lease, AsyncLease)):
        public = {name for name in dir(sync) if not name.startswith("_")} - {"close", "aclose"}
        assert public == {name for name in dir(asynchronous) if not name.startswith("_")} - {"close", "aclose"}
