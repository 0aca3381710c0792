"""What a task costs, as counts and bytes: a change that adds a command or a round trip to a task is seen here.

`benchmarks/` measures time; time is no subject for a test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import Engine, ServerProcess

from benchmarks import effects
from benchmarks.counting import counting_client, measured
from benchmarks.memory import bytes_per_task
from benchmarks.round_trips import cost_of, warm_up
from redislease import Queue

TASKS = 1_000
MEMORY_TASKS = 20_000

BOUNDS = {
    # way of benchmarks/round_trips.py: round trips, commands inside scripts, for each task
    "enqueue one by one": (1.0, 11.0),
    "enqueue 500 per call": (0.002, 2.1),
    "claim, complete one by one": (2.0, 32.1),
    "complete + next claim one by one": (1.001, 28.1),
    "claim 100, complete 100": (0.02, 6.3),
    "complete 100 + next claim 100": (0.011, 6.3),
    "claim 1000, renew 100 per call": (0.011, 4.2),
}


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[ServerProcess]:
    """A server that nobody else sends commands to."""
    if not engine.is_real:
        pytest.skip("needs a server program")
    started = engine.start_extra()
    yield started
    started.close()


@pytest.mark.parametrize(("way", "bounds"), BOUNDS.items())
def test_a_task_costs_no_more_than_this(server: ServerProcess, way: str, bounds: tuple[float, float]) -> None:
    with server.sync_client() as client, counting_client(server.socket_path) as counted:
        client.flushall()
        queue = Queue("orders", client=counted)
        warm_up(queue)
        cost = cost_of(queue, client, way, TASKS)
    round_trips, commands = bounds
    assert cost.round_trips == cost.calls, "every round trip is one script call"
    assert cost.round_trips / TASKS <= round_trips
    # A run of several seconds notes every five seconds that its worker is alive: two commands more.
    assert round(cost.inner_commands / TASKS, 1) <= commands, cost.commands


@pytest.mark.parametrize(("batch", "commands"), [(1, 15.0), (100, 9.1)])
def test_an_effect_costs_no_more_than_this(server: ServerProcess, batch: int, commands: float) -> None:
    with server.sync_client() as client, counting_client(server.socket_path) as counted:
        client.flushall()
        cost = effects.cost_of(Queue("orders", client=counted), client, batch, 900)
    assert cost.round_trips == cost.calls == 2 * 900 / batch
    assert round(cost.inner_commands / 900, 1) <= commands, cost.commands


def test_completing_a_batch_and_claiming_the_next_is_one_round_trip(server: ServerProcess) -> None:
    with server.sync_client() as client, counting_client(server.socket_path) as counted:
        client.flushall()
        queue = Queue("orders", client=counted)
        warm_up(queue)
        queue.enqueue_many([{"name": "n", "side_effect": "idempotent"}] * 200)
        leases = queue.claim(100)
        with measured(client) as cost:
            answers, following = queue.complete_many([(lease, None) for lease in leases], claim=100)
    assert len(answers) == len(following) == 100
    assert cost.round_trips == cost.calls == 1


def test_a_claim_costs_the_same_at_any_depth(server: ServerProcess) -> None:
    """`benchmarks/depth.py` measures the time; what must not grow is the number of commands."""
    with server.sync_client() as client, counting_client(server.socket_path) as counted:
        client.flushall()
        queue = Queue("orders", client=counted)
        warm_up(queue)
        costs = []
        for depth in (1_000, 20_000):
            queue.enqueue_many([{"name": "n", "side_effect": "idempotent"}] * (depth - queue.stats().states["ready"]))
            queue.complete_many([(lease, None) for lease in queue.claim()])
            with measured(client) as cost:
                (lease,) = queue.claim()
            costs.append((cost.round_trips, cost.inner_commands))
            lease.complete()
    assert costs[0] == costs[1]


def test_a_queued_task_fits_into_560_bytes(engine: Engine, server: ServerProcess) -> None:
    if engine.name != "redis-7.0":
        pytest.skip("the aim is stated for Redis 7.0")
    with server.sync_client() as client, Queue("orders", redis_url=server.url) as queue:
        client.flushall()
        assert bytes_per_task(client, queue, MEMORY_TASKS) <= 560
        sample = queue.tasks("ready", limit=1)[0]
        assert client.object("encoding", queue.keys.task(sample.id)) == b"listpack"


@pytest.mark.parametrize("side_effect", ["read_only", "idempotent", "non_idempotent"])
def test_a_task_stays_compact_through_its_life(server: ServerProcess, side_effect: str) -> None:
    with server.sync_client() as client, Queue("orders", redis_url=server.url) as queue:
        client.flushall()
        task = queue.enqueue(
            "work", side_effect=side_effect, lease_duration=30, max_attempts=9, max_runtime=900, credential="c" * 64
        )
        for round_number in range(3):
            [lease] = queue.claim(1)
            lease.renew()
            lease.progress(round_number, 9, "half " * 200)
            lease.fail(RuntimeError("no " * 2_000), delay=0, not_done=True)
            queue.reap()
        [lease] = queue.claim(1)
        lease.complete({"text": "x" * 10_000})
        assert client.object("encoding", queue.keys.task(task.id)) in (b"listpack", b"ziplist")
