"""Claims: exclusive, in order, bounded, repeatable."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis
from servers import Engine, once
from virtual_clock import VirtualClock

from redislease import InvalidInput, Queue, WorkerUnknown
from redislease.commands import claim as commands
from redislease.commands.settle import Completion, NextClaim, complete
from redislease.errors import ServerUnavailable
from redislease.handle import Handle
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

pytestmark = pytest.mark.contract


def names(leases: list[Any]) -> list[str]:
    return [lease.task.name for lease in leases]


def put(queue: Any, *task_names: str, **options: Any) -> None:
    queue.enqueue_many([{"name": name, "side_effect": "idempotent", **options} for name in task_names])


def test_at_most_one_lease_for_each_task(engine: Engine, queue_name: str, queue: Any) -> None:
    """G1, with real threads and real connections."""
    put(queue, *(f"n{i}" for i in range(200)))
    seen: list[str] = []

    def work() -> None:
        with Queue(queue_name, redis_url=engine.url) as mine:
            while leases := mine.claim(7):
                seen.extend(lease.id for lease in leases)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == len(set(seen)) == 200


def test_priority_first_then_the_order_of_arrival(queue: Any) -> None:
    put(queue, "a", "b")
    put(queue, "urgent", priority=100)
    put(queue, "later", priority=-100)
    put(queue, "c")
    assert names(queue.claim(10)) == ["urgent", "a", "b", "c", "later"]


def test_a_task_keeps_its_place(queue: Any, clock: VirtualClock) -> None:
    """Through expiry, backoff, and a release at shutdown; a release with a delay goes to the back."""
    put(queue, "a", "b", "c")
    queue.claim()[0].release(interrupted=True)
    put(queue, "d")
    assert names(queue.claim()) == ["a"]
    clock.advance_ms(60_001)
    (a,) = queue.claim()
    assert (a.task.name, a.generation) == ("a", 3)
    a.fail("x", delay=1)
    clock.advance_ms(1_000)
    (a,) = queue.claim()
    assert a.task.name == "a"
    a.release(delay=1)
    clock.advance_ms(1_000)
    assert names(queue.claim(10)) == ["b", "c", "d", "a"]


def test_a_scheduled_task_draws_its_place_when_it_becomes_ready(queue: Any, clock: VirtualClock) -> None:
    put(queue, "later", delay=10)
    put(queue, "now")
    clock.advance_ms(10_000)
    put(queue, "after")
    queue.reap()
    assert names(queue.claim(10)) == ["now", "after", "later"]


def test_a_delayed_task_is_never_leased_before_it_is_due(queue: Any, clock: VirtualClock) -> None:
    put(queue, "later", delay=7_200)
    clock.advance_ms(7_199_999)
    queue.reap()
    assert queue.claim(5) == []
    clock.advance_ms(1)
    assert names(queue.claim(5)) == ["later"]


def test_a_task_twenty_times_longer_than_its_lease_is_claimed_once(queue: Any, other: Any, clock: VirtualClock) -> None:
    put(queue, "long")
    (lease,) = queue.claim()
    for _ in range(60):
        clock.advance_ms(20_000)
        lease.renew()
        assert other.claim() == []
    lease.complete()
    assert queue.get(lease.id).claim_generation == 1
    assert queue.evidence(lease.id)[0]["renewals"] == 60


def test_a_queue_works_without_a_reaper(queue: Any, other: Any, clock: VirtualClock) -> None:
    put(queue, *(f"n{i}" for i in range(30)))
    assert len(queue.claim(30)) == 30
    put(queue, "due", delay=50)
    clock.advance_ms(60_001)
    assert len(other.claim(100)) == 31
    assert queue.stats().counters["expired"] == 30


def test_a_claim_recovers_a_bounded_number(queue: Any, clock: VirtualClock) -> None:
    put(queue, *(f"n{i}" for i in range(40)))
    queue.claim(40)
    clock.advance_ms(60_001)
    assert len(queue.claim(1)) == 1
    assert queue.stats().counters["expired"] == 8


def test_answers_end_at_four_mebibytes(queue: Any) -> None:
    payload = {"x": "y" * 1_000_000}
    queue.enqueue_many([{"name": f"n{i}", "side_effect": "read_only", "payload": payload} for i in range(7)])
    assert [len(queue.claim(10)) for _ in range(2)] == [4, 3]


def test_more_is_said(queue: Any) -> None:
    put(queue, "a", "b")
    owner = queue.register("me")
    first = queue.run(commands.claim(owner.name, 1, limit=1))
    assert (len(first.grants), first.more, first.next_due_at) == (1, True, None)
    second = queue.run(commands.claim(owner.name, 2, limit=5))
    assert (len(second.grants), second.more) == (1, False)
    assert second.next_due_at == second.grants[0].expires_at + 1


def test_the_same_request_number_claims_nothing_new(queue: Any, clock: VirtualClock) -> None:
    """G7: a claim whose reply was lost answers again what is still held."""
    put(queue, "a", "b", "c", "d")
    owner = queue.register("me").name
    first = queue.run(commands.claim(owner, 1, limit=3))
    assert queue.run(commands.claim(owner, 1, limit=3)).grants == first.grants
    handle = Handle(queue.name, first.grants[1].id, owner, 1, first.grants[1].token)
    queue.run(complete([Completion(handle)]))
    again = queue.run(commands.claim(owner, 1, limit=3))
    assert again.grants == [first.grants[0], first.grants[2]]
    clock.advance_ms(60_001)
    assert queue.run(commands.claim(owner, 1, limit=3)).grants == []
    assert [grant.name for grant in queue.run(commands.claim(owner, 2, limit=9)).grants] == ["a", "c", "d"]


def test_a_replay_never_answers_a_later_lease_of_the_same_owner(queue: Any, clock: VirtualClock) -> None:
    put(queue, "a")
    owner = queue.register("me").name
    queue.run(commands.claim(owner, 1))
    clock.advance_ms(60_001)
    assert [grant.generation for grant in queue.run(commands.claim(owner, 2)).grants] == [2]
    assert queue.run(commands.claim(owner, 1)).grants == []


def test_a_claim_repeated_after_sixteen_newer_ones_is_stale(queue: Any) -> None:
    put(queue, *(f"n{i}" for i in range(40)))
    owner = queue.register("me").name
    for number in range(1, 18):
        assert len(queue.run(commands.claim(owner, number)).grants) == 1
    with pytest.raises(ServerUnavailable):
        queue.run(commands.claim(owner, 1))
    assert queue.stats().states["leased"] == 17


def test_a_late_copy_of_an_empty_claim_claims_nothing(queue: Any) -> None:
    """Else its sender, who has moved on, would hold a lease that it knows nothing of."""
    owner = queue.register("me").name
    assert queue.run(commands.claim(owner, 1)).grants == []
    put(queue, "a")
    late = queue.run(commands.claim(owner, 1))
    assert (late.grants, late.more) == ([], True)
    assert len(queue.run(commands.claim(owner, 2)).grants) == 1


def test_a_late_copy_of_a_claim_that_met_a_pause_claims_nothing(queue: Any) -> None:
    put(queue, "a")
    owner = queue.register("me").name
    queue.pause(by="ops", reason="deploy")
    assert queue.run(commands.claim(owner, 1)).paused
    queue.resume(by="ops", reason="done")
    assert queue.run(commands.claim(owner, 1)).grants == []
    assert len(queue.run(commands.claim(owner, 2)).grants) == 1


def test_a_probe_takes_nothing_and_is_not_remembered(queue: Any) -> None:
    put(queue, "a")
    owner = queue.register("me").name
    probe = queue.run(commands.claim(owner, 1, limit=0))
    assert (probe.grants, probe.more) == ([], True)
    assert len(queue.run(commands.claim(owner, 1)).grants) == 1


def test_completing_and_claiming_in_one_call_is_repeatable(queue: Any) -> None:
    put(queue, "a", "b", "c")
    owner = queue.register("me").name
    (grant,) = queue.run(commands.claim(owner, 1)).grants
    call = complete([Completion(Handle(queue.name, grant.id, owner, 1, grant.token), b"1")], NextClaim(owner, 2, 1))
    first, again = queue.run(call), queue.run(call)
    assert [one.grants for one in (first[1], again[1])] == [first[1].grants] * 2
    assert (first[0][0].replay, again[0][0].replay) == (False, True)
    assert queue.stats().states["ready"] == 1


def test_a_forgotten_identity_registers_anew(queue: Any, redis_client: redis.Redis, clock: VirtualClock) -> None:
    """Purge removes owners silent for an hour; their leases stay valid, and they go on under a new name."""
    queue.enqueue("a", side_effect="idempotent", lease_duration=43_200)
    put(queue, "b", "c")
    (held,) = queue.claim()
    clock.advance_ms(3_600_001)
    assert queue.purge().workers == 1
    (next_one,) = queue.claim()
    assert next_one.owner != held.owner
    held.complete()
    clock.advance_ms(3_600_001)
    assert queue.purge().workers == 1
    answers, leases = queue.complete_many([(queue.claim()[0], None)], claim=1)
    assert (len(answers), len(leases)) == (1, 1)
    with pytest.raises(WorkerUnknown):
        queue.run(commands.claim("nobody-1", 1))


def test_renewing_counts_as_being_seen(queue: Any, clock: VirtualClock) -> None:
    queue.enqueue("a", side_effect="idempotent", lease_duration=43_200)
    (lease,) = queue.claim()
    clock.advance_ms(3_000_000)
    lease.renew()
    clock.advance_ms(3_000_000)
    assert queue.purge().workers == 0


@pytest.mark.broken_keys
def test_a_stray_id_neither_blocks_the_head_nor_is_handed_out(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    put(queue, "a", "b")
    done = queue.enqueue("done", side_effect="idempotent", priority=50)
    queue.claim()[0].complete()
    redis_client.zadd(keys.index("ready"), {"no-hash": 0, done.id: 1, "wrong-type": 2})
    redis_client.rpush(keys.task("wrong-type"), "x")
    assert names(queue.claim(3)) == []
    assert names(queue.claim(2)) == ["a", "b"]
    assert redis_client.zrange(keys.base + "orphans", 0, -1) == [b"no-hash", b"wrong-type"]
    assert (queue.get(done.id).status, redis_client.zscore(keys.index("ready"), done.id)) == ("completed", None)
    found = {one.id: one.problem for one in queue.check("orphans").problems}
    assert found == {"no-hash": "has no hash", "wrong-type": "has a key of the wrong type"}


@once
@pytest.mark.parametrize("limit", [-1, 1001, 1.0, True, "1", None])
def test_odd_limits_are_refused(queue: Any, limit: Any) -> None:
    with pytest.raises(InvalidInput):
        queue.claim(limit)


@once
@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), True, "1", 1e18])
def test_odd_waits_are_refused(queue: Any, wait: Any) -> None:
    with pytest.raises(InvalidInput):
        queue.claim(wait=wait)


def test_a_waiting_claim_is_woken(engine: Engine, queue_name: str, queue: Any, library: ScriptLibrary) -> None:
    """A bell, not a poll: the task is there long before the block would have ended."""
    woken: list[tuple[float, str]] = []

    def wait() -> None:
        with Queue(queue_name, redis_url=engine.url, scripts=library) as mine:
            leases = mine.claim(wait=20)
            woken.append((time.monotonic(), leases[0].task.name))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)  # until it sleeps on the bell; too short would only make the test easier
    put_at = time.monotonic()
    put(queue, "a")
    thread.join(20)
    assert woken[0][1] == "a"
    assert woken[0][0] - put_at < 3


def test_waiting_ends_in_time(queue: Any) -> None:
    started = time.monotonic()
    assert queue.claim(wait=0.3) == []
    assert 0.25 < time.monotonic() - started < 3


def test_one_enqueue_wakes_one_of_many(engine: Engine, queue: Any, keys: QueueKeys, redis_client: redis.Redis) -> None:
    """The bell has one member: the second sleeper stays asleep until a claim has found that more is waiting."""
    put(queue, "a")
    put(queue, "b")
    assert redis_client.zcard(keys.wake()) == 1
    redis_client.delete(keys.wake())
    queue.claim()
    assert redis_client.zcard(keys.wake()) == 1
    redis_client.delete(keys.wake())
    queue.claim()
    assert redis_client.zcard(keys.wake()) == 0


def test_a_due_time_that_becomes_the_earliest_rings(
    queue: Any, keys: QueueKeys, redis_client: redis.Redis, clock: VirtualClock
) -> None:
    put(queue, "later", delay=100)
    assert redis_client.zcard(keys.wake()) == 1
    redis_client.delete(keys.wake())
    put(queue, "even later", delay=200)
    assert redis_client.zcard(keys.wake()) == 0
    put(queue, "sooner", delay=50)
    assert redis_client.zcard(keys.wake()) == 1


def test_a_lost_lease_rings_its_owner(
    queue: Any, keys: QueueKeys, redis_client: redis.Redis, clock: VirtualClock
) -> None:
    put(queue, "a", "b", "c")
    a, b, c = queue.claim(3)
    signal = keys.signal(a.owner)
    for lose in (
        lambda: queue.cancel(a.id, by="ops"),
        lambda: queue.revoke(b.id, by="ops"),
        lambda: (clock.advance_ms(60_001), queue.reap()),
    ):
        lose()
        assert redis_client.zcard(signal) == 1
        assert 0 < redis_client.pttl(signal) <= 60_000
        redis_client.delete(signal)
    c.task  # noqa: B018 - named for the reader
