"""The claim that an idle worker leaves behind its bell: what it may take, and who knows of it whatever happens."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from proxy import CUT, HALF_CLOSE, LATE, LOSE, TEAR, TWICE, Proxy
from servers import Engine, wait_until
from standing import free_places, happens, is_claim, standing, wait_asleep
from working import assert_whole, elapsed_s, statuses, wait_status, working

from redislease import AsyncLease, Queue, Worker


@pytest.fixture
def queue(real_engine: Engine, queue_name: str) -> Iterator[Queue]:
    """A queue by the server's clock, whose keys are checked behind the test."""
    with Queue(queue_name, redis_url=real_engine.url) as opened:
        yield opened
        assert_whole(real_engine, opened)


@pytest.fixture
def proxy(real_engine: Engine) -> Iterator[Proxy]:
    """In front of the server."""
    assert real_engine.server
    opened = Proxy(real_engine.server.socket_path)
    yield opened
    opened.close()


# The ring and the claim


def test_the_claim_is_at_the_server_before_the_task_is(queue: Queue, proxy: Proxy, queue_name: str) -> None:
    seen: list[bytes] = []
    proxy.on(lambda words: bool(seen.append(words[0] if not is_claim(words) else b"claim")), "none")  # type: ignore[func-returns-value]
    with Queue(queue_name, redis_url=proxy.url) as through:

        @through.task(side_effect="read_only")
        async def note() -> None:
            pass

        with working(through) as running:
            wait_asleep(running)
            seen.clear()
            wait_status(queue, note.enqueue().id, "completed")
            wait_asleep(running)
            time.sleep(0.1)
            sent = [name for name in seen if name in (b"BZPOPMIN", b"claim")]
    # One claim was standing, and one stands again; the proxy sees it when the bell before it has been answered.
    assert sent == [b"claim", b"BZPOPMIN"]


def test_it_takes_one_place_while_it_stands_and_none_afterwards(queue: Queue) -> None:
    running_now: set[int] = set()
    go = threading.Event()

    @queue.task(side_effect="read_only")
    async def hold(number: int) -> None:
        running_now.add(number)
        await happens(go)

    with working(queue, concurrency=3) as running:
        for _ in range(3):
            go.clear()
            running_now.clear()
            wait_asleep(running)
            assert free_places(running) == 2
            ids = [hold.enqueue(number).id for number in range(4)]
            wait_until(lambda: len(running_now) == 3)
            assert free_places(running) == 0
            go.set()
            wait_until(lambda i=ids: statuses(queue, *i) == ["completed"] * 4)
        slots = running.worker._pumps[0]._slots
    assert slots.free == 3


def test_none_stands_while_a_handler_runs(queue: Queue) -> None:
    """What blocks the loop of a worker must not keep tasks that the server has given it meanwhile."""
    go = threading.Event()

    @queue.task(side_effect="read_only")
    async def hold() -> None:
        await happens(go)

    @queue.task(side_effect="read_only")
    async def note() -> None:
        pass

    with working(queue, concurrency=3) as running:
        wait_asleep(running)
        hold.enqueue()
        wait_until(lambda: running.worker._pumps[0].attempts)
        for _ in range(20):
            wait_until(lambda: running.worker._pumps[0]._wake._asleep)
            assert standing(running) is None
            begun = time.monotonic()
            wait_status(queue, note.enqueue().id, "completed")
            assert elapsed_s(begun) < 1
        go.set()
        wait_asleep(running)


def test_one_stands_as_soon_as_the_last_handler_has_ended(queue: Queue, real_engine: Engine) -> None:
    """It joins the bell that the worker sleeps on already."""
    go = threading.Event()

    @queue.task(side_effect="read_only")
    async def hold() -> None:
        await happens(go)

    with working(queue, concurrency=3) as running, real_engine.sync_client() as client:
        wait_asleep(running)
        bell = running.worker._pumps[0]._wake
        for _ in range(10):
            go.clear()
            held = [hold.enqueue().id for _ in range(2)]
            wait_until(lambda: len(running.worker._pumps[0].attempts) == 2)
            wait_until(lambda: bell._asleep)
            time.sleep(0.02)
            before: Any = client.info("commandstats")
            asleep_on = bell._bell
            go.set()
            wait_until(lambda h=held: statuses(queue, *h) == ["completed"] * 2)
            wait_asleep(running)
            assert bell._bell is asleep_on
            after: Any = client.info("commandstats")
            assert after["cmdstat_bzpopmin"]["calls"] == before["cmdstat_bzpopmin"]["calls"]


