"""A worker whose server is away, slow, restarted or not what it should be."""

from __future__ import annotations

import asyncio
import time

import pytest
from program import one_server
from servers import Engine, wait_until
from working import Running, assert_whole, elapsed_s, statuses, wait_status, working

from redislease import AsyncLease, LayoutMismatch, Lease, LeaseLost, Queue, Worker
from redislease.connection.limits import Limits


def busy(running: Running) -> int:
    """How many attempts a worker has."""
    return sum(len(pump.attempts) for pump in running.worker._pumps)


def test_an_outage_shorter_than_the_lease_loses_nothing() -> None:
    with one_server() as engine:
        server = engine.start_extra()
        with Queue("outage", redis_url=server.url) as queue:

            @queue.task(side_effect="idempotent", lease_duration=3)
            async def slow(number: int) -> int:
                await asyncio.sleep(2.5)
                return number

            ids = [slow.enqueue(number).id for number in range(5)]
            with working(queue):
                wait_until(lambda: statuses(queue, *ids) == ["leased"] * 5)
                time.sleep(0.5)
                server.pause()
                time.sleep(1.2)
                server.resume()
                wait_until(lambda: statuses(queue, *ids) == ["completed"] * 5)
            assert {queue.get(task_id).attempts for task_id in ids} == {1}


def test_an_outage_longer_than_the_lease_is_told_before_the_server_gives_the_task_away() -> None:
    told: dict[str, float] = {}
    with one_server() as engine:
        server = engine.start_extra()
        with Queue("outage", redis_url=server.url) as queue:

            @queue.task(side_effect="idempotent", lease_duration=1)
            async def in_loop() -> None:
                try:
                    await asyncio.sleep(60)
                finally:
                    told.setdefault("async", time.monotonic())

            @queue.task(side_effect="idempotent", lease_duration=1)
            def in_thread(lease: Lease) -> None:
                while True:
                    time.sleep(0.005)
                    try:
                        lease.check()
                    except LeaseLost:
                        told.setdefault("thread", time.monotonic())
                        raise

            for task in (in_loop, in_thread):
                task.enqueue()
            with working(queue) as running:
                wait_until(lambda: busy(running) == 2)
                time.sleep(0.5)
                before = time.monotonic()
                server.pause()
                wait_until(lambda: len(told) == 2, 5)
                server.resume()
                # A lease that was renewed just before the pause ends one lease length later at the server.
                assert max(told.values()) <= before + 1.05
                wait_until(lambda: queue.stats().counters["expired"] == 2 or queue.stats().states["leased"] == 2, 5)


@pytest.mark.parametrize("seed", range(3))
def test_a_restarted_server_is_served_again_at_once(seed: int) -> None:
    """The worker consumes within five seconds, and a due task runs, without anybody's help."""
    with one_server() as engine:
        server = engine.start_extra("--appendonly", "yes", "--appendfsync", "always")
        with Queue("restart", redis_url=server.url) as queue:
            seen: list[int] = []

            @queue.task(side_effect="idempotent")
            async def note(number: int) -> None:
                seen.append(number)

            with working(queue):
                note.enqueue(0)
                wait_until(lambda: seen == [0])
                due = note.options(delay=1.0).enqueue(1)
                server.kill()
                time.sleep(0.2 * seed)
                server.start()
                begun = time.monotonic()
                note.enqueue(2)
                wait_until(lambda: {1, 2} <= set(seen), 6)
                assert elapsed_s(begun) < 5
                wait_status(queue, due.id, "completed")


def test_handlers_that_use_every_connection_do_not_stop_the_worker(
    server: Engine, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redislease.connection.clients.DEFAULT_LIMITS", Limits(max_connections=2))
    with Queue(queue_name, redis_url=server.url) as queue:

        @queue.task(side_effect="idempotent", lease_duration=2)
        async def talkative(lease: AsyncLease) -> None:
            for step in range(20):
                await lease.progress(step, 20)

        ids = [one.id for one in talkative.enqueue_many([()] * 50)]
        with working(queue, concurrency=50):
            wait_until(lambda: statuses(queue, *ids) == ["completed"] * 50, 30)
        assert queue.stats().counters["expired"] == 0
        assert_whole(server, queue)


def test_what_no_replica_confirms_is_not_begun(server: Engine, queue_name: str) -> None:
    """Without the replica that was asked for, claims are given back and no handler runs."""
    ran: list[int] = []
    options = {"redis_url": server.url, "wait_replicas": 1, "wait_timeout_ms": 20}
    with Queue(queue_name, **options) as queue, Queue(queue_name, redis_url=server.url) as plain:

        async def works() -> None:
            ran.append(1)

        queue.add_task(works, name="works", side_effect="idempotent")
        task_id = plain.enqueue("works", side_effect="idempotent").id
        with working(queue, grace=0):
            wait_until(lambda: plain.stats().counters["claimed"] >= 1)
            time.sleep(0.5)
            claimed = plain.stats().counters["claimed"]
        assert not ran
        assert claimed < 20, "a hot loop"
        task = plain.get(task_id)
        assert (task.status, task.attempts, task.failures) == ("ready", 0, 0)


def test_a_layout_of_another_version_ends_the_worker(server: Engine, queue_name: str) -> None:
    with Queue(queue_name, redis_url=server.url) as queue, server.sync_client() as client:
        queue.add_task(lambda: None, name="works", side_effect="read_only")
        client.hset(queue.keys.meta, "layout", "99")
        running = Running(Worker(queue, signals=False))
        with pytest.raises(LayoutMismatch):
            running.join(10)
        client.delete(queue.keys.meta)
