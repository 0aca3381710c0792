"""At maxmemory: what lets a queue drain still works, and what would fill it further is refused whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from keyspace import Keyspace
from servers import Engine, ServerProcess
from tallies import difference, stored, tally, without_replay
from verbs import VERBS, Stage
from virtual_clock import VirtualClock

from redislease import Queue, QueuePaused, ServerOutOfMemory
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

pytestmark = pytest.mark.contract

DOCUMENTED = {
    "works": {
        *("register", "claim", "renew", "progress", "outcome", "complete", "fail", "release", "cancel", "revoke"),
        *("resolve", "requeue", "reap", "pause", "purge"),
    },
    "refused": {"enqueue", "intent"},
    "reads": {"stats", "check"},
}


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[ServerProcess]:
    started = engine.start_extra()
    yield started
    started.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[redis.Redis]:
    with server.sync_client() as opened:
        yield opened


@pytest.fixture
def own_queue(server: ServerProcess, queue_name: str, library: ScriptLibrary) -> Iterator[Queue]:
    with Queue(queue_name, redis_url=server.url, scripts=library, worker_name="w") as opened:
        yield opened


@pytest.fixture
def stage(own_queue: Queue, client: redis.Redis, keys: QueueKeys) -> Stage:
    clock = VirtualClock(client, keys)
    clock.set_ms()
    return Stage(own_queue, clock)


@contextmanager
def full(client: redis.Redis) -> Iterator[None]:
    """The server has no memory left for anything new."""
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.RedisError, match="maxmemory"):
            client.set("x", "y")
        yield
    finally:
        client.config_set("maxmemory", 0)


def test_the_table_of_verbs_is_the_documented_one() -> None:
    for when_full, scripts in DOCUMENTED.items():
        names = {name for name, verb in VERBS.items() if verb.when_full == when_full}
        assert {name for name in VERBS if name in scripts} <= names
        assert scripts <= {name.split(" ")[0].split("+")[0] for name in names}


@pytest.mark.parametrize("durable", [False, True], ids=["", "replicated"])
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_verb_on_a_full_server(
    stage: Stage, client: redis.Redis, keys: QueueKeys, library: ScriptLibrary, verb: Any, durable: bool
) -> None:
    """Also in a queue that waits for replicas, where each script makes one write more."""
    call = verb.prepare(stage)
    script = library[call.script]
    client.script_load(script.source)
    before, bytes_before = tally(client, keys), stored(client, keys)
    sent = ["1" if durable else "0", *call.args] if script.durable else list(call.args)
    with full(client):
        if verb.when_full == "refused":
            with pytest.raises(redis.ResponseError, match="maxmemory"):
                client.evalsha(script.sha, 2, keys.meta, keys.never, *sent)
            started = time.monotonic()
            with pytest.raises(ServerOutOfMemory):
                stage.queue.run(call)
            assert time.monotonic() - started < 1.0
            assert stored(client, keys) == bytes_before
        else:
            call.parse(client.evalsha(script.sha, 2, keys.meta, keys.never, *sent))
            assert difference(before, tally(client, keys)) == verb.effect
            if verb.repeated == "same":
                stage.queue.run(call)
                assert difference(before, tally(client, keys)) == verb.effect
    assert Keyspace(client, keys).problems() == []


@pytest.mark.parametrize("name", ["enqueue", "intent", "intent again"])
def test_what_was_stored_before_is_answered_on_a_full_server(stage: Stage, client: redis.Redis, name: str) -> None:
    """The reply was lost and the server filled up: nothing new is stored, so the old answer is given."""
    call = VERBS[name].prepare(stage)
    answer = stage.queue.run(call)
    with full(client):
        assert without_replay(stage.queue.run(call)) == without_replay(answer)


def test_a_whole_queue_drains_on_a_full_server(stage: Stage, client: redis.Redis, keys: QueueKeys) -> None:
    """Finish, fail, cancel, expire, decide, purge; then there is room again."""
    queue = stage.queue
    for number in range(60):
        queue.enqueue("work", {"n": number}, task_id=f"t{number}", side_effect="idempotent", max_expirations=1)
    with full(client):
        queue.complete_many([(lease, {"r": 1}) for lease in queue.claim(20)])
        for lease in queue.claim(20):
            lease.renew()
            lease.progress(1, 2)
            lease.fail("x", retry=False)
        queue.claim(20)
        with pytest.raises(ServerOutOfMemory):
            queue.enqueue("work", side_effect="idempotent")
    stage.clock.advance_ms(60_001)
    with full(client):
        queue.reap()
        queue.requeue("t40", by="ops")
        queue.cancel("t40", by="ops")
        assert {state: size for state, size in queue.stats().states.items() if size} == {
            "completed": 20,
            "dead": 39,
            "cancelled": 1,
        }
    stage.clock.advance_ms(61_000)
    with full(client):
        purged = queue.purge(completed=0, cancelled=0, dead=0, evidence=0)
        assert (purged.completed, purged.dead, purged.cancelled) == (20, 39, 1)
        assert sum(queue.stats().states.values()) == 0
    queue.enqueue("work", side_effect="idempotent")
    assert Keyspace(client, keys).problems() == []


def test_no_record_no_action(stage: Stage, client: redis.Redis) -> None:
    """An effect whose intent cannot be stored does not happen; the lease is still held, and can be given back."""
    lease = stage.lease(side_effect="non_idempotent", records_effects=True)
    acted: list[str] = []
    with full(client):
        with pytest.raises((ServerOutOfMemory, QueuePaused)):
            lease.run_effect("smtp.send", lambda effect: acted.append("sent"))
        assert acted == []
        assert lease.release(delay=1).status == "scheduled"


def test_a_raw_claim_opens_its_doubt_on_a_full_server(stage: Stage, client: redis.Redis) -> None:
    """Whoever holds a task without recorded effects may have acted: that is written also when memory is short."""
    stage.queue.enqueue("work", side_effect="non_idempotent", task_id="t")
    with full(client):
        (lease,) = stage.queue.claim()
        assert stage.queue.get("t").open_effects == 1
        assert lease.fail("x").status == "reconciling"


def test_refusals_answer_on_a_full_server(stage: Stage, client: redis.Redis) -> None:
    """A refusal that wants to leave evidence still says why, and does not turn into a memory error."""
    lease = stage.lease()
    stage.queue.cancel(lease.id, by="ops")
    with full(client), pytest.raises(Exception, match="cancelled"):
        lease.complete()
