"""A whole fleet ends while it holds hundreds of tasks: what is in doubt waits for a person, and nothing else does."""

from __future__ import annotations

import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cells import worker
from cells.fleet import HOW_FAR, Held, Member
from cells.world import WorldProcess
from keyspace import Keyspace
from program import one_server
from servers import Engine
from virtual_clock import VirtualClock

from redislease import Done, EnqueueRequest, Queue
from redislease.keys import QueueKeys

MEMBERS = 5
EACH = 100
ALL = MEMBERS * EACH


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    with one_server() as engine:
        yield engine


@pytest.fixture
def place(server: Engine, tmp_path: Path) -> Iterator[worker.Place]:
    process = WorldProcess(tmp_path)
    yield worker.Place(server.url, f"t-{uuid.uuid4().hex[:12]}", process.world)
    process.close()


@pytest.fixture
def queue(place: worker.Place) -> Iterator[Queue]:
    with worker.open_queue(place, "operator") as opened:
        yield opened


@pytest.fixture
def clock(server: Engine, place: worker.Place) -> Iterator[VirtualClock]:
    with server.sync_client() as client:
        virtual = VirtualClock(client, QueueKeys(place.queue))
        virtual.set_ms()
        yield virtual
        assert not Keyspace(client, QueueKeys(place.queue)).problems()


@pytest.fixture
def fleet(place: worker.Place, queue: Queue, clock: VirtualClock) -> Iterator[list[Member]]:
    request = EnqueueRequest(name="act_recorded", side_effect="non_idempotent", records_effects=True)
    queue.enqueue_many([request] * ALL)
    members = [Member(place, EACH) for _ in range(MEMBERS)]
    yield members
    for member in members:
        member.close()


def ids_in(queue: Queue, status: str) -> set[str]:
    return {task.id for task in queue.tasks(status, limit=1_000)}


def together(parts: list[Held]) -> dict[str, set[str]]:
    return {how_far: {one for part in parts for one in part[how_far]} for how_far in HOW_FAR}


def work_on_what_is_ready(place: worker.Place, queue: Queue) -> Counter[str]:
    """The next fleet; answers how many tasks it ran and of how many it read the outcome."""
    done: Counter[str] = Counter()
    while leases := queue.claim(100):
        results = [worker.act_recorded(lease, place.world, lambda point: None) for lease in leases]
        queue.complete_many([(lease, None) for lease in leases])
        done.update(result.split(" ")[0] for result in results)
    return done


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_fleet_that_ends(
    place: worker.Place, queue: Queue, clock: VirtualClock, fleet: list[Member], number: signal.Signals
) -> None:
    held = together([member.held() for member in fleet])
    assert {how_far: len(ids) for how_far, ids in held.items()} == {
        "idle": ALL // 2,
        "begun": ALL // 5,
        "happened": ALL // 5,
        "recorded": ALL // 10,
    }
    in_doubt = held["begun"] | held["happened"]
    for member in fleet:
        member.send(number)
    assert {member.join() for member in fleet} == {143 if number == signal.SIGTERM else -signal.SIGKILL}
    if number == signal.SIGKILL:
        clock.advance_ms(60_001)
        while queue.reap().more:
            pass

    assert ids_in(queue, "reconciling") == in_doubt
    assert ids_in(queue, "ready") == held["idle"] | held["recorded"]
    after = [*queue.tasks("ready", limit=1_000), *queue.tasks("reconciling", limit=1_000)]
    ended_as = {(task.failures, task.expirations, task.releases) for task in after}
    assert ended_as == {(0, 0, 1) if number == signal.SIGTERM else (0, 1, 0)}

    assert work_on_what_is_ready(place, queue) == {"runs": ALL // 2, "reads": ALL // 10}
    _decide_by_the_truth(place, queue, held)
    assert work_on_what_is_ready(place, queue) == {"runs": ALL // 5, "reads": ALL // 5}
    assert len(ids_in(queue, "completed")) == ALL
    assert Counter(call["about"] for call in place.world.all_calls()) == dict.fromkeys(ids_in(queue, "completed"), 1)


def _decide_by_the_truth(place: worker.Place, queue: Queue, held: dict[str, set[str]]) -> None:
    receipts = {call["about"]: call["receipt"] for call in place.world.all_calls()}
    for task_id in held["begun"]:
        queue.resolve(task_id, "retry", by="ann", effects={"act": "not_done"})
    for task_id in held["happened"]:
        queue.resolve(task_id, "retry", by="ann", effects={"act": Done(receipts[task_id])})
