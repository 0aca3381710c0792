"""`wait_replicas` with a real replica, running and stopped: nothing is called confirmed that no replica has."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from both import Both
from servers import Engine, ServerProcess, free_port, wait_until
from tallies import difference, tally, without_replay
from verbs import VERBS, WRITING, Stage
from virtual_clock import VirtualClock

from redislease import AsyncQueue, NotReplicated, Queue
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

WAIT_MS = 20
NOT_COVERED = {"renew", "progress"}


@dataclass
class Pair:
    """A primary with one replica."""

    primary: ServerProcess
    replica: ServerProcess

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The replica does not run for a while."""
        self.replica.pause()
        try:
            yield
        finally:
            self.replica.resume()
            self.caught_up()

    def caught_up(self) -> None:
        """Waits until the replica has everything."""
        with self.primary.sync_client() as client:
            client.set("x", "y")
            assert client.wait(1, 10_000) == 1


@pytest.fixture(scope="module")
def pair(engine: Engine) -> Iterator[Pair]:
    if not engine.is_real:
        pytest.skip("needs a server program")
    port = free_port()
    # By default a WAIT that times out is noticed ten times a second.
    primary = engine.start_extra("--port", str(port), "--repl-diskless-sync-delay", "0", "--hz", "500")
    replica = engine.start_extra("--replicaof", "127.0.0.1", str(port))
    with replica.sync_client() as client:
        wait_until(lambda: client.info("replication")["master_link_status"] == "up")
    made = Pair(primary, replica)
    made.caught_up()
    yield made
    replica.close()
    primary.close()


@pytest.fixture
def client(pair: Pair) -> Iterator[redis.Redis]:
    with pair.primary.sync_client() as opened:
        yield opened


class Scenes:
    """Opens queues of either flavour that wait for the replica."""

    def __init__(self, pair: Pair, both: Both, library: ScriptLibrary, client: redis.Redis) -> None:
        self._make = both.pick(Queue, AsyncQueue)
        self._pair = pair
        self._library = library
        self._client = client
        self._opened: list[Any] = []

    def open(self, name: str, *, wait_timeout_ms: int = WAIT_MS, **options: Any) -> Any:
        """A queue on connections of its own."""
        self._opened.append(
            self._make(
                name,
                redis_url=self._pair.primary.url,
                scripts=self._library,
                worker_name="w",
                wait_replicas=1,
                wait_timeout_ms=wait_timeout_ms,
                **options,
            )
        )
        return self._opened[-1]

    def stage(self, name: str) -> Stage:
        """A queue that does not wait, on a clock that stands still."""
        queue = Queue(name, redis_url=self._pair.primary.url, scripts=self._library, worker_name="w")
        self._opened.append(queue)
        clock = VirtualClock(self._client, QueueKeys(name))
        clock.set_ms()
        return Stage(queue, clock)

    def close(self) -> None:
        """Closes all."""
        for queue in self._opened:
            queue.close()


@pytest.fixture
def scenes(pair: Pair, both: Both, library: ScriptLibrary, client: redis.Redis) -> Iterator[Scenes]:
    opened = Scenes(pair, both, library, client)
    yield opened
    opened.close()


def test_every_verb_is_confirmed_and_so_is_its_replay(scenes: Scenes, client: redis.Redis) -> None:
    for name, verb in WRITING.items():
        queue_name = f"t-{uuid.uuid4().hex[:12]}"
        call = verb.prepare(scenes.stage(queue_name))
        before = tally(client, QueueKeys(queue_name))
        answer = scenes.open(queue_name, wait_timeout_ms=2_000).run(call)
        assert difference(before, tally(client, QueueKeys(queue_name))) == verb.effect, name
        replayed = scenes.open(queue_name, wait_timeout_ms=2_000).run(call)
        if verb.repeated == "same":
            assert without_replay(replayed) == without_replay(answer), name


def test_no_verb_and_no_replay_is_confirmed_falsely(pair: Pair, scenes: Scenes, client: redis.Redis) -> None:
    """The write is made and said to be unconfirmed: on the connection that made it, and on a fresh one."""
    names = {name: f"t-{uuid.uuid4().hex[:12]}" for name in VERBS}
    calls = {name: VERBS[name].prepare(scenes.stage(queue_name)) for name, queue_name in names.items()}
    before = {name: tally(client, QueueKeys(queue_name)) for name, queue_name in names.items()}
    answers: dict[str, Any] = {}
    with pair.stopped():
        for name, call in calls.items():
            queue = scenes.open(names[name])
            if name in NOT_COVERED or name not in WRITING:
                answers[name] = queue.run(call)
                continue
            for attempt in (queue, scenes.open(names[name])):
                with pytest.raises(NotReplicated, match="0 of 1") as unconfirmed:
                    attempt.run(call)
                answers.setdefault(name, unconfirmed.value.answer)
    for name in WRITING:
        verb = VERBS[name]
        if verb.repeated == "spare":
            continue
        assert difference(before[name], tally(client, QueueKeys(names[name]))) == verb.effect, name
        again = scenes.open(names[name], wait_timeout_ms=2_000).run(calls[name])
        if verb.repeated == "same":
            assert without_replay(again) == without_replay(answers[name]), name


