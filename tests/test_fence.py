"""G3: fencing tokens of one queue are unique and increase in the order of acquisition."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from virtual_clock import VirtualClock

from redislease.keys import QueueKeys

pytestmark = pytest.mark.contract


def test_a_batch_takes_consecutive_tokens(queue: Any, other: Any) -> None:
    queue.enqueue_many([{"name": "work", "side_effect": "read_only"}] * 40)
    tokens = [lease.fencing_token for worker in (queue, other) * 2 for lease in worker.claim(10)]
    assert len(set(tokens)) == 40
    assert tokens == sorted(tokens)
    assert [tokens[i + 1] - tokens[i] for i in range(9)] == [1] * 9


def test_tokens_survive_purge_and_a_reused_id_while_the_clock_steps_back(queue: Any, clock: VirtualClock) -> None:
    """A per-task counter would start again at 1, and a clock alone would repeat itself."""
    tokens = []
    for step in range(12):
        clock.advance_ms(-40_000 if step % 3 else 70_000)
        queue.enqueue("work", side_effect="read_only", task_id="same-id")
        (lease,) = queue.claim()
        tokens.append(lease.fencing_token)
        assert lease.generation == 1
        lease.complete()
        queue.purge(completed=0)
        clock.advance_ms(70_000)
        assert queue.purge(completed=0).completed == 1
    assert tokens == sorted(set(tokens))


def test_the_fence_stays_ahead_of_the_clock(queue: Any, clock: VirtualClock) -> None:
    """What cures lost writes: a token is at least the server's microseconds."""
    queue.enqueue("work", side_effect="read_only")
    (lease,) = queue.claim()
    assert lease.fencing_token == clock.now_ms * 1000


def test_lost_writes_do_not_issue_a_token_again(
    queue: Any, clock: VirtualClock, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    queue.enqueue_many([{"name": "work", "side_effect": "read_only"}] * 10)
    saved = {name: redis_client.dump(name) for name in redis_client.scan_iter(f"{keys.base}*")}
    issued = {lease.fencing_token for lease in queue.claim(10)}
    for name in redis_client.scan_iter(f"{keys.base}*"):
        redis_client.delete(name)
    for name, value in saved.items():
        redis_client.restore(name, 0, value)
    clock.advance_ms(1_000)
    again = {lease.fencing_token for lease in queue.claim(10)}
    assert len(again) == 10
    assert min(again) > max(issued)


@pytest.mark.parametrize("decide", ["cancel", "revoke", "reap", "resolve", "requeue"])
def test_decisions_raise_the_fence_over_the_holder(queue: Any, clock: VirtualClock, decide: str) -> None:
    """So that an operator can fence an old worker out of a protected resource."""
    queue.enqueue("work", side_effect="non_idempotent")
    (lease,) = queue.claim()
    if decide == "reap":
        clock.advance_ms(60_001)
        fence = queue.reap().fence
    elif decide == "resolve":
        lease.fail("x")
        fence = queue.resolve(lease.id, "dead", by="ops").fence
    elif decide == "requeue":
        lease.fail("x", retry=False, not_done=True)
        fence = queue.requeue(lease.id, by="ops").fence
    else:
        fence = getattr(queue, decide)(lease.id, by="ops").fence
    assert fence > lease.fencing_token
    assert queue.stats().fence == fence
    queue.enqueue("work", side_effect="read_only", priority=9)
    assert queue.claim()[0].fencing_token > fence


def test_an_empty_claim_and_an_empty_sweep_change_nothing(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    queue.claim()
    before = redis_client.hgetall(keys.meta)
    queue.claim(10)
    queue.reap()
    queue.purge()
    assert redis_client.hgetall(keys.meta) == before
