"""A worker that acts on the outside world, and a process of it that stops at each point on the way.

The process is forked off a server that has imported everything already: it has its own process id, signals and
connections, and starts in a few milliseconds.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from virtual_clock import virtual_library

from cells.world import World
from redislease import Lease, LeaseLost, Queue

NOT_BEGUN = "before the intent"
BEFORE = "before the effect"
AFTER = "after the effect"
RECORDED = "after the record"

WAIT_S = 30.0

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "fakeredis", "hiredis", "redis", "redislease.queue"])


class Place(NamedTuple):
    """Where a worker works."""

    redis_url: str
    queue: str
    world: World


Reach = Callable[[str], None]


def read_a_page(lease: Lease, world: World, reach: Reach) -> str:
    """A task without effects: it has nothing to record."""
    reach(BEFORE)
    world.call("page", lease.id)
    reach(AFTER)
    reach(RECORDED)
    return "runs"


def act_recorded(lease: Lease, world: World, reach: Reach) -> str:
    """A task that records its effect."""
    door = "ledger" if lease.task.side_effect == "idempotent" else "mail"
    reach(NOT_BEGUN)
    with lease.effect("act", request={"order": 5}) as effect:
        if effect.done:
            return f"reads {effect.outcome}"
        reach(BEFORE)
        receipt = world.call(door, lease.id, effect.headers)
        reach(AFTER)
        effect.record(receipt)
    reach(RECORDED)
    return "runs"


def act_unrecorded(lease: Lease, world: World, reach: Reach) -> str:
    """A task that acts and records nothing."""
    reach(BEFORE)
    world.call("mail", lease.id)
    reach(AFTER)
    reach(RECORDED)
    return "runs"


HANDLERS: dict[str, Callable[[Lease, World, Reach], str]] = {
    "read_a_page": read_a_page,
    "act_recorded": act_recorded,
    "act_unrecorded": act_unrecorded,
}
"""By the name of the task."""


def open_queue(place: Place, worker_name: str) -> Queue:
    """The queue of a place, on the clock that its test sets."""
    return Queue(place.queue, redis_url=place.redis_url, scripts=virtual_library(), worker_name=worker_name)


def attempt(place: Place, worker_name: str, reach: Reach = lambda point: None) -> str:
    """Claims one task and works on it; answers what became of that."""
    with open_queue(place, worker_name) as queue, queue.claim_one() as lease:
        if lease is None:
            return "nothing"
        return HANDLERS[lease.task.name](lease, place.world, reach)


def _work(pipe: Connection, place: Place) -> None:
    """The process: says which point it has reached, and does there what it is told."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def reach(point: str) -> None:
        pipe.send(point)
        if pipe.recv() == "raise":
            raise RuntimeError("the handler broke")

    try:
        said = attempt(place, "first", reach)
    except LeaseLost as lost:
        said = lost.reason
    except (RuntimeError, SystemExit) as end:
        said = type(end).__name__
    pipe.send(("ended", said))


class Child:
    """A worker process as its test holds it.

    Args:
        place: Where it works.
    """

    def __init__(self, place: Place) -> None:
        self._pipe, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=_work, args=(theirs, place), daemon=True)
        self._process.start()
        theirs.close()

    def _hear(self) -> Any:
        assert self._pipe.poll(WAIT_S), "the worker says nothing"
        return self._pipe.recv()

    def go_to(self, point: str) -> None:
        """Lets it run to a point, where it waits."""
        while (reached := self._hear()) != point:
            assert isinstance(reached, str), f"it has {reached}"
            self._pipe.send("go on")

    def kill(self) -> None:
        """Ends it as `kill -9` does."""
        self._process.kill()
        self._process.join(WAIT_S)
        assert self._process.exitcode == -signal.SIGKILL

    def terminate(self) -> str:
        """Asks it to end; answers how it did."""
        self._process.terminate()
        return self._end()

    def break_down(self) -> str:
        """Has its handler raise an exception; answers how it ended."""
        self._pipe.send("raise")
        return self._end()

    def go_on(self) -> str:
        """Lets it run to its end; answers how that was."""
        self._pipe.send("go on")
        return self._end()

    def _end(self) -> str:
        while isinstance(heard := self._hear(), str):
            self._pipe.send("go on")
        self._process.join(WAIT_S)
        return str(heard[1])

    def close(self) -> None:
        """Ends what is left of it."""
        self._process.kill()
        self._process.join(WAIT_S)
        self._process.close()
        self._pipe.close()
