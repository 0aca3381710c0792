"""While a handler runs: its lease is kept, its loss is told, and nothing is recorded after a loss."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import warnings
from contextlib import suppress

import pytest
from servers import wait_until
from working import Running, elapsed_s, statuses, wait_status, working

from redislease import Lease, Queue


def busy(running: Running) -> int:
    """How many attempts a worker has."""
    return sum(len(pump.attempts) for pump in running.worker._pumps)


def events(queue: Queue, task_id: str) -> list[str]:
    """The evidence of a task, event by event."""
    return [line["event"] for line in queue.evidence(task_id)]


@pytest.mark.parametrize("verb", ["cancel", "revoke"])
def test_a_decision_reaches_an_async_handler_within_a_second(queue: Queue, verb: str) -> None:
    started, told = threading.Event(), threading.Event()

    @queue.task(side_effect="non_idempotent", lease_duration=60)
    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            told.set()

    task = slow.enqueue()
    with working(queue) as running:
        assert started.wait(10)
        begun = time.monotonic()
        getattr(queue, verb)(task.id, by="me", reason="enough")
        assert told.wait(1.0), f"not told within {elapsed_s(begun)} s"
        wait_until(lambda: not busy(running))
    assert statuses(queue, task.id) == ["cancelled" if verb == "cancel" else "reconciling"]


@pytest.mark.parametrize("flavour", ["async", "thread"])
def test_a_handler_that_swallows_everything_records_nothing(queue: Queue, flavour: str) -> None:
    started, finish = threading.Event(), threading.Event()

    async def stubborn() -> str:
        started.set()
        while not finish.is_set():
            with suppress(BaseException):
                await asyncio.sleep(0.01)
        return "too late"

    def stubborn_thread(lease: Lease) -> str:
        started.set()
        while not finish.is_set():
            with suppress(BaseException):
                time.sleep(0.01)
                lease.check()
        return "too late"

    function = stubborn if flavour == "async" else stubborn_thread
    slow = queue.add_task(function, name="slow", side_effect="idempotent", lease_duration=30)
    quick = queue.add_task(lambda: "ok", name="quick", side_effect="read_only")
    task = slow.enqueue()
    with working(queue, concurrency=2) as running:
        assert started.wait(10)
        queue.cancel(task.id, by="me", reason="enough")
        (attempt,) = running.worker._pumps[0].attempts
        wait_until(lambda: attempt.stopped)
        wait_status(queue, quick.enqueue().id, "completed")
        finish.set()
        wait_until(lambda: not busy(running))
        time.sleep(0.05)
    assert queue.result(task.id) is None
    assert statuses(queue, task.id) == ["cancelled"]
    assert "late_result" not in events(queue, task.id)


def test_a_handler_that_blocks_the_loop_keeps_its_lease(queue: Queue) -> None:
    @queue.task(side_effect="idempotent", lease_duration=0.4)
    async def blocks() -> str:
        time.sleep(2.0)  # noqa: ASYNC251 - that is what this handler is for
        return "done"

    task = blocks.enqueue()
    with working(queue):
        wait_until(lambda: queue.get(task.id).status == "leased")
        for _ in range(15):
            assert queue.reap().recovered == []
            time.sleep(0.1)
        wait_status(queue, task.id, "completed")
    found = queue.get(task.id)
    assert (found.attempts, found.expirations, found.claim_generation) == (1, 0, 1)
    assert queue.result(task.id) == "done"


@pytest.mark.parametrize("flavour", ["async", "thread"])
def test_max_runtime_ends_a_handler_that_hangs(queue: Queue, flavour: str) -> None:
    told: list[str] = []
    release = threading.Event()

    async def hangs() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    def hangs_in_thread(lease: Lease) -> None:
        while not lease.lost:
            time.sleep(0.01)
        told.append(lease.lost_reason or "")
        lease.check()

    function = hangs if flavour == "async" else hangs_in_thread
    bound = queue.add_task(
        function, name="hangs", side_effect="idempotent", lease_duration=0.3, max_runtime=0.8, max_expirations=1
    )
    task = bound.enqueue()
    begun = time.monotonic()
    with working(queue) as running:
        wait_until(lambda: told, 5)
        assert 0.6 <= elapsed_s(begun) < 1.5
        wait_until(lambda: not busy(running))
        wait_status(queue, task.id, "dead", 7)
        release.set()
    assert told == ["cancelled" if flavour == "async" else "max_runtime"]
    found = queue.get(task.id)
    assert (found.attempts, found.expirations, found.last_error) == (1, 1, "max_runtime reached")
    assert [event for event in events(queue, task.id) if event != "claim"] == ["max_runtime"]


def test_a_lost_lease_before_its_start_does_not_start(queue: Queue) -> None:
    """Tasks are claimed only into free places, so a batch behind a blocking handler is not claimed at all."""
    ran: list[int] = []

    @queue.task(side_effect="idempotent", lease_duration=0.3)
    def slow(number: int) -> None:
        ran.append(number)
        time.sleep(0.15)

    ids = [slow.enqueue(number).id for number in range(12)]
    with working(queue, concurrency=2):
        wait_until(lambda: len(ran) >= 1)
        assert queue.stats().states["leased"] <= 2
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 12)
    assert sorted(ran) == list(range(12))
    assert queue.stats().counters["expired"] == 0


def test_collecting_garbage_all_the_time_loses_no_handler(queue: Queue) -> None:
    @queue.task(side_effect="idempotent")
    async def waits(number: int) -> int:
        await asyncio.sleep(0.02)
        return number

    ended = threading.Event()

    def collect() -> None:
        while not ended.is_set():
            gc.collect()

    collector = threading.Thread(target=collect, daemon=True)
    ids = [one.id for one in waits.enqueue_many([(number,) for number in range(100)])]
    with working(queue):
        collector.start()
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 100, 30)
        ended.set()
    collector.join()


def test_no_lease_of_a_busy_worker_is_refused(queue: Queue) -> None:
    """Neither a renewal behind an ending, nor an ending behind another: no refusal is noted anywhere."""

    @queue.task(side_effect="idempotent", lease_duration=1.2)
    async def works(number: int) -> int:
        await asyncio.sleep(0.05 + number % 7 / 10)
        return number

    ids = [one.id for one in works.enqueue_many([(number,) for number in range(200)])]
    with working(queue, concurrency=40):
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 200, 30)
    noise = [event for task_id in ids for event in events(queue, task_id) if event in ("refused", "late_result")]
    assert len(noise) <= 2, noise
    assert queue.stats().counters["expired"] == 0


def test_a_child_that_a_handler_forks_has_no_part_in_the_worker(queue: Queue) -> None:
    """Its lease raises there, and when it comes back from the handler it ends instead of working on."""
    seen: list[int] = []
    reading, writing = os.pipe()

    @queue.task(side_effect="idempotent")
    def forks(lease: Lease) -> str:
        child = os.fork()
        if child == 0:
            os.write(writing, (lease.lost_reason or "held").encode())
            return "from the child"
        _, status = os.waitpid(child, 0)
        seen.append(os.waitstatus_to_exitcode(status))
        return "from the parent"

    with warnings.catch_warnings(), working(queue):
        warnings.simplefilter("ignore", DeprecationWarning)
        task = forks.enqueue()
        assert forks.wait(task.id, 10) == "from the parent"
    assert seen == [1]
    assert os.read(reading, 20) == b"forked"
    os.close(reading)
    os.close(writing)