def test_none_stands_for_one_of_several_queues(queue: Queue, real_engine: Engine, queue_name: str) -> None:
    done: list[str] = []
    with Queue(queue_name + "-2", redis_url=real_engine.url) as second:
        for one in (queue, second):

            @one.task(name="note", side_effect="read_only")
            async def note(text: str) -> None:
                done.append(text)

        with working(queue, second, concurrency=1) as running:
            for number in range(20):
                wait_until(lambda: running.worker._pumps and all(pump._wake._asleep for pump in running.worker._pumps))
                assert not any(pump._wake._standing for pump in running.worker._pumps)
                begun = time.monotonic()
                for one in (queue, second):
                    one.enqueue("note", {"text": one.name}, side_effect="read_only")
                wait_until(lambda n=number: len(done) == 2 * (n + 1))
                assert elapsed_s(begun) < 1
        assert_whole(real_engine, second)


def test_an_idle_worker_asks_for_little(queue: Queue, real_engine: Engine) -> None:
    @queue.task(side_effect="read_only")
    async def note() -> None:
        pass

    with working(queue) as running, real_engine.sync_client() as client:
        wait_asleep(running)
        for paused in (False, True):
            if paused:
                queue.pause(by="me", reason="incident")
                note.enqueue()
                time.sleep(0.5)
            before: Any = client.info("commandstats")
            begun = time.monotonic()
            time.sleep(6.0)
            after: Any = client.info("commandstats")
            spent = sum(
                after[name]["calls"] - before.get(name, {"calls": 0})["calls"]
                for name in ("cmdstat_evalsha", "cmdstat_bzpopmin")
            )
            assert spent / elapsed_s(begun) <= 2.0, paused
        queue.resume(by="me", reason="over")


# Known whatever happens


@pytest.mark.parametrize("fault", [CUT, LOSE, TEAR, HALF_CLOSE, TWICE, pytest.param(LATE, marks=pytest.mark.slow)])
def test_the_reply_of_a_standing_claim_is_lost(queue: Queue, proxy: Proxy, queue_name: str, fault: str) -> None:
    """The worker goes on, and runs what the claim took: at once, and as the first attempt."""
    with Queue(queue_name, redis_url=proxy.url) as through:

        @through.task(side_effect="non_idempotent", lease_duration=60)
        async def note() -> None:
            pass

        with working(through) as running:
            wait_asleep(running)
            # Silence is noticed when the socket's patience, block included, is over.
            rounds, patience_s = (1, 15.0) if fault == LATE else (3, 3.0)
            for _ in range(rounds):
                proxy.on(is_claim, fault)
                begun = time.monotonic()
                task = queue.get(queue.enqueue("note", {}, side_effect="non_idempotent", lease_duration=60).id)
                wait_status(queue, task.id, "completed", 20)
                assert elapsed_s(begun) < patience_s
                assert queue.get(task.id).claim_generation == 1
                proxy.let_late_ones_through()
                wait_until(lambda: proxy.met == [fault])
                proxy.met.clear()
                wait_asleep(running)
    assert queue.stats().states["leased"] == 0


def test_a_claim_that_runs_behind_the_end_of_its_worker_takes_nothing(
    queue: Queue, proxy: Proxy, queue_name: str
) -> None:
    """The proxy does not see that the worker has closed the connection, as a server behind a slow network may not."""
    with Queue(queue_name, redis_url=proxy.url) as through:

        @through.task(side_effect="idempotent")
        async def note() -> None:
            pass

        with working(through) as running:
            wait_asleep(running)
            claims: list[list[bytes]] = []
            proxy.on(lambda words: is_claim(words) and bool(claims.append(words)), "none")  # type: ignore[func-returns-value]
    assert len(claims) == 1, "it was told that the claim is not to be"
    task = queue.enqueue("note", {}, side_effect="idempotent")
    wait_until(lambda: len(claims) == 2, what="the claim that was left behind")
    time.sleep(0.1)
    assert claims[0] == claims[1]
    found = queue.get(task.id)
    assert (found.status, found.claim_generation) == ("ready", 0)


