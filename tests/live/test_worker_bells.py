"""How workers sleep and wake: few are woken, none sleeps through work, and an idle one asks for little."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any

import redis
from servers import Engine, wait_until
from working import elapsed_s, statuses, wait_status, working

from redislease import Queue
from redislease.worker import Worker


def calls(client: redis.Redis, *commands: str) -> int:
    """How often commands were sent, by clients and not by scripts."""
    stats: Any = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {}).get("calls", 0) for command in commands)


class Crowd:
    """Many idle workers on one event loop."""

    def __init__(self, queue: Queue, size: int) -> None:
        self.workers = [Worker(queue, signals=False, concurrency=1) for _ in range(size)]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()

    async def _serve(self) -> None:
        await asyncio.gather(*(worker.serve() for worker in self.workers))

    def close(self) -> None:
        """Stops all of them."""
        for worker in self.workers:
            worker.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_one_task_wakes_few_of_a_hundred_workers(server: Engine, queue: Queue) -> None:
    done: list[int] = []

    @queue.task(side_effect="read_only")
    async def note(number: int) -> None:
        done.append(number)

    crowd = Crowd(queue, 100)
    with server.sync_client() as client:
        try:
            wait_until(lambda: queue.stats().workers == 100, 30)
            time.sleep(1.0)
            before, begun = calls(client, "evalsha", "bzpopmin"), time.monotonic()
            time.sleep(5.0)
            idle_per_s = (calls(client, "evalsha", "bzpopmin") - before) / elapsed_s(begun)
            assert idle_per_s / 100 <= 2.0
            before, begun = calls(client, "evalsha"), time.monotonic()
            for number in range(20):
                note.enqueue(number)
                wait_until(lambda n=number: len(done) > n, 2)
            spent = calls(client, "evalsha") - before
            # An enqueue, a claim or two, the end; beside what a hundred idle workers ask anyway.
            assert spent <= 20 * 6 + idle_per_s * elapsed_s(begun) + 20
        finally:
            crowd.close()


def test_nothing_is_missed_between_empty_and_asleep(queue: Queue) -> None:
    ended: list[float] = []

    @queue.task(side_effect="read_only")
    async def note() -> None:
        ended.append(time.monotonic())

    slowest = 0.0
    with working(queue, concurrency=1):
        for number in range(300):
            begun = time.monotonic()
            note.enqueue()
            wait_until(lambda n=number: len(ended) > n, 10)
            slowest = max(slowest, ended[-1] - begun)
            time.sleep(random.choice((0, 0.0005, 0.001, 0.002)))
    assert slowest < 1.0, "it slept through a ring"


def test_a_ring_is_passed_on_by_who_has_no_place(queue: Queue) -> None:
    """Three workers with one place each: whenever one is free, a task waits for no time-out."""
    running: list[tuple[float, float]] = []

    @queue.task(side_effect="read_only")
    async def works(seconds: float, enqueued_s: float) -> None:
        begun = time.monotonic()
        await asyncio.sleep(seconds)
        running.append((enqueued_s, begun))

    crowd = Crowd(queue, 3)
    try:
        for number in range(300):
            works.enqueue(random.choice((0.0, 0.001, 0.01)), time.monotonic())
            time.sleep(random.choice((0, 0.001, 0.004)))
            if number % 100 == 99:
                time.sleep(0.2)
        wait_until(lambda: len(running) == 300, 20)
        assert elapsed_s(max(begun for _, begun in running)) < 3
        assert max(begun - enqueued for enqueued, begun in running) < 3.0
    finally:
        crowd.close()


def test_a_worker_that_ends_passes_its_ring_on(queue: Queue) -> None:
    """Workers come and go while tasks arrive one by one; none waits until a bell's time is over."""
    ended: list[float] = []

    @queue.task(side_effect="read_only")
    async def note(enqueued_s: float) -> None:
        ended.append(time.monotonic() - enqueued_s)

    with working(queue, concurrency=1):
        for round_number in range(10):
            with working(queue, concurrency=1):
                time.sleep(0.02)
                for _ in range(3):
                    note.enqueue(time.monotonic())
            wait_until(lambda n=round_number: len(ended) == 3 * (n + 1), 10)
    assert max(ended) < 2.0


def test_due_tasks_run_without_a_reaper(queue: Queue) -> None:
    ran: list[float] = []

    @queue.task(side_effect="read_only")
    async def note() -> None:
        ran.append(time.monotonic())

    with working(queue):
        time.sleep(0.3)
        begun = time.monotonic()
        note.options(delay=1.5).enqueue()
        note.options(delay=0.6).enqueue()
        wait_until(lambda: len(ran) == 2, 10)
    assert 0.59 <= ran[0] - begun < 1.2
    assert 1.49 <= ran[1] - begun < 2.1


def test_expired_leases_are_recovered_without_a_reaper(queue: Queue) -> None:
    @queue.task(side_effect="idempotent", lease_duration=0.5)
    async def note() -> None:
        pass

    task = note.enqueue()
    queue.claim()
    with working(queue):
        wait_status(queue, task.id, "completed", 3)
    assert queue.get(task.id).expirations == 1


def test_resuming_wakes_sleeping_workers(queue: Queue) -> None:
    @queue.task(side_effect="read_only")
    async def note() -> None:
        pass

    queue.pause(by="me", reason="incident")
    with working(queue):
        ids = [note.enqueue().id for _ in range(3)]
        time.sleep(0.5)
        assert statuses(queue, *ids) == ["ready"] * 3
        begun = time.monotonic()
        queue.resume(by="me", reason="over")
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 3, 4)
        assert elapsed_s(begun) < 2