def test_an_unconfirmed_enqueue_is_safe_to_repeat(pair: Pair, scenes: Scenes, queue_name: str) -> None:
    queue = scenes.open(queue_name)
    with pair.stopped():
        for _ in range(2):
            with pytest.raises(NotReplicated):
                queue.enqueue("work", {"n": 1}, side_effect="idempotent", idempotency_key="k")
    assert not queue.enqueue("work", {"n": 1}, side_effect="idempotent", idempotency_key="k").created
    assert queue.stats().states["ready"] == 1


def test_an_unconfirmed_claim_is_given_back(pair: Pair, scenes: Scenes, queue_name: str) -> None:
    queue = scenes.open(queue_name)
    queue.enqueue("work", side_effect="non_idempotent", task_id="t")
    queue.register()
    (first,) = queue.claim()
    first.release()
    with pair.stopped():
        assert queue.claim() == []
        task = queue.get("t")
        assert (task.status, task.attempts, task.open_effects) == ("ready", 1, 0)
    (lease,) = queue.claim()
    assert (lease.generation, lease.task.attempts) == (3, 2)


def test_a_first_claim_needs_no_confirmed_identity(pair: Pair, scenes: Scenes, queue_name: str) -> None:
    """An identity that a failover loses is made anew; what was claimed under it is given back."""
    queue = scenes.open(queue_name)
    queue.enqueue("work", side_effect="idempotent", task_id="t")
    with pair.stopped():
        assert queue.claim() == []
    assert [lease.id for lease in queue.claim()] == ["t"]


def test_an_unconfirmed_intent_means_no_action(pair: Pair, scenes: Scenes, queue_name: str) -> None:
    queue = scenes.open(queue_name)
    queue.enqueue("work", side_effect="non_idempotent", records_effects=True, lease_duration=0.5)
    (lease,) = queue.claim()
    acted: list[str] = []
    with pair.stopped(), pytest.raises(NotReplicated):
        lease.run_effect("smtp.send", lambda effect: acted.append("sent"))
    assert acted == []


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
def test_an_ending_is_repeated_while_the_lease_lives(pair: Pair, scenes: Scenes, queue_name: str, verb: str) -> None:
    """The replica comes back in time: no error. It does not: the error says that the write was made."""
    queue = scenes.open(queue_name)
    for task_id in ("in-time", "too-late"):
        queue.enqueue("work", side_effect="idempotent", task_id=task_id, lease_duration=1)
    in_time, too_late = queue.claim(2)
    arguments = ["boom"] if verb == "fail" else []
    pair.replica.pause()
    resuming = threading.Timer(WAIT_MS / 1000 * 1.5, pair.replica.resume)
    resuming.start()
    getattr(in_time, verb)(*arguments)
    resuming.join()
    pair.caught_up()
    with pair.stopped():
        started = time.monotonic()
        with pytest.raises(NotReplicated, match="repeating it is safe"):
            getattr(too_late, verb)(*arguments)
        assert time.monotonic() - started < 3
        assert queue.get("too-late").status != "leased"
    assert getattr(too_late, verb)(*arguments).replay


def test_a_pipeline_in_which_one_call_replays(pair: Pair, scenes: Scenes, queue_name: str) -> None:
    """One WAIT behind several calls confirms them all, or none."""
    stage = scenes.stage(queue_name)
    calls = [VERBS[name].prepare(stage) for name in ("enqueue", "pause")]
    stage.queue.run(calls[0])
    queue = scenes.open(queue_name)
    with pair.stopped():
        outcomes = queue._transport.run_many(calls, return_errors=True)
        assert [type(outcome) for outcome in outcomes] == [NotReplicated, NotReplicated]
    assert [one.created for one in queue._transport.run_many(calls)[0]] == [True, True]


def test_a_script_that_was_forgotten_is_confirmed_only_by_its_own_write(
    pair: Pair, scenes: Scenes, client: redis.Redis, queue_name: str
) -> None:
    """NOSCRIPT, SCRIPT LOAD and the call share a connection; the WAIT that counts is the one behind the call."""
    call = VERBS["complete"].prepare(scenes.stage(queue_name))
    queue = scenes.open(queue_name)
    client.script_flush()
    with pair.stopped(), pytest.raises(NotReplicated):
        queue.run(call)
    client.script_flush()
    assert queue.run(call)[0][0].status == "completed"