def test_workers_end_at_any_moment(queue: Queue) -> None:
    """Nothing is left leased by a worker that has ended, whatever its claim was doing."""
    chance = random.Random(11)
    ran: dict[int, int] = {}
    over = threading.Event()
    enqueued: list[str] = []

    @queue.task(side_effect="idempotent", lease_duration=600)
    async def note(number: int) -> None:
        ran[number] = ran.get(number, 0) + 1

    def produce() -> None:
        while not over.is_set():
            enqueued.append(note.enqueue(len(enqueued)).id)
            time.sleep(chance.random() / 100)

    async def come_and_go() -> None:
        async def one() -> None:
            for _ in range(12):
                worker = Worker(queue, signals=False, concurrency=2, grace=1)
                serving = asyncio.create_task(worker.serve())
                await asyncio.sleep(0.03 + chance.random() / 10)
                # A third is cancelled, as a loop that ends does it.
                if chance.random() < 0.3:
                    serving.cancel()
                else:
                    worker.stop()
                await asyncio.gather(serving, return_exceptions=True)

        await asyncio.gather(*(one() for _ in range(5)))

    producing = threading.Thread(target=produce)
    producing.start()
    try:
        asyncio.run(come_and_go())
    finally:
        over.set()
        producing.join()
    assert queue.stats().states["leased"] == 0
    with working(queue):
        wait_until(lambda: queue.stats().states["completed"] == len(enqueued), 20)
    assert set(ran.values()) == {1}
    assert len(ran) == len(enqueued)


# The local deadline


@pytest.mark.parametrize("lease_s", [0.3, 3.0, 60.0])
def test_the_local_deadline_fits_however_long_the_claim_stood(queue: Queue, lease_s: float) -> None:
    seen: list[tuple[float, float, int]] = []

    @queue.task(side_effect="non_idempotent", records_effects=True, lease_duration=lease_s)
    async def note(lease: AsyncLease) -> None:
        seen.append((lease.remaining, time.time() + lease.remaining, lease.expires_at))
        await asyncio.sleep(0.5)
        lease.check()

    with working(queue) as running:
        for asleep_s in (1.5, 0.0, 0.2):
            wait_asleep(running)
            time.sleep(asleep_s)
            task = note.enqueue()
            wait_status(queue, task.id, "completed", 5)
            assert queue.get(task.id).claim_generation == 1
    for remaining_s, ends_s, expires_at_ms in seen:
        assert remaining_s > 0.6 * lease_s
        assert ends_s <= expires_at_ms / 1000 + 0.005, "believed for longer than the server does"


def test_a_worker_that_is_stopped_for_longer_than_the_lease_begins_nothing(
    queue: Queue, proxy: Proxy, queue_name: str
) -> None:
    """Its loop stands still while the claim runs; when it goes on, somebody else has the task."""
    ran: list[str] = []
    with Queue(queue_name, redis_url=proxy.url) as through:
        for one, name in ((through, "late"), (queue, "other")):

            @one.task(name="note", side_effect="idempotent", lease_duration=0.3)
            async def note(name: str = name) -> None:
                ran.append(name)

        with working(through) as running:
            wait_asleep(running)
            loop = running.worker._loop
            assert loop is not None
            loop.call_soon_threadsafe(time.sleep, 1.5)
            time.sleep(0.1)
            task = queue.enqueue("note", {}, side_effect="idempotent", lease_duration=0.3)
            wait_status(queue, task.id, "leased")
            time.sleep(0.4)
            (lease,) = queue.claim()
            assert lease.generation == 2
            lease.complete()
            time.sleep(1.5)
    assert ran == []


# Where none stands


def test_none_stands_in_the_process(queue_name: str) -> None:
    with Queue(queue_name, redis_url=f"memory://{queue_name}") as queue:

        @queue.task(side_effect="read_only")
        async def note() -> None:
            pass

        with working(queue) as running:
            for _ in range(3):
                wait_until(lambda: running.worker._pumps and running.worker._pumps[0]._wake._asleep)
                assert standing(running) is None
                wait_status(queue, note.enqueue().id, "completed", 5)
