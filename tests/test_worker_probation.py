"""Tasks whose next expiration would be their last begin one after the other, and say so before they do."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis
from servers import Engine, wait_until
from working import assert_whole, wait_status, working

from redislease import Queue
from redislease.commands.claim import claim
from redislease.worker import probation


@pytest.fixture
def queue(engine: Engine, queue_name: str) -> Any:
    """A queue by the server's clock, whose keys are checked behind the test."""
    with Queue(queue_name, redis_url=engine.url) as opened:
        yield opened
        assert_whole(engine, opened)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that runs for long holds the next one up for long."""
    monkeypatch.setattr(probation, "PACE_S", 20.0)


def put(queue: Queue, *numbers: int, side_effect: str, **options: Any) -> list[str]:
    """Tasks of which a lease has expired, and that have one expiration left."""
    options = {"max_expirations": 2, "lease_duration": 0.1, "side_effect": side_effect} | options
    ids = [queue.enqueue("work", {"number": number}, **options).id for number in numbers]
    owner = queue.register("gone").name
    queue.run(claim(owner, 1, limit=len(ids), started=False))
    wait_until(lambda: queue.reap().recovered == [] and queue.stats().states["leased"] == 0, 5)
    return ids


@pytest.mark.parametrize("side_effect", ["read_only", "idempotent", "non_idempotent"])
def test_one_begins_when_the_one_before_it_has_ended(
    queue: Queue, redis_client: redis.Redis, unhurried: None, side_effect: str
) -> None:
    begun: list[int] = []
    go_on = threading.Semaphore(0)

    @queue.task(name="work", side_effect=side_effect)
    def work(number: int) -> None:
        begun.append(number)
        go_on.acquire()

    tasks = put(queue, 1, 2, 3, side_effect=side_effect)
    with working(queue, concurrency=8):
        for number in (1, 2, 3):
            wait_until(lambda: len(begun) == number, what="the next one begins")  # noqa: B023 - used at once
            time.sleep(0.05)
            assert begun == [1, 2, 3][:number]
            marks = [redis_client.hget(queue.keys.task(one), "unstarted") for one in tasks]
            assert marks == [None] * number + [b"1"] * (3 - number)
            go_on.release()
        for task_id in tasks:
            wait_status(queue, task_id, "completed")


def test_one_that_runs_for_long_holds_up_nobody(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probation, "PACE_S", 0.05)
    begun: list[int] = []
    go_on = threading.Event()

    @queue.task(name="work", side_effect="idempotent")
    def work(number: int) -> None:
        begun.append(number)
        go_on.wait(20)

    tasks = put(queue, 1, 2, 3, side_effect="idempotent")
    with working(queue, concurrency=8):
        wait_until(lambda: len(begun) == 3)
        go_on.set()
        for task_id in tasks:
            wait_status(queue, task_id, "completed")


def test_others_are_not_held_up(queue: Queue, unhurried: None) -> None:
    go_on = threading.Event()

    @queue.task(name="work", side_effect="idempotent")
    def work(number: int) -> None:
        if number < 3:
            go_on.wait(20)

    first, second = put(queue, 1, 2, side_effect="idempotent")
    other = queue.enqueue("work", {"number": 3}, side_effect="idempotent").id
    with working(queue, concurrency=8):
        wait_status(queue, other, "completed")
        assert queue.get(second).status == "leased"
        go_on.set()
        for task_id in (first, second):
            wait_status(queue, task_id, "completed")


def test_what_waits_is_given_back_at_the_end(queue: Queue, unhurried: None) -> None:
    begun = threading.Event()
    go_on = threading.Event()

    @queue.task(name="work", side_effect="idempotent")
    def work(number: int) -> None:
        begun.set()
        go_on.wait(20)

    first, second = put(queue, 1, 2, side_effect="idempotent")
    with working(queue, concurrency=8) as running:
        wait_until(begun.is_set)
        running.stop()
        time.sleep(0.1)
        go_on.set()
        running.join()
    assert [str(queue.get(one).status) for one in (first, second)] == ["completed", "ready"]
    assert (queue.get(second).attempts, queue.get(second).expirations) == (1, 1)


def test_one_that_never_expired_waits_for_nobody(queue: Queue, unhurried: None) -> None:
    """With `max_expirations=1` that is every task: each says that it begins, and no more."""
    begun: list[int] = []
    go_on = threading.Event()

    @queue.task(name="work", side_effect="idempotent", max_expirations=1)
    def work(number: int) -> None:
        begun.append(number)
        go_on.wait(20)

    (suspect,) = put(queue, 9, side_effect="idempotent")
    for number in range(1, 6):
        work.enqueue(number)
    with working(queue, concurrency=8):
        wait_until(lambda: len(begun) == 6)
        assert begun == [1, 2, 3, 4, 5, 9]
        go_on.set()
        wait_status(queue, suspect, "completed")


def test_waiting_does_not_use_up_the_run_time(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a part of it the task is given back, and claimed anew with the whole of it."""
    monkeypatch.setattr(probation, "PACE_S", 0.6)

    @queue.task(name="work", side_effect="idempotent")
    def work(number: int) -> None:
        time.sleep(0.8)

    tasks = put(queue, 1, 2, 3, 4, side_effect="idempotent", lease_duration=0.5, max_runtime=1.5)
    with working(queue, concurrency=8):
        for task_id in tasks:
            wait_status(queue, task_id, "completed", 15)
    assert {queue.get(task_id).expirations for task_id in tasks} == {1}


def test_a_cancelled_one_leaves_the_line(queue: Queue, unhurried: None) -> None:
    begun = threading.Event()
    go_on = threading.Event()

    @queue.task(name="work", side_effect="idempotent")
    def work(number: int) -> None:
        begun.set()
        go_on.wait(20)

    first, second = put(queue, 1, 2, side_effect="idempotent")
    with working(queue, concurrency=2):
        wait_until(begun.is_set)
        queue.cancel(second, by="ops")
        other = queue.enqueue("work", {"number": 3}, side_effect="idempotent").id
        wait_until(lambda: queue.get(other).status == "leased", what="its place is free")
        go_on.set()
        for task_id in (first, other):
            wait_status(queue, task_id, "completed")
    assert queue.get(second).status == "cancelled"
