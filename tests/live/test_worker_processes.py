"""Workers as processes, and what happens to processes: they are stopped, killed, told to end, and end by themselves."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from servers import Engine, wait_until
from working import WorkerProcess, elapsed_s, processes, statuses, wait_status

from redislease import Queue

LEASE_S = 1.0
TIMES_OUT_LATER_S = 10.0


@pytest.fixture
def client(server: Engine) -> Iterator[redis.Redis]:
    """What handlers tell."""
    with server.sync_client() as opened:
        yield opened


@pytest.fixture
def started() -> Iterator[list[WorkerProcess]]:
    """Every process of the test."""
    with processes() as list_of_them:
        yield list_of_them


def start(started: list[WorkerProcess], queue: Queue, *arguments: str, **environment: str) -> WorkerProcess:
    """A worker on the application of the tests."""
    environment = {"LEASE_S": str(LEASE_S), **environment}
    url = queue._source["redis_url"]
    one = WorkerProcess("worker_app:queue", url, queue.name, *arguments, **environment)
    started.append(one)
    return one


def notes(client: redis.Redis, queue: Queue) -> list[str]:
    """What handlers told, in order."""
    told: Any = client.lrange(f"notes:{queue.name}", 0, -1)
    return [one.decode() for one in told]


def enqueue(queue: Queue, name: str, payload: dict[str, Any] | None = None, **options: Any) -> str:
    """A task of the application."""
    return queue.enqueue(name, payload, **{"side_effect": "idempotent", "lease_duration": LEASE_S, **options}).id


@pytest.mark.parametrize("name", ["waits", "waits_in_thread"])
def test_a_paused_worker_records_nothing_of_the_old_generation(
    queue: Queue, client: redis.Redis, started: list[WorkerProcess], name: str
) -> None:
    first = start(started, queue, "--name", "first", "--concurrency", "1")
    task_id = enqueue(queue, name, {"seconds": 60.0, "later": 0.3})
    wait_until(lambda: notes(client, queue) == ["begins 1"], 20)
    first.send(signal.SIGSTOP)
    second = start(started, queue, "--name", "second", "--concurrency", "1")
    wait_until(lambda: "begins 2" in notes(client, queue), 20)
    time.sleep(2 * LEASE_S)
    first.send(signal.SIGCONT)
    wait_until(lambda: "cancelled 1" in notes(client, queue), 3)
    task = wait_status(queue, task_id, "completed")
    assert task.claim_generation == 2
    assert queue.result(task_id) == "generation 2"
    assert "ends 1" not in notes(client, queue)
    # The first has a free place again: with the second gone, it works.
    assert second.end() == 0
    other = enqueue(queue, "quick", {"number": 1}, side_effect="read_only")
    wait_status(queue, other, "completed")
    assert first.end() == 0
    lines = queue.evidence(task_id)
    ended = [(line["event"], line.get("generation"), line.get("owner")) for line in lines if "to" in line]
    assert [(event, int(generation), owner.rpartition("-")[0]) for event, generation, owner in ended] == [
        ("expired", 1, "first"),
        ("completed", 2, "second"),
    ]


def test_killed_with_fifty_tasks_in_flight(queue: Queue, client: redis.Redis, started: list[WorkerProcess]) -> None:
    victim = start(started, queue, "--concurrency", "60")
    tasks = [enqueue(queue, "waits", {"seconds": 3.0}) for _ in range(40)]
    doubtful = [enqueue(queue, "once", {"seconds": 60.0}, side_effect="non_idempotent") for _ in range(10)]
    wait_until(lambda: len(notes(client, queue)) >= 50, 20)
    start(started, queue, "--concurrency", "60", "--name", "heir")
    heir_is_ready = enqueue(queue, "quick", {"number": 1}, side_effect="read_only")
    wait_status(queue, heir_is_ready, "completed", 20)
    wait_until(lambda: queue.workers()[0]["owner"] and len(queue.workers()) == 2, 20)
    victim.kill()
    killed = time.monotonic()
    wait_until(lambda: notes(client, queue).count("begins 2") + statuses(queue, *tasks).count("completed") >= 40, 10)
    assert elapsed_s(killed) < LEASE_S + 2
    wait_until(lambda: set(statuses(queue, *doubtful)) == {"reconciling"}, 5)
    wait_until(lambda: set(statuses(queue, *tasks)) == {"completed"}, 20)
    assert sum(queue.stats().states.values()) == 51


def test_a_task_that_kills_its_process_ends_in_dead(
    queue: Queue, client: redis.Redis, started: list[WorkerProcess]
) -> None:
    task_id = enqueue(queue, "kills", max_expirations=3, lease_duration=0.3)
    for _ in range(3):
        worker = start(started, queue)
        assert worker.process.wait(20) == 7
    wait_until(lambda: queue.reap() and queue.get(task_id).status == "dead", 5)
    task = queue.get(task_id)
    assert (task.attempts, task.expirations, notes(client, queue)) == (3, 3, ["kills"] * 3)


def test_a_task_that_kills_its_process_takes_no_neighbour_with_it(
    queue: Queue, client: redis.Redis, started: list[WorkerProcess]
) -> None:
    """Claimed together with it and never begun: they are recovered as often as it kills, and none of them is dead."""
    enqueue(queue, "kills_at_once", lease_duration=0.3, max_expirations=3, priority=50)
    tasks = [
        enqueue(queue, "quick", {"number": number}, side_effect=side_effect, lease_duration=0.3, max_expirations=3)
        for number, side_effect in enumerate(["read_only", "idempotent", "non_idempotent"] * 8)
    ]
    for _ in range(3):
        worker = start(started, queue, "--concurrency", "60")
        assert worker.process.wait(20) == 7
        time.sleep(0.4)
    start(started, queue, "--concurrency", "60")
    wait_until(lambda: set(statuses(queue, *tasks)) == {"completed"}, 20)
    assert (notes(client, queue), queue.stats().states["dead"]) == (["kills"] * 3, 1)
    assert {queue.get(task_id).attempts for task_id in tasks} == {3}, "two of a common end, and the one that did it"


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_lets_handlers_end(
    queue: Queue, client: redis.Redis, started: list[WorkerProcess], kind: int
) -> None:
    worker = start(started, queue, "--concurrency", "1")
    first = enqueue(queue, "waits", {"seconds": 1.5})
    wait_until(lambda: notes(client, queue) == ["begins 1"], 20)
    second = enqueue(queue, "waits", {"seconds": 0.0})
    assert worker.end(kind) == 0
    assert statuses(queue, first, second) == ["completed", "ready"]
    assert queue.get(second).attempts == 0


@pytest.mark.parametrize("name", ["waits", "waits_in_thread"])
def test_a_second_signal_gives_back_what_runs(
    queue: Queue, client: redis.Redis, started: list[WorkerProcess], name: str
) -> None:
    worker = start(started, queue, LEASE_S="30")
    task_id = enqueue(queue, name, {"seconds": 60.0}, lease_duration=30)
    doubtful = enqueue(queue, "once", {"seconds": 60.0}, side_effect="non_idempotent", lease_duration=30)
    wait_until(lambda: len(notes(client, queue)) == 2, 20)
    worker.send(signal.SIGTERM)
    time.sleep(0.3)
    assert statuses(queue, task_id) == ["leased"]
    begun = time.monotonic()
    assert worker.end(signal.SIGTERM) == 0
    assert elapsed_s(begun) < 4
    assert statuses(queue, task_id, doubtful) == ["ready", "reconciling"]
    task = queue.get(task_id)
    assert (task.releases, task.failures, task.expirations) == (1, 0, 0)
    assert "cancelled 1" in notes(client, queue)


def test_the_grace_ends_by_itself(queue: Queue, client: redis.Redis, started: list[WorkerProcess]) -> None:
    worker = start(started, queue, "--grace", "0.5")
    task_id = enqueue(queue, "waits", {"seconds": 60.0})
    wait_until(lambda: notes(client, queue) == ["begins 1"], 20)
    assert worker.end() == 0
    assert statuses(queue, task_id) == ["ready"]


def test_handlers_that_cannot_be_stopped_do_not_keep_the_process(
    queue: Queue, client: redis.Redis, started: list[WorkerProcess]
) -> None:
    """Their tasks are left to their leases, because a handler can act as long as the process lives."""
    worker = start(started, queue, "--grace", "0.1", LEASE_S="30")
    payloads = {"hangs": {"seconds": 60.0}, "stubborn": None}
    ids = [enqueue(queue, name, payload, lease_duration=30) for name, payload in payloads.items()]
    wait_until(lambda: {"hangs", "stubborn"} <= set(notes(client, queue)), 20)
    begun = time.monotonic()
    assert worker.end() == 0
    assert elapsed_s(begun) < TIMES_OUT_LATER_S
    found = [queue.get(task_id) for task_id in ids]
    assert [(task.status, task.claim_generation) for task in found] == [("leased", 1)] * 2


def test_two_signals_at_once_are_two(queue: Queue, client: redis.Redis, started: list[WorkerProcess]) -> None:
    worker = start(started, queue, LEASE_S="30")
    enqueue(queue, "waits", {"seconds": 60.0}, lease_duration=30)
    wait_until(lambda: notes(client, queue), 20)
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGINT)
    begun = time.monotonic()
    assert worker.process.wait(15) == 0
    assert elapsed_s(begun) < 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["worker_app"], "is not MODULE:OBJECT"),
        (["no_such_module:queue"], "there is no module 'no_such_module'"),
        (["worker_app:nothing"], "has no 'nothing'"),
        (["broken_app:queue"], "broken_app.py, line 5); REDISLEASE_TRACEBACK=1 shows the way there"),
        (["worker_app:LEASE_S"], "name a Queue"),
        (["worker_app:queue", "--concurrency", "0"], "concurrency"),
        (["worker_app:queue", "--weights", "1,2"], "each queue a weight"),
        (["worker_app:queue", "--log-level", "loud"], "no log level"),
    ],
)
def test_mistakes_on_the_command_line(
    queue: Queue, started: list[WorkerProcess], arguments: list[str], says: str
) -> None:
    worker = WorkerProcess(arguments[0], queue._source["redis_url"], queue.name, *arguments[1:])
    started.append(worker)
    assert worker.process.wait(20) == 2
    worker._reader.join(5)
    assert says in "".join(worker.lines)
    assert "Traceback" not in "".join(worker.lines)
