"""What is kept, for how long, and what is deleted: evidence, results, retentions."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from keyspace import Keyspace
from servers import once
from virtual_clock import VirtualClock

from redislease import InvalidInput, ServerError, TaskUnknown
from redislease.keys import QueueKeys

pytestmark = pytest.mark.contract


def leased(queue: Any, side_effect: str = "idempotent", **options: Any) -> Any:
    queue.enqueue("work", {"n": 1}, side_effect=side_effect, **options)
    (lease,) = queue.claim()
    return lease


def events(queue: Any, task_id: str) -> list[str]:
    return [line["event"] for line in queue.evidence(task_id)]


def test_a_life_in_evidence(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue, max_attempts=9)
    lease.fail(ValueError("bad \x1b[31m thing\n" * 3), delay=1)
    clock.advance_ms(1_000)
    (second,) = queue.claim()
    clock.advance_ms(60_001)
    (third,) = queue.claim()
    third.complete({"r": 1})
    lines = queue.evidence(lease.id)
    assert [(line["event"], line["generation"], line["to"]) for line in lines] == [
        ("failed", 1, "scheduled"),
        ("expired", 2, "ready"),
        ("completed", 3, "completed"),
    ]
    assert [line["token"] for line in lines] == [str(one.fencing_token) for one in (lease, second, third)]
    assert all(line["owner"] == lease.owner for line in lines)
    assert lines[0]["error"] == "ValueError: " + "bad \x1b[31m thing\n" * 3


def test_read_only_tasks_record_only_what_went_wrong(queue: Any, clock: VirtualClock) -> None:
    smooth = leased(queue, "read_only")
    smooth.release()
    queue.claim()[0].complete()
    assert events(queue, smooth.id) == []
    rough = leased(queue, "read_only")
    rough.fail("x", delay=0)
    queue.claim()
    clock.advance_ms(60_001)
    queue.reap()
    assert events(queue, rough.id) == ["failed", "expired"]


@pytest.mark.parametrize("both", ["sync"], indirect=True)
def test_evidence_has_a_budget_and_counts_beyond_it(queue: Any, redis_client: redis.Redis, keys: QueueKeys) -> None:
    task = queue.enqueue("work", side_effect="idempotent")
    queue.claim()[0].release()
    line = redis_client.lindex(keys.evidence(task.id), -1)
    redis_client.rpush(keys.evidence(task.id), *[line] * 989)
    for _ in range(20):
        queue.claim()[0].release()
    queue.claim()[0].complete()
    *kept, last = queue.evidence(task.id)
    assert (len(kept), last) == (1_000, {"event": "not_kept", "at": None, "lines": 11})
    assert b'"dropped":11' in redis_client.lindex(keys.evidence(task.id), 0)


def test_errors_are_cut_and_never_refused(queue: Any) -> None:
    lease = leased(queue, max_attempts=9)
    lease.fail("é" * 5_000_000, delay=0)
    (second,) = queue.claim()
    second.fail("lone \ud800 surrogate", delay=0)
    errors = [line["error"] for line in queue.evidence(lease.id)]
    assert errors == ["é" * 4_096, "lone ? surrogate"]
    assert len(queue.get(lease.id).last_error.encode()) <= 64


@once
@pytest.mark.parametrize("error", [None, 5, b"x"], ids=repr)
def test_odd_errors_are_refused(queue: Any, error: Any) -> None:
    with pytest.raises(InvalidInput):
        leased(queue).fail(error)


def test_results(queue: Any) -> None:
    lease = leased(queue)
    for odd in (float("nan"), {1: 2}, "\ud800", print, "x" * 1_048_576):
        with pytest.raises(InvalidInput):
            lease.complete(odd)
    for ref in ("", "x" * 1_025, 5):
        with pytest.raises(InvalidInput):
            lease.complete(1, result_ref=ref)
    lease.complete(["a", {"b": None}], result_ref="s3://bucket/" + "k" * 100)
    assert queue.result(lease.id) == ["a", {"b": None}]
    assert queue.get(lease.id).result_ref == "s3://bucket/" + "k" * 100
    nothing = leased(queue)
    nothing.complete()
    assert queue.result(nothing.id) is None


def test_purge_leaves_nothing_of_a_task(
    queue: Any, clock: VirtualClock, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    """Only evidence outlives it, with an expiry; a retention of 0 deletes that too."""
    lease = leased(queue, task_id="mine", idempotency_key="k")
    lease.progress(1, note="half")
    lease.complete({"r": 1})
    clock.advance_ms(61_000)
    assert queue.purge(completed=60, evidence=3_600).completed == 1
    left = [name for name in Keyspace(redis_client, keys).names if "mine" in name or name.endswith(":k")]
    assert left == ["evidence:mine"]
    assert 0 < redis_client.pttl(keys.evidence("mine")) <= 3_600_000
    assert events(queue, "mine") == ["completed"]
    with pytest.raises(TaskUnknown):
        queue.get("mine")
    leased(queue, task_id="mine").complete()
    assert redis_client.ttl(keys.evidence("mine")) == -1
    clock.advance_ms(61_000)
    queue.purge(completed=60, evidence=0)
    assert [name for name in Keyspace(redis_client, keys).names if "mine" in name] == []
    assert redis_client.hlen(keys.payloads) == redis_client.hlen(keys.results) == 0


def test_retentions(queue: Any, clock: VirtualClock) -> None:
    """Completed an hour, cancelled a week, dead and in doubt for good; never less than a minute."""
    completed, cancelled, dead, doubtful = (leased(queue, "non_idempotent") for _ in range(4))
    completed.complete()
    queue.cancel(queue.enqueue("work", side_effect="read_only").id, by="ops")
    cancelled.release()
    queue.cancel(cancelled.id, by="ops")
    dead.fail("x", retry=False, not_done=True)
    doubtful.fail("x")
    clock.advance_ms(59_999)
    assert queue.purge(completed=0, cancelled=0, dead=0) == queue.purge()
    clock.advance_ms(3_600_000 - 59_999)
    assert queue.purge().completed == 1
    clock.advance_ms(7 * 86_400_000)
    assert queue.purge().cancelled == 2
    clock.advance_ms(3_000 * 86_400_000)
    assert queue.purge().dead == 0
    assert queue.purge(dead=60, by="ops", reason="clean-up").dead == 1
    assert queue.purge(dead=60).more is False
    assert queue.get(doubtful.id).status == "reconciling"
    assert [(line["event"], line["dead"]) for line in queue.audit()] == [("purge", 1)]


def test_a_purge_is_bounded(queue: Any, clock: VirtualClock) -> None:
    queue.enqueue_many([{"name": "work", "side_effect": "read_only"}] * 30)
    queue.complete_many([(lease, None) for lease in queue.claim(30)])
    clock.advance_ms(3_600_001)
    purged = queue.purge(limit=20)
    assert (purged.completed, purged.more) == (20, True)
    purged = queue.purge(limit=20)
    assert (purged.completed, purged.more) == (10, False)


@once
@pytest.mark.parametrize("retention", [-1, float("nan"), float("inf"), True, "5", 1e18], ids=repr)
def test_odd_retentions_are_refused(queue: Any, retention: Any) -> None:
    for name in ("completed", "cancelled", "dead", "evidence"):
        with pytest.raises(InvalidInput):
            queue.purge(**{name: retention})


def test_every_ending_then_purge_is_back_at_the_base_line(
    queue: Any, clock: VirtualClock, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    """Keys left over after a task is gone are how a queue fills a server over a year."""
    queue.claim()
    for number in range(40):
        lease = leased(queue, ("read_only", "idempotent", "non_idempotent")[number % 3], idempotency_key=f"k{number}")
        ending = number % 8
        lease.progress(1)
        if ending == 0:
            lease.complete({"r": number})
        elif ending == 1:
            lease.fail("x", retry=False)
        elif ending == 2:
            lease.fail("x", delay=1)
        elif ending == 3:
            lease.release(delay=1)
        elif ending == 4:
            queue.cancel(lease.id, by="ops")
        elif ending == 5:
            queue.revoke(lease.id, by="ops")
        elif ending == 6:
            lease.release(interrupted=True)
        clock.advance_ms(60_001)
        queue.reap()
        # What went back is not to be handed out again in place of the next.
        for state in ("ready", "scheduled", "reconciling"):
            for task in queue.tasks(state):
                queue.cancel(task.id, by="ops")
    for task in queue.tasks("unsettled"):
        queue.resolve(task.id, "done", by="ops", effects={"handler": "not_done"})
    clock.advance_ms(40 * 86_400_000)
    while queue.purge(completed=60, cancelled=60, dead=60, evidence=0).more:
        pass
    left = {name.split(":")[0] for name in Keyspace(redis_client, keys).names}
    assert left <= {"meta", "wake", "signal"}


def test_listings_never_load_payloads(queue: Any) -> None:
    queue.enqueue_many([{"name": "big", "side_effect": "read_only", "payload": {"x": "y" * 500_000}}] * 20)
    assert len(queue.tasks("ready", limit=1000)) == 20
    assert len(queue.tasks("ready", limit=7, offset=15)) == 5
    for odd in ({"limit": 0}, {"limit": 1001}, {"offset": -1}):
        with pytest.raises(InvalidInput):
            queue.tasks("ready", **odd)
    with pytest.raises(InvalidInput):
        queue.tasks("nowhere")


def test_check_finds_what_disagrees(queue: Any, redis_client: redis.Redis, keys: QueueKeys) -> None:
    lease = leased(queue)
    assert all(not queue.check(index).problems for index in ("ready", "leased", "completed", "unsettled"))
    redis_client.zadd(keys.index("leased"), {lease.id: 5})
    redis_client.zadd(keys.index("ready"), {lease.id: 5})
    found = [one.problem for one in queue.check("leased").problems]
    assert any("expires at" in problem for problem in found)
    assert any("in leased and in ready" in problem for problem in found)
    assert queue.check("ready").problems
    redis_client.zadd(keys.index("leased"), {lease.id: lease.expires_at})
    redis_client.zrem(keys.index("ready"), lease.id)
    with pytest.raises(InvalidInput):
        queue.check("nowhere")


@pytest.mark.broken_keys
def test_a_hash_that_cannot_be_read_is_said_to_be(queue: Any, redis_client: redis.Redis, keys: QueueKeys) -> None:
    task = queue.enqueue("work", side_effect="idempotent")
    redis_client.hset(keys.task(task.id), mapping={"status": "elsewhere", "attempts": "x"})
    for look in (lambda: queue.get(task.id), lambda: queue.detail(task.id), lambda: queue.tasks("ready")):
        with pytest.raises(ServerError, match="status, attempts"):
            look()
