"""While a handler runs: its lease is kept, its loss is told, and nothing is recorded after a loss."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from program import one_server
from servers import Engine, wait_until
from working import Running, assert_whole, elapsed_s, statuses, wait_status, working

from redislease import AsyncLease, LayoutMismatch, Lease, LeaseLost, Queue, RedisLeaseError, Worker
from redislease.connection.limits import Limits
from redislease.errors import (
    PermissionDenied,
    ServerError,
    ServerLoading,
    ServerOutOfMemory,
    ServerReadOnly,
    ServerUnavailable,
)
from redislease.heartbeat import Heartbeat
from redislease.models import Renewed


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    """One server for what does not depend on the engine."""
    with one_server() as engine:
        yield engine


@pytest.fixture
def queue(server: Engine, queue_name: str) -> Iterator[Queue]:
    """A queue by the server's clock, whose keys are checked behind the test."""
    with Queue(queue_name, redis_url=server.url) as opened:
        yield opened
        assert_whole(server, opened)


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

    @queue.task(side_effect="idempotent", lease_duration=0.3)
    async def works(number: int) -> int:
        await asyncio.sleep(0.05 + number % 7 / 40)
        return number

    ids = [one.id for one in works.enqueue_many([(number,) for number in range(200)])]
    with working(queue, concurrency=40):
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 200, 30)
    noise = [event for task_id in ids for event in events(queue, task_id) if event in ("refused", "late_result")]
    assert len(noise) <= 2, noise
    assert queue.stats().counters["expired"] == 0


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


# The heartbeat alone

ERRORS: list[Exception] = [
    ServerUnavailable("away"),
    ServerLoading(),
    ServerReadOnly(),
    ServerOutOfMemory(),
    PermissionDenied(),
    ServerError("BUSY"),
    RedisLeaseError("?"),
    TimeoutError(),
    ConnectionResetError(),
    ValueError("not ours"),
    RecursionError(),
    MemoryError(),
]


class FailingOnce:
    """A transport that fails once with each kind of error, and then hands on."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.errors = list(ERRORS)
        self.answered = 0

    def run(self, call: Any, *, retry_for_s: float | None = None) -> list[Any]:
        """Fails, or renews."""
        if self.errors:
            raise self.errors.pop(0)
        answers: list[Any] = self._queue._transport.run(call, retry_for_s=retry_for_s)
        self.answered += 1
        return answers

    def close(self) -> None:
        """Nothing to close."""


@pytest.mark.filterwarnings("error")
def test_the_heartbeat_survives_every_kind_of_error(queue: Queue) -> None:
    queue.enqueue("work", side_effect="idempotent", lease_duration=3)
    (lease,) = queue.claim()
    transport = FailingOnce(queue)
    heartbeat = Heartbeat(transport)
    heartbeat.add(lease)
    try:
        for _ in ERRORS:
            heartbeat.renew_all_now()
            time.sleep(0.02)
        wait_until(lambda: transport.answered, 5)
        assert not transport.errors
        assert not lease.lost
    finally:
        heartbeat.stop()


def test_the_heartbeat_survives_what_it_calls(queue: Queue) -> None:
    """A callback that raises costs its own lease a message, and no other lease its renewal."""
    for _ in range(2):
        queue.enqueue("work", side_effect="idempotent", lease_duration=0.3)
    bad, good = queue.claim(2)

    def breaks(_: str) -> None:
        raise RuntimeError("callback")

    bad.on_lost = breaks
    heartbeat = Heartbeat(queue._transport)
    heartbeat.add(bad, good)
    queue.cancel(bad.id, by="me", reason="test")
    time.sleep(1.0)
    assert not good.lost
    heartbeat.remove(good, bad)
    good.complete()


def test_a_renewal_waits_no_longer_than_the_next_deadline(queue: Queue) -> None:
    """A server that does not answer for a long lease must not keep a short one from being told."""
    queue.enqueue("long", side_effect="idempotent", lease_duration=60)
    queue.enqueue("short", side_effect="idempotent", lease_duration=1)
    leases = queue.claim(2)
    patience: list[float] = []

    class Silent:
        def run(self, call: Any, *, retry_for_s: float | None = None) -> list[Renewed]:
            patience.append(retry_for_s or 0.0)
            raise ServerUnavailable("silent")

        def close(self) -> None:
            pass

    told: list[str] = []
    leases[1].on_lost = told.append
    heartbeat = Heartbeat(Silent())  # type: ignore[arg-type]
    heartbeat.add(*leases)
    heartbeat.renew_all_now()
    wait_until(lambda: told, 3)
    heartbeat.stop()
    assert max(patience) <= 1.0
    assert told[0] == "deadline"
