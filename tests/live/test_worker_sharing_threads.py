"""Handlers in threads share round trips, and none of them notices what becomes of another."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest
from proxy import LOSE, SWALLOW, TEAR, TWICE
from servers import Engine, wait_until
from sharing import Link, one_intent_each
from working import elapsed_s, statuses, working

from redislease import EffectReused, Lease, Queue, ServerError


@pytest.mark.parametrize("fault", ["", LOSE, TEAR, TWICE])
@pytest.mark.parametrize("script", ["intent", "outcome"])
def test_handlers_in_threads_share_their_calls(
    link: Link, linked: Queue, queue: Queue, fault: str, script: str
) -> None:
    acts: Counter[int] = Counter()
    crowd, acted = threading.Barrier(16), threading.Barrier(16)

    @linked.task(side_effect="idempotent")
    def pay(lease: Lease, number: int) -> int:
        def act(effect: Any) -> int:
            acts[number] += 1
            acted.wait(10)
            return number

        if fault and number == 0:
            link.disturb(script, fault)
        crowd.wait(10)
        return int(lease.run_effect("pay", act))

    ids = [done.id for done in pay.enqueue_many([(number,) for number in range(16)])]  # type: ignore[union-attr]
    with working(linked, concurrency=16):
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 16, 20)
    assert acts == Counter(range(16))
    assert [queue.result(task_id) for task_id in ids] == list(range(16))
    one_intent_each(queue, ids)
    if not fault:
        assert link.sent["intent"] <= 10
        assert link.sent["outcome"] <= 10


def test_threads_leave_a_line_that_stands_still(link: Link, linked: Queue, queue: Queue) -> None:
    """The first hangs in a call whose reply never comes; the others do not wait for it."""
    taken: list[float] = []
    crowd = threading.Barrier(8)

    @linked.task(side_effect="idempotent")
    def pay(lease: Lease, number: int) -> None:
        crowd.wait(10)
        time.sleep(0.2 * (number > 0))
        begun = time.monotonic()
        lease.run_effect("pay", lambda _: 1)
        taken.append(elapsed_s(begun))

    link.disturb("intent", SWALLOW)
    ids = [pay.enqueue(number).id for number in range(8)]
    with working(linked, concurrency=8):
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 8, 20)
    assert sorted(taken)[6] < 2.5
    one_intent_each(queue, ids)


def test_an_error_of_one_thread_does_not_touch_the_others(server: Engine, queue: Queue) -> None:
    told = dict[str, str]()
    crowd = threading.Barrier(10)

    @queue.task(side_effect="idempotent", max_attempts=1)
    def pay(lease: Lease, kind: str) -> None:
        if kind == "reused":
            lease.run_effect("pay", lambda _: 1)
        if kind == "broken":
            with server.sync_client() as client:
                client.set(f"{queue.keys.base}effects:{lease.id}", "broken")
        crowd.wait(10)
        try:
            lease.run_effect("pay", lambda _: 1)
        except Exception as problem:
            told[kind] = type(problem).__name__
            raise
        finally:
            if kind == "broken":
                with server.sync_client() as client:
                    client.delete(f"{queue.keys.base}effects:{lease.id}")

    odd = [pay.enqueue(kind).id for kind in ("reused", "broken")]
    plain = [pay.enqueue(f"plain {number}").id for number in range(8)]
    with working(queue, concurrency=10):
        wait_until(lambda: statuses(queue, *plain, *odd) == ["completed"] * 8 + ["dead"] * 2, 20)
    assert told == {"reused": EffectReused.__name__, "broken": ServerError.__name__}
    one_intent_each(queue, plain)
