"""Two operators decide about the same task at the same moment: one of them does, the other is told who did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from servers import Engine
from virtual_clock import VirtualClock

from redislease import Decided, NotAllowedNow, Queue
from redislease.models import Status
from redislease.scripts import ScriptLibrary

pytestmark = pytest.mark.contract

ROUNDS = 40
OPERATORS = ("ann", "bob")
GOES_TO = {"done": Status.COMPLETED, "retry": Status.READY, "dead": Status.DEAD}

Said = dict[str, Decided | NotAllowedNow]


@pytest.fixture
def desks(engine: Engine, queue_name: str, library: ScriptLibrary, clock: VirtualClock) -> Iterator[dict[str, Queue]]:
    """Each operator at a connection of their own."""
    opened = {name: Queue(queue_name, redis_url=engine.url, scripts=library, worker_name=name) for name in OPERATORS}
    yield opened
    for queue in opened.values():
        queue.close()


def at_once(desks: dict[str, Queue], act: Callable[[Queue, str], Decided]) -> Said:
    """Both act at the same moment; answers what each was told."""
    said: Said = {}
    start = threading.Barrier(len(desks))

    def sit(name: str) -> None:
        start.wait()
        try:
            said[name] = act(desks[name], name)
        except NotAllowedNow as refused:
            said[name] = refused

    threads = [threading.Thread(target=sit, args=(name,)) for name in desks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(said) == set(desks)
    return said


def one_won(said: Said) -> tuple[str, Decided]:
    """Who decided, and what they were answered; the other knows it."""
    ((winner, decided),) = [(name, answer) for name, answer in said.items() if isinstance(answer, Decided)]
    (refused,) = [answer for answer in said.values() if isinstance(answer, NotAllowedNow)]
    assert (refused.decided_by, refused.decided) == (winner, "resolve")
    assert refused.decided_at_ms == VirtualClock.START_MS
    assert winner in str(refused)
    return winner, decided


def in_doubt(queue: Queue) -> str:
    queue.enqueue("work", side_effect="non_idempotent")
    (lease,) = queue.claim()
    lease.fail("who knows")
    return lease.id


@pytest.mark.parametrize("decisions", [("retry", "retry"), ("done", "retry"), ("retry", "dead"), ("dead", "done")])
@pytest.mark.parametrize("looked_before", [True, False])
def test_one_decides(desks: dict[str, Queue], decisions: tuple[str, str], looked_before: bool) -> None:
    """Whether they name the token that they saw or take the one that is there now."""
    queue = desks["ann"]
    plans = dict(zip(OPERATORS, decisions, strict=True))
    for _ in range(ROUNDS):
        task_id = in_doubt(queue)
        token = queue.get(task_id).fencing_token if looked_before else None

        def decide(desk: Queue, name: str, task_id: str = task_id, token: Any = token) -> Decided:
            decision = plans[name]
            found = {"handler": "not_done" if decision == "retry" else "done"}
            return desk.resolve(task_id, decision, token=token, by=name, reason="looked", effects=found)

        winner, decided = one_won(at_once(desks, decide))
        task = queue.get(task_id)
        assert task.status == decided.status == GOES_TO[plans[winner]]
        assert (task.decided_by, task.open_effects) == (winner, 0)
        decisions_kept = [line["by"] for line in queue.evidence(task_id) if line["event"] == "resolve"]
        assert decisions_kept == [winner]
        if task.status == Status.READY:
            queue.claim()[0].complete()
    assert [line["event"] for line in queue.audit(limit=ROUNDS)] == ["resolve"] * ROUNDS


def test_while_a_worker_takes_what_the_first_has_let_go(desks: dict[str, Queue]) -> None:
    """The second decision meets a new attempt: it was made for the one before, and does nothing to this one."""
    queue = desks["ann"]
    for _ in range(ROUNDS):
        task_id = in_doubt(queue)
        token = queue.get(task_id).fencing_token
        taken: list[Any] = []

        def decide(desk: Queue, name: str, task_id: str = task_id, token: Any = token, taken: Any = taken) -> Decided:
            decided = desk.resolve(task_id, "retry", token=token, by=name, effects={"handler": "not_done"})
            taken.extend(desk.claim())
            return decided

        one_won(at_once(desks, decide))
        (lease,) = taken
        assert lease.generation == 2
        assert lease.complete().status == "completed"


def test_about_the_same_effect_of_an_ended_task(desks: dict[str, Queue]) -> None:
    """Another effect is still open, so the task can be decided about; this one is not open any more."""
    queue = desks["ann"]
    for _ in range(ROUNDS):
        queue.enqueue("work", side_effect="non_idempotent", records_effects=True)
        (lease,) = queue.claim()
        for key in ("charge", "mail"):
            lease.effect(key).__enter__()
        queue.cancel(lease.id, by="eve")

        def decide(desk: Queue, name: str, task_id: str = lease.id) -> Decided:
            return desk.resolve(task_id, "done", by=name, effects={"charge": "done"})

        one_won(at_once(desks, decide))
        assert queue.get(lease.id).open_effects == 1
        queue.resolve(lease.id, "done", by="ann", effects={"mail": "done"})
