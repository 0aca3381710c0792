"""Every verb meets a server that is absent, locked, loading, read-only, busy, full, unable to save or silent.

Each time: a typed error within the time given, and nothing half-done.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from both import Both
from redis.backoff import NoBackoff
from redis.retry import Retry
from server_states import PATIENCE_S, STATES, State, busy, needed_on
from servers import Engine, ServerProcess, wait_until
from tallies import difference, stored, tally
from verbs import VERBS, WRITING, Stage
from virtual_clock import VirtualClock

from redislease import (
    AsyncQueue,
    Queue,
    RedisLeaseError,
    ServerLoading,
    ServerUnavailable,
)
from redislease.commands.call import Call
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

AT_MOST_S = 2.0
"""How long one may take with everything around it: calls about a lease are repeated for a second in any case."""


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[ServerProcess]:
    started = engine.start_extra()
    yield started
    started.close()


class Prepared:
    """Every verb in a queue of its own, ready to be called; a queue that was changed is replaced by a new one."""

    def __init__(self, server: ServerProcess, library: ScriptLibrary) -> None:
        self.server = server
        self.library = library
        self.calls: dict[str, Call[Any]] = {}
        self._keys: dict[str, QueueKeys] = {}
        self._before: dict[str, tuple[Any, Any]] = {}
        self._client = server.sync_client()
        for name in VERBS:
            self.prepare(name)

    def prepare(self, name: str) -> None:
        """Sets the stage for a verb in a new queue."""
        keys = self._keys[name] = QueueKeys(f"t-{uuid.uuid4().hex[:12]}")
        with Queue(keys.queue, client=self._client, scripts=self.library, worker_name="w") as queue:
            clock = VirtualClock(self._client, keys)
            clock.set_ms()
            self.calls[name] = VERBS[name].prepare(Stage(queue, clock))
        self._before[name] = (tally(self._client, keys), stored(self._client, keys))

    def queue(self, name: str) -> str:
        """The name of the queue of a verb."""
        return self._keys[name].queue

    def untouched(self, name: str) -> bool:
        """Whether a queue is as it was."""
        return bool(self._before[name][1] == stored(self._client, self._keys[name]))

    def effect(self, name: str) -> dict[str, int]:
        """What changed in a queue, which is replaced."""
        changed = difference(self._before[name][0], tally(self._client, self._keys[name]))
        self.prepare(name)
        return changed

    def close(self) -> None:
        """Closes the client."""
        self._client.close()


@pytest.fixture(params=STATES.values(), ids=STATES)
def state(engine: Engine, request: pytest.FixtureRequest) -> State:
    """Every state; those that do not depend on the engine once."""
    return needed_on(request.param, engine)


@pytest.fixture(scope="module")
def prepared(server: ServerProcess, library: ScriptLibrary) -> Iterator[Prepared]:
    made = Prepared(server, library)
    yield made
    made.close()


def test_every_verb(prepared: Prepared, both: Both, library: ScriptLibrary, state: State) -> None:
    make = both.pick(Queue, AsyncQueue)
    outcomes: dict[str, tuple[Any, float]] = {}
    with state.enter(prepared.server) as url:
        for name, call in prepared.calls.items():
            queue = make(prepared.queue(name), redis_url=url, scripts=library, retry_for_s=state.patience_s)
            started = time.monotonic()
            try:
                outcomes[name] = (queue.run(call), time.monotonic() - started)
            except RedisLeaseError as error:
                outcomes[name] = (error, time.monotonic() - started)
            queue.close()
    for name, (outcome, took_s) in outcomes.items():
        assert took_s < AT_MOST_S, f"{name} took {took_s:.1f} s: {outcome}"
        reads = name not in WRITING and state.reads is not False
        if name in state.works or (reads and (state.reads or not isinstance(outcome, Exception))):
            assert not isinstance(outcome, Exception), f"{name}: {outcome}"
            assert prepared.effect(name) == VERBS[name].effect
        else:
            assert type(outcome) is state.kind, f"{name}: {outcome!r}"
            assert re.search(state.said, str(outcome))
            assert "wr0ng" not in str(outcome)
            assert prepared.untouched(name), name


def test_a_life_as_a_user_calls_it(server: ServerProcess, both: Both, queue_name: str, state: State) -> None:
    """Not call by call: what enqueue, claim, get and a lease do around their calls is bounded and typed too."""
    ready = both.pick(Queue, AsyncQueue)(queue_name, redis_url=server.url)
    ready.enqueue("work", side_effect="idempotent")
    (lease,) = ready.claim()
    ready.close()
    with state.enter(server) as url:
        queue = both.pick(Queue, AsyncQueue)(queue_name, redis_url=url, retry_for_s=state.patience_s)
        steps: list[Callable[[], Any]] = [
            lambda: queue.enqueue("work", side_effect="idempotent"),
            lambda: queue.enqueue_many([{"name": "work", "side_effect": "idempotent"}]),
        ]
        if not state.works:
            steps += [
                lambda: queue.claim(wait=0.01),
                lambda: queue.attach(lease.handle()),
                lambda: queue.revoke(lease.id, token=lease.fencing_token, by="ops"),
                lambda: queue.complete_many([(lease, None)], claim=2),
            ]
        if state.reads is False:
            steps += [lambda: queue.get(lease.id), lambda: queue.tasks("ready"), lambda: queue.pause(by="ops")]
        for number, step in enumerate(steps):
            started = time.monotonic()
            with pytest.raises(state.kind, match=state.said):
                step()
            assert time.monotonic() - started < AT_MOST_S, f"step {number}"
        queue.close()


def test_what_the_server_said_is_told_when_the_time_is_over(server: ServerProcess, both: Both, queue_name: str) -> None:
    """The last attempt is cut short by the end of the time; what the earlier ones heard says more than that."""
    queue = both.pick(Queue, AsyncQueue)(queue_name, redis_url=server.url, retry_for_s=0.3)
    queue.register()
    with busy(server):
        started = time.monotonic()
        with pytest.raises(ServerUnavailable, match="busy with a long script"):
            queue.stats()
        assert time.monotonic() - started < AT_MOST_S
    queue.close()


def test_scripts_are_forgotten_before_every_call(prepared: Prepared, both: Both, library: ScriptLibrary) -> None:
    make = both.pick(Queue, AsyncQueue)
    with prepared.server.sync_client() as client:
        for name, call in prepared.calls.items():
            queue = make(prepared.queue(name), redis_url=prepared.server.url, scripts=library)
            client.script_flush()
            queue.run(call)
            assert prepared.effect(name) == VERBS[name].effect, name
            queue.close()


def test_scripts_are_forgotten_in_the_middle_of_pipelines(
    server: ServerProcess, both: Both, library: ScriptLibrary, queue_name: str
) -> None:
    queue = both.pick(Queue, AsyncQueue)(queue_name, redis_url=server.url, scripts=library)
    with server.sync_client() as client:
        stage = Stage(queue, VirtualClock(client, QueueKeys(queue_name)))
        stage.clock.set_ms()
        calls = [VERBS[verb].prepare(stage) for verb in ("enqueue", "progress", "pause", "stats")]
        client.script_flush()
        answers = queue._transport.run_many(calls)
        assert [one.created for one in answers[0]] == [True, True]
        assert (answers[2].level, answers[3].pause) == ("effects", "effects")
        client.script_flush()
        again = queue._transport.run_many(calls)
        assert (again[0], again[2]) == (answers[0], answers[2])
        assert tally(client, QueueKeys(queue_name))["counted enqueued"] == 3 + len(("t",))
    queue.close()


@pytest.mark.slow
def test_a_server_that_really_loads(engine: Engine, both: Both, library: ScriptLibrary) -> None:
    """A millisecond for each key; then the queue goes on as if nothing had been."""
    server = engine.start_extra("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    prepared = Prepared(server, library)
    with server.sync_client() as client:
        with client.pipeline(transaction=False) as pipe:
            for number in range(4_000):
                pipe.set(f"filler:{number}", "x" * 100)
            pipe.execute()
        client.save()
    server.kill()
    server.start(wait=False)
    answers: list[Any] = []
    make = both.pick(Queue, AsyncQueue)
    with server.sync_client(retry=Retry(NoBackoff(), 0)) as client:
        wait_until(lambda: is_loading(client), what="LOADING")
    for name, call in prepared.calls.items():
        with pytest.raises(ServerLoading, match="still loading"):
            make(prepared.queue(name), redis_url=server.url, scripts=library, retry_for_s=PATIENCE_S).run(call)
    for name, call in prepared.calls.items():
        queue = make(prepared.queue(name), redis_url=server.url, scripts=library)
        answers.append(queue.run(call))
        assert prepared.effect(name) == VERBS[name].effect
        queue.close()
    prepared.close()
    server.close()


def is_loading(client: redis.Redis) -> bool:
    """Whether it answers LOADING."""
    try:
        client.get("x")
    except redis.BusyLoadingError:
        return True
    except redis.ConnectionError:
        return False
    raise AssertionError("it was too quick")
