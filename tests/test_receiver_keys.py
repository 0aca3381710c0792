"""What a receiver is sent as `Idempotency-Key`: the same for every attempt, and different for everything else."""

from __future__ import annotations

from typing import Any

import pytest
from leasing import again
from virtual_clock import VirtualClock

from redislease import InvalidInput

pytestmark = pytest.mark.contract


def sent(lease: Any) -> str:
    key: str = lease.run_effect("charge", lambda effect: effect.headers["Idempotency-Key"])
    return key


def test_the_same_in_every_attempt(queue: Any, clock: VirtualClock) -> None:
    for options in ({}, {"task_id": "order-1"}, {"idempotency_key": "key-1"}):
        task = queue.enqueue("charge", side_effect="idempotent", **options)
        found = []
        lease = queue.claim()[0]
        for _ in range(2):
            effect = lease.effect("charge")
            effect.__enter__()
            found.append(effect.idempotency_key)
            lease = again(queue, clock)
        assert found[0] == found[1]
        assert queue.attach(lease.handle()).task.idempotency_key == queue.get(task.id).idempotency_key
        assert lease.task.idempotency_key == queue.get(task.id).idempotency_key
        lease.complete()


def test_an_id_is_no_key_of_another_task(queue: Any) -> None:
    queue.enqueue("charge", {"order": 1}, side_effect="idempotent", task_id="order-1")
    queue.enqueue("charge", {"order": 2}, side_effect="idempotent", idempotency_key="order-1")
    first, second = [sent(lease) for lease in queue.claim(limit=2)]
    assert first != second


def test_an_id_used_anew_is_another_task(queue: Any, clock: VirtualClock) -> None:
    found = set()
    for _ in range(3):
        queue.enqueue("charge", side_effect="idempotent", task_id="nightly")
        (lease,) = queue.claim()
        found.add(sent(lease))
        lease.complete()
        clock.advance_ms(61_000)
        queue.purge(completed=60)
    assert len(found) == 3


def test_a_key_that_was_given_stays_across_tasks(queue: Any, clock: VirtualClock) -> None:
    """Who means the same work says so."""
    found = set()
    for _ in range(2):
        queue.enqueue("charge", side_effect="idempotent", task_id="order-7", idempotency_key="order 7/a:b")
        (lease,) = queue.claim()
        found.add(sent(lease))
        lease.complete()
        clock.advance_ms(61_000)
        queue.purge(completed=60)
    assert found == {f"{queue.name}/order%207%2Fa:b/charge"}


@pytest.mark.parametrize("key", [":", ":order-1", ":order-1:abc"])
def test_no_key_looks_like_one_that_was_not_given(queue: Any, key: str) -> None:
    with pytest.raises(InvalidInput, match="colon"):
        queue.enqueue("charge", side_effect="idempotent", idempotency_key=key)
