"""What a worker must bear for long: every kind of ending, failures without end, floods, restarts, and many tasks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keyspace import Keyspace
from program import one_server
from servers import Engine, wait_until
from virtual_clock import VirtualClock, virtual_library
from working import assert_whole, elapsed_s, wait_status, working

from redislease import AsyncLease, Lease, Queue
from redislease.keys import QueueKeys


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    """One server for what does not depend on the engine."""
    with one_server() as engine:
        yield engine


@pytest.fixture
def timed(server: Engine, queue_name: str) -> Iterator[tuple[Queue, VirtualClock]]:
    """A queue on a clock that the test sets."""
    with server.sync_client() as client:
        clock = VirtualClock(client, QueueKeys(queue_name))
        clock.set_ms()
        with Queue(queue_name, redis_url=server.url, scripts=virtual_library()) as queue:
            yield queue, clock
        assert_whole(server, queue)


TASKS = 10_000


def test_every_kind_of_ending_leaves_nothing_behind(server: Engine, timed: tuple[Queue, VirtualClock]) -> None:
    queue, clock = timed

    @queue.task(side_effect="idempotent", max_attempts=1)
    async def ends(lease: AsyncLease, how: str) -> Any:
        match how:
            case "returns":
                return {"how": how}
            case "raises":
                raise ValueError(how)
            case "unwritable":
                return float("nan")
            case "fatal":
                await lease.fail("no", retry=False)
            case "completes":
                await lease.complete(1)
            case "reports":
                await lease.progress(1, 2)
            case "effect":
                await lease.run_effect("mail", lambda _: "sent")
            case "in doubt":
                async with lease.effect("mail"):
                    raise ValueError(how)
            case "released":
                if lease.task.attempts == 1:
                    await lease.release()
        return None

    @queue.task(side_effect="non_idempotent")
    async def once(how: str) -> None:
        if how == "raises":
            raise ValueError(how)

    hows = (
        "returns",
        "raises",
        "unwritable",
        "fatal",
        "completes",
        "reports",
        "effect",
        "in doubt",
        "released",
        "misfit",
    )
    requests = [
        {"name": "ends", "payload": {"how": how if how != "misfit" else 5}, "side_effect": "idempotent"}
        | {"max_attempts": 1, "idempotency_key": f"{how}-{number}" if number % 3 else None}
        for number in range(TASKS // 12)
        for how in hows
    ]
    requests += [
        {"name": "once", "payload": {"how": how}, "side_effect": "non_idempotent"}
        for _ in range(TASKS // 12)
        for how in ("returns", "raises")
    ]
    strangers = [{"name": "stranger", "side_effect": "idempotent"} for _ in range(20)]
    queue.enqueue_many([*requests, *strangers])
    with working(queue, concurrency=100):
        wait_until(lambda: not {"ready", "leased"} & live(queue).keys(), 100, what="all ended")
    states = live(queue)
    assert states.pop("scheduled") == len(strangers)
    assert sum(states.values()) == len(requests)
    assert states == {"completed": TASKS // 12 * 6, "dead": TASKS // 12 * 5, "reconciling": TASKS // 12}
    for task in [*queue.tasks("scheduled"), *queue.tasks("reconciling", limit=1000)]:
        queue.cancel(task.id, by="me", reason="test")
    while unsettled := queue.tasks("unsettled", limit=1000):
        for task in unsettled:
            verdict = {"handler" if task.name == "once" else "mail": "not_done"}
            queue.resolve(task.id, "done" if task.status == "dead" else "dead", by="me", reason="test", effects=verdict)
    for step_ms in (61_000, 3_601_000, 61_000):
        clock.advance_ms(step_ms)
        while queue.purge(completed=0, cancelled=0, dead=0, evidence=0, by="me", reason="test").more:
            pass
    clock.advance_ms(61_000)
    queue.purge(completed=0, cancelled=0, dead=0, evidence=0, by="me", reason="test")
    with server.sync_client() as client:
        left = set(Keyspace(client, queue.keys).names)
    assert {name for name in left if not name.startswith("signal:")} <= {"meta", "wake"}


def live(queue: Queue) -> dict[str, int]:
    """The states that hold tasks."""
    return {state: size for state, size in queue.stats().states.items() if size}


def test_a_handler_that_always_raises_is_tried_less_and_less(timed: tuple[Queue, VirtualClock]) -> None:
    queue, clock = timed
    calls = Counter[str]()

    @queue.task(side_effect="idempotent", max_attempts=10_000)
    async def fails() -> None:
        calls["async"] += 1
        raise ValueError

    task = fails.enqueue()
    started = clock.now_ms
    with working(queue):
        while clock.now_ms < started + 3_600_000:
            due = wait_status(queue, task.id, "scheduled").available_at
            before = calls["async"]
            clock.set_ms(max(due, clock.now_ms + 1))
            queue.reap()
            wait_until(lambda n=before: calls["async"] > n)
    assert 12 <= calls["async"] <= 30
    assert queue.stats().counters["claimed"] == calls["async"]


def test_a_flood_of_progress_hinders_nobody(server: Engine, queue_name: str) -> None:
    reports = Counter[str]()
    ends_s = time.monotonic() + 2.0
    with Queue(queue_name, redis_url=server.url) as queue:

        @queue.task(side_effect="idempotent", lease_duration=0.6)
        async def talks(lease: AsyncLease) -> None:
            while time.monotonic() < ends_s:
                await lease.progress(reports["async"], note="still here")
                reports["async"] += 1

        @queue.task(side_effect="idempotent", lease_duration=0.6)
        def talks_in_thread(lease: Lease) -> None:
            while time.monotonic() < ends_s:
                lease.progress(reports["thread"])
                reports["thread"] += 1

        @queue.task(side_effect="read_only")
        async def quick() -> None:
            pass

        noisy = [talks.enqueue().id for _ in range(20)] + [talks_in_thread.enqueue().id for _ in range(4)]
        with working(queue, concurrency=30):
            time.sleep(0.5)
            begun = time.monotonic()
            quick.wait(quick.enqueue().id, 10)
            assert elapsed_s(begun) < 1.5
            for task_id in noisy:
                wait_status(queue, task_id, "completed", 20)
        assert reports.total() > 500
        assert queue.stats().counters["expired"] == 0
        assert_whole(server, queue)


def test_a_server_that_is_restarted_five_times_under_load() -> None:
    with one_server() as engine:
        server = engine.start_extra("--appendonly", "yes", "--appendfsync", "always")
        with Queue("restarts", redis_url=server.url) as queue:
            ran = Counter[int]()

            @queue.task(side_effect="idempotent", lease_duration=5)
            async def note(number: int) -> None:
                ran[number] += 1
                await asyncio.sleep(0.01)

            stop = threading.Event()
            sent: list[str] = []

            def produce() -> None:
                while not stop.is_set():
                    sent.append(note.enqueue(len(sent)).id)
                    time.sleep(0.005)

            producer = threading.Thread(target=produce)
            with working(queue, concurrency=20):
                producer.start()
                for _ in range(5):
                    wanted = len(ran) + 5
                    wait_until(lambda n=wanted: len(ran) > n, 6, what="consumption within 5 s")
                    due = note.options(delay=0.5).enqueue(-1)
                    server.kill()
                    time.sleep(0.1)
                    server.start()
                    wait_status(queue, due.id, "completed", 6)
                stop.set()
                producer.join(40)
                wait_until(lambda: live(queue).keys() == {"completed"}, 20)
            assert live(queue)["completed"] == len(sent) + 5
            again = sum(1 for number, times in ran.items() if number >= 0 and times > 1)
            assert again <= len(sent) / 5


MEMORY = Path(__file__).parent / "worker_memory.py"


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_tasks(server: Engine, queue_name: str) -> None:
    command = [sys.executable, str(MEMORY), server.url, queue_name, "20000", "180000"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    first, last = (int(number) for number in result.stdout.split())
    assert last <= first * 1.1


@pytest.mark.slow
def test_restarts_without_mercy() -> None:
    for _ in range(5):
        test_a_server_that_is_restarted_five_times_under_load()
