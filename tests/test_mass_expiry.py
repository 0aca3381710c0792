"""Thousands of leases end and thousands of tasks become due at one instant: bounded calls, and claims go on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis
from keyspace import Keyspace
from servers import Engine
from virtual_clock import VirtualClock

from redislease import Queue
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

LIMIT = 100


def all_at_once(queue: Queue, clock: VirtualClock, leases: int, due: int) -> None:
    """Leases that have ended, tasks that are due, and some that were ready all along, at a higher priority."""
    one = {"name": "work", "side_effect": "idempotent"}
    queue.enqueue_many([{**one, "lease_duration": 60}] * leases)
    held = 0
    while held < leases:
        held += len(queue.claim(1_000))
    queue.enqueue_many([{**one, "delay": 60}] * due)
    clock.advance_ms(60_001)
    queue.enqueue_many([{**one, "name": "urgent", "priority": 50}] * 300)


def sweep_while_others_claim(
    engine: Engine, queue_name: str, library: ScriptLibrary, clock: VirtualClock, leases: int, due: int
) -> None:
    recovered: list[str] = []
    promoted: list[int] = []
    claimed: list[Any] = []

    def open_queue() -> Queue:
        return Queue(queue_name, redis_url=engine.url, scripts=library, worker_name="w")

    def reap() -> None:
        with open_queue() as mine:
            while True:
                reaped = mine.reap(LIMIT)
                assert len(reaped.recovered) <= LIMIT
                assert reaped.promoted <= LIMIT
                recovered.extend(one.id for one in reaped.recovered)
                promoted.append(reaped.promoted)
                if not reaped.more:
                    return

    def claim() -> None:
        with open_queue() as mine:
            for _ in range(100):
                (lease,) = mine.claim(1)
                claimed.append(lease)
                lease.complete()

    with open_queue() as queue:
        all_at_once(queue, clock, leases, due)
        threads = [threading.Thread(target=work) for work in (reap, reap, claim, claim)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # What was ready all along, and more urgent, is not delayed by a single task of the flood.
        assert [lease.task.name for lease in claimed] == ["urgent"] * 200
        stats = queue.stats()
        assert (stats.expired, stats.overdue) == (0, 0)
        assert len(recovered) == len(set(recovered))
        assert stats.counters["expired"] == leases
        assert stats.counters["promoted"] == due
        assert len(recovered) <= leases
        assert sum(promoted) <= due
        assert stats.states["ready"] == leases + due + 100
        assert stats.states["completed"] == 200


def test_some_thousands(
    real_engine: Engine,
    queue_name: str,
    library: ScriptLibrary,
    clock: VirtualClock,
    redis_client: redis.Redis,
    keys: QueueKeys,
) -> None:
    sweep_while_others_claim(real_engine, queue_name, library, clock, 1_000, 2_000)
    assert Keyspace(redis_client, keys).problems() == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_thousand_leases_and_a_hundred_thousand_due_tasks(
    real_engine: Engine, queue_name: str, library: ScriptLibrary, clock: VirtualClock
) -> None:
    """`benchmarks/recovery.py` measures the same."""
    sweep_while_others_claim(real_engine, queue_name, library, clock, 50_000, 100_000)
