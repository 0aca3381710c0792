"""Every point at which a worker can end around an effect, for every class and in every way.

What must be true stands in `cells/expected.txt`: the state, the evidence, what really happened outside, and what the
next worker does. What a person then decides is decided here by asking the outside world.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
import redis
from cells import worker
from cells.table import CELLS, Cell
from cells.world import World, WorldProcess
from keyspace import Keyspace
from losing import dump
from program import one_server
from servers import Engine
from virtual_clock import VirtualClock

from redislease import Done, Queue
from redislease.keys import QueueKeys

LEASE_OVER_MS = 60_001
BACKOFF_OVER_MS = 1_001
STANDS_STILL = "stands still"


class Kind(NamedTuple):
    """How a task is enqueued."""

    name: str
    side_effect: str
    records_effects: bool = False


KINDS = {
    "read_only": Kind("read_a_page", "read_only"),
    "idempotent": Kind("act_recorded", "idempotent"),
    "recorded": Kind("act_recorded", "non_idempotent", records_effects=True),
    "unrecorded": Kind("act_unrecorded", "non_idempotent"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    with one_server() as engine:
        yield engine


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    process = WorldProcess(tmp_path_factory.mktemp("world"))
    yield process.world
    process.close()


class Scene:
    """One task, its first worker in a process of its own, and what can happen to them."""

    def __init__(self, server: Engine, world: World, kind: Kind) -> None:
        self.world = world
        self.place = worker.Place(server.url, f"t-{uuid.uuid4().hex[:12]}", world)
        self.keys = QueueKeys(self.place.queue)
        self.client: redis.Redis = server.sync_client()
        self.clock = VirtualClock(self.client, self.keys)
        self.clock.set_ms()
        self.queue: Queue = worker.open_queue(self.place, "operator")
        options: Any = {"side_effect": kind.side_effect, "records_effects": kind.records_effects}
        self.task_id = self.queue.enqueue(kind.name, **options).id
        self.first = worker.Child(self.place)

    def close(self) -> None:
        self.first.close()
        self.queue.close()
        self.client.close()

    # How the first worker ends

    def kill(self) -> str:
        self.first.kill()
        self.expire()
        return "killed"

    def expire(self) -> str:
        self.clock.advance_ms(LEASE_OVER_MS)
        assert [one.id for one in self.queue.reap().recovered] == [self.task_id]
        return STANDS_STILL

    def cancel(self) -> str:
        self.queue.cancel(self.task_id, by="ann")
        return STANDS_STILL

    def come_back(self) -> str:
        """The first worker goes on, and changes nothing but the evidence and the testimony."""
        before = self._all_but_notes()
        ended = self.first.go_on()
        assert self._all_but_notes() == before
        return ended

    def _all_but_notes(self) -> dict[str, Any]:
        stored = {name.decode(): value for name, value in dump(self.client, self.keys.base).items()}
        return {name: value for name, value in stored.items() if ":effects:" not in name and ":evidence:" not in name}

    # What is seen

    def state(self) -> str:
        unsettled = ", unsettled" if self.queue.tasks("unsettled") else ""
        return self.queue.get(self.task_id).status + unsettled

    def receipts(self) -> list[int]:
        return self.world.happened(self.task_id)

    def happened(self) -> str:
        return f"{len(self.receipts())}/{len(self.world.calls(self.task_id))}"

    def evidence(self) -> str:
        return " ".join(_word(line) for line in self.queue.evidence(self.task_id))

    # What a person does

    def decide(self) -> str:
        """Decides what is in doubt by the truth: what was said too late if something was, else what the world says."""
        (effect,) = self.queue.effects(self.task_id)
        receipts = self.receipts()
        if effect.testimony:
            assert (effect.testimony.verdict, effect.testimony.outcome) == ("done", receipts[0])
            return self._resolve("retry", accept_late=True)
        if effect.key == "handler":
            return self._resolve("done" if receipts else "retry", {"handler": "done" if receipts else "not_done"})
        return self._resolve("retry", {effect.key: Done(receipts[0]) if receipts else "not_done"})

    def _resolve(self, decision: str, effects: Any = None, *, accept_late: bool = False) -> str:
        ended = self.queue.get(self.task_id).status.ended
        decided = self.queue.resolve(
            self.task_id, "done" if ended else decision, by="ann", effects=effects, accept_late=accept_late
        )
        return decided.status


def _word(line: dict[str, Any]) -> str:
    event = str(line["event"])
    again = "again" if line.get("again") else ""
    detail = str(line.get("verdict") or line.get("rule") or line.get("by") or line.get("reason") or again)
    return event if detail in ("", event, "otherwise") else f"{event}:{detail}"


class Ending(NamedTuple):
    """A way to end, and the counter that it moves."""

    bring_about: Callable[[Scene], str]
    counted: str


ENDINGS = {
    "kill -9": Ending(Scene.kill, "expirations"),
    "expiry, late return": Ending(Scene.expire, "expirations"),
    "exception": Ending(lambda scene: scene.first.break_down(), "failures"),
    "SIGTERM": Ending(lambda scene: scene.first.terminate(), "releases"),
    "cancel": Ending(Scene.cancel, ""),
}


@pytest.fixture
def scene(cell: Cell, server: Engine, world: World) -> Iterator[Scene]:
    opened = Scene(server, world, KINDS[cell.kind])
    yield opened
    opened.close()


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_cell(cell: Cell, scene: Scene) -> None:
    bring_about, counted = ENDINGS[cell.ending]
    scene.first.go_to(cell.point)
    first = bring_about(scene)
    state = scene.state()
    _counts_only(scene, counted)

    scene.clock.advance_ms(BACKOFF_OVER_MS)
    second, _, receipt = worker.attempt(scene.place, "second").partition(" ")
    if first == STANDS_STILL:
        first = scene.come_back()
    assert cell == Cell(cell.kind, cell.ending, cell.point, state, second, first, scene.happened(), scene.evidence())
    assert receipt in ("", *map(str, scene.receipts()))

    if scene.queue.get(scene.task_id).open_effects:
        _a_person_decides(scene)
    assert not scene.queue.get(scene.task_id).open_effects
    assert not Keyspace(scene.client, scene.keys).problems()


def _counts_only(scene: Scene, counted: str) -> None:
    task = scene.queue.get(scene.task_id)
    counts = {name: getattr(task, name) for name in ("expirations", "failures", "releases")}
    assert {name: count for name, count in counts.items() if count} == ({counted: 1} if counted else {})


def _a_person_decides(scene: Scene) -> None:
    """Whatever was in doubt, in the end it happened exactly once, unless it was cancelled before it did."""
    before = scene.receipts()
    status = scene.decide()
    if status == "ready":
        assert worker.attempt(scene.place, "third") == (f"reads {before[0]}" if before else "runs")
        status = scene.queue.get(scene.task_id).status
    assert status in ("completed", "cancelled")
    assert len(scene.receipts()) == 1
    assert scene.queue.tasks("unsettled") == []


def test_the_table_has_every_cell() -> None:
    """Three points, four classes, five endings; and before the intent, where there is one."""
    points = (worker.BEFORE, worker.AFTER, worker.RECORDED)
    wanted = set(product(KINDS, ENDINGS, points))
    wanted |= set(product(("idempotent", "recorded"), ENDINGS, [worker.NOT_BEGUN]))
    assert len(wanted) == 70
    assert sorted((cell.kind, cell.ending, cell.point) for cell in CELLS) == sorted(wanted)
