"""Evidence of an id that is used again and again: each task has a budget of its own, and what is old is forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from virtual_clock import VirtualClock

from redislease import LeaseLost
from redislease.keys import QueueKeys

pytestmark = pytest.mark.contract

DAY_MS = 86_400_000


def live(queue: Any, clock: VirtualClock, *, task_id: str = "nightly", endings: int = 1) -> Any:
    """A task from its beginning to its purge; answers its last lease."""
    queue.enqueue("work", task_id=task_id, side_effect="idempotent", max_attempts=1_000)
    for number in range(endings):
        (lease,) = queue.claim()
        if number < endings - 1:
            lease.release()
    lease.complete()
    clock.advance_ms(61_000)
    assert queue.purge(completed=60).completed == 1
    return lease


def late_calls(queue: Any, count: int, task_id: str = "nightly") -> None:
    """Calls under so many leases of a task that were lost."""
    for _ in range(count):
        (lease,) = queue.claim()
        queue.revoke(task_id, by="ops")
        with pytest.raises(LeaseLost):
            lease.complete()


def head_of(redis_client: redis.Redis, keys: QueueKeys, task_id: str = "nightly") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(redis_client.lindex(keys.evidence(task_id), 0))
    return found


def test_a_budget_for_each(queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock) -> None:
    redis_client.rpush(keys.evidence("nightly"), *[b'{"event":"released","at":%d}' % clock.now_ms] * 1_000)
    live(queue, clock, endings=3)
    live(queue, clock, endings=2)
    told = queue.evidence("nightly")
    assert [line["event"] for line in told[1_000:]] == ["released", "released", "completed", "released", "completed"]
    assert head_of(redis_client, keys) | {"fence": 0} == {
        **{"late": 0, "stale": 0, "dropped": 0, "before": 1_003, "fence": 0, "late_calls": []},
    }


def test_what_goes_beyond_it_is_counted(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
) -> None:
    live(queue, clock)
    queue.enqueue("work", task_id="nightly", side_effect="idempotent", max_attempts=1_000)
    redis_client.rpush(keys.evidence("nightly"), *[b'{"event":"released","at":%d}' % clock.now_ms] * 999)
    for _ in range(3):
        (lease,) = queue.claim()
        lease.release()
    assert queue.evidence("nightly")[-1] == {"event": "not_kept", "at": None, "lines": 2}
    head = head_of(redis_client, keys)
    assert (head["dropped"], head["before"], redis_client.llen(keys.evidence("nightly"))) == (2, 1, 1_002)


def test_late_calls_have_one_too(queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock) -> None:
    for _ in range(2):
        queue.enqueue("work", task_id="nightly", side_effect="idempotent", max_attempts=1_000)
        late_calls(queue, 25)
        assert head_of(redis_client, keys)["late"] == 20
        (lease,) = queue.claim()
        lease.complete()
        clock.advance_ms(61_000)
        queue.purge(completed=60)
    told = [line["event"] for line in queue.evidence("nightly")]
    assert (told.count("late_result"), told.count("revoked"), told.count("completed")) == (40, 50, 2)


def test_a_late_call_of_an_earlier_task_is_kept(queue: Any, clock: VirtualClock) -> None:
    old = live(queue, clock)
    queue.enqueue("work", task_id="nightly", side_effect="idempotent")
    with pytest.raises(LeaseLost):
        old.complete("late")
    assert [line["event"] for line in queue.evidence("nightly")] == ["completed", "late_result"]


def test_what_is_older_than_the_retention_is_forgotten(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
) -> None:
    for _ in range(40):
        live(queue, clock, endings=3)
        clock.advance_ms(DAY_MS - 61_000)
    assert redis_client.llen(keys.evidence("nightly")) == 1 + 30 * 3
    told = queue.evidence("nightly")
    assert told[0]["at"] >= clock.now_ms - 31 * DAY_MS
    assert [line["event"] for line in told] == ["released", "released", "completed"] * 30
    assert head_of(redis_client, keys)["before"] == 29 * 3
    assert 0 < redis_client.pttl(keys.evidence("nightly")) <= 30 * DAY_MS


def test_many_old_lines_are_forgotten_in_parts(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
) -> None:
    redis_client.rpush(keys.evidence("nightly"), *[b'{"event":"released","at":1}'] * 2_500)
    left = []
    for _ in range(4):
        live(queue, clock)
        left.append(head_of(redis_client, keys)["before"])
    assert left == [1_500, 501, 2, 3], "each purge looks at a thousand lines at most"


def test_a_log_of_the_wrong_type_costs_its_lines(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
) -> None:
    redis_client.set(keys.evidence("nightly"), "rubbish")
    live(queue, clock)
    assert redis_client.get(keys.evidence("nightly")) == b"rubbish"
    assert [line["event"] for line in queue.evidence("nightly")] == ["unreadable"]
    redis_client.delete(keys.evidence("nightly"))


def test_an_id_that_is_used_once_has_no_head(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
) -> None:
    live(queue, clock)
    assert [json.loads(line)["event"] for line in redis_client.lrange(keys.evidence("nightly"), 0, -1)] == ["completed"]


def test_old_leases_do_not_use_up_the_budget(queue: Any, clock: VirtualClock) -> None:
    queue.enqueue("w", task_id="x", side_effect="idempotent")
    old = []
    for _ in range(20):
        (lease,) = queue.claim()
        old.append(lease)
        lease.release()
    queue.claim()[0].complete()
    clock.advance_ms(61_000)
    queue.purge(completed=60)
    queue.enqueue("w", task_id="x", side_effect="idempotent")
    for lease in old:
        with pytest.raises(LeaseLost):
            lease.complete()
    (mine,) = queue.claim()
    queue.revoke("x", by="ops")
    with pytest.raises(LeaseLost):
        mine.complete()
    assert str(mine.fencing_token) in [one.get("token") for one in queue.evidence("x") if one["event"] == "late_result"]


def test_what_was_not_kept_is_told_in_its_own_life(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
) -> None:
    queue.enqueue("work", task_id="nightly", side_effect="idempotent")
    redis_client.rpush(keys.evidence("nightly"), *[b'{"event":"released","at":%d}' % clock.now_ms] * 1_000)
    (lease,) = queue.claim()
    lease.complete()
    for _ in range(2):
        assert [line["lines"] for line in queue.evidence("nightly") if line["event"] == "not_kept"] == [1]
        clock.advance_ms(61_000)
        queue.purge(completed=60)
        live(queue, clock)
        queue.enqueue("work", task_id="nightly", side_effect="idempotent")
        (lease,) = queue.claim()
        lease.complete()
    clock.advance_ms(31 * DAY_MS)
    queue.purge(completed=60)
    live(queue, clock)
    live(queue, clock)
    assert [line["event"] for line in queue.evidence("nightly")] == ["completed"] * 2
