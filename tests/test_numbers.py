"""Large numbers through every verb: stored as decimal integers, or a clear `exhausted`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from servers import Engine
from tallies import difference, tally
from verbs import VERBS, Stage
from virtual_clock import VirtualClock

from redislease import Queue, QueueExhausted
from redislease.commands import operate
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

pytestmark = pytest.mark.contract

LIMIT = 2**53 - 1
LAST_SEQUENCE = 2**44 - 1

SIZES = [299_999_999, 10**14 - 1, 10**15, LIMIT - 100]

# Printed numbers have a sign there; a nonce that looks like one has none.
EXPONENT = re.compile(rb"(?<![0-9A-Za-z])-?\d+(\.\d+)?[eE][+-]\d+(?![0-9A-Za-z])")
FRACTION = re.compile(rb"^-?\d+\.\d+$")


def written(client: redis.Redis, keys: QueueKeys) -> Iterator[tuple[str, bytes]]:
    """Every name and every value of a queue, as the server prints it."""
    for name in client.scan_iter(f"{keys.base}*", count=1000):
        kind = client.type(name)
        yield "name", name
        if kind == b"hash":
            values = [part for pair in client.hgetall(name).items() for part in pair]
        elif kind == b"zset":
            values = client.execute_command("ZRANGE", name, 0, -1)
            values += [b"%.17g" % client.zscore(name, member) for member in values]
        elif kind == b"list":
            values = client.lrange(name, 0, -1)
        else:
            values = [client.get(name)]
        for value in values:
            yield name.decode(), value


def no_exponents(client: redis.Redis, keys: QueueKeys) -> None:
    """Fails for a number in exponent form, or with a fraction, anywhere."""
    found = [
        (name, value)
        for name, value in written(client, keys)
        if EXPONENT.search(value.replace(keys.base.encode(), b"")) or FRACTION.match(value)
    ]
    assert found == []


@pytest.fixture
def stage(engine: Engine, queue_name: str, library: ScriptLibrary, clock: VirtualClock) -> Iterator[Stage]:
    """At the beginning of time, so that nothing but the counters themselves is large."""
    clock.set_ms(1_000)
    with Queue(queue_name, redis_url=engine.url, scripts=library, worker_name="w") as queue:
        yield Stage(queue, clock)


def raise_counters(client: redis.Redis, keys: QueueKeys, size: int, task_ids: list[str]) -> None:
    """Every counter of the queue and of its tasks as if so much had happened."""
    for name in ("worker_sequence", "epoch", "enqueued", "claimed", "completed", "failed", "expired", "promoted"):
        client.hset(keys.meta, name, size)
    client.hset(keys.meta, "fence", size)
    client.hset(keys.meta, "sequence", min(size, LAST_SEQUENCE - 100))
    for task_id in task_ids:
        for name in ("attempts", "renewals", "releases", "longest_gap_ms"):
            client.hset(keys.task(task_id), name, size)


class Raised(Stage):
    """A stage on which counters are raised before each lease is claimed."""

    def __init__(self, stage: Stage, client: redis.Redis, keys: QueueKeys, size: int) -> None:
        super().__init__(stage.queue, stage.clock)
        self._client = client
        self._keys = keys
        self._size = size

    def lease(self, task_id: str = "t", **options: Any) -> Any:
        options = {"side_effect": "idempotent", "lease_duration": 600, "max_expirations": 99, **options}
        self.queue.enqueue("work", {"n": 1}, task_id=task_id, **options)
        self._client.hset(self._keys.task(task_id), "claim_generation", self._size)
        raise_counters(self._client, self._keys, self._size, [task_id])
        (lease,) = self.queue.claim()
        assert (lease.generation, lease.fencing_token) == (self._size + 1, self._size + 1)
        return lease


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_large_numbers(stage: Stage, redis_client: redis.Redis, keys: QueueKeys, verb: Any, size: int) -> None:
    raise_counters(redis_client, keys, size, [])
    call = verb.prepare(Raised(stage, redis_client, keys, size))
    before = tally(redis_client, keys)
    stage.queue.run(call)
    changed = difference(before, tally(redis_client, keys))
    if verb.name == "purge":
        # The sums fall by what the task had counted.
        changed = {name: amount for name, amount in changed.items() if abs(amount) == 1}
        assert changed.items() <= verb.effect.items()
    else:
        assert changed == verb.effect
    stage.queue.run(call)
    no_exponents(redis_client, keys)
    meta = redis_client.hgetall(keys.meta)
    assert size <= int(meta[b"fence"]) <= size + 10
    stage.queue.stats()
    for status in ("ready", "leased", "completed", "dead"):
        stage.queue.tasks(status)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_the_last_tokens(stage: Stage, redis_client: redis.Redis, keys: QueueKeys, left: int) -> None:
    """A batch that would pass the limit is not claimed; what holds a token goes on, and can be ended and recovered."""
    stage.queue.enqueue_many([{"name": "n", "side_effect": "idempotent", "lease_duration": 1}] * 4)
    (held,) = stage.queue.claim()
    redis_client.hset(keys.meta, "fence", LIMIT - 1 - left)
    before = stage.queue.stats().states
    with pytest.raises(QueueExhausted, match="fence"):
        stage.queue.claim(left + 1)
    assert stage.queue.stats().states == before
    tokens = [stage.queue.claim(1)[0].fencing_token for _ in range(left)]
    assert tokens == [LIMIT - left + number for number in range(left)]
    held.renew()
    held.progress(1)
    stage.clock.advance_ms(2_000)
    assert len(stage.queue.reap().recovered) == 1 + left
    stage.queue.cancel(held.id, by="ops")
    stage.queue.pause(by="ops")
    assert int(redis_client.hget(keys.meta, "fence")) == LIMIT
    stage.queue.resume(by="ops")
    with pytest.raises(QueueExhausted):
        stage.queue.claim()
    no_exponents(redis_client, keys)


def test_the_last_places_in_the_order(stage: Stage, redis_client: redis.Redis, keys: QueueKeys) -> None:
    redis_client.hset(keys.meta, "sequence", LAST_SEQUENCE - 2)
    first = stage.queue.enqueue("first", side_effect="idempotent", priority=-100)
    second = stage.queue.enqueue("second", side_effect="idempotent", priority=100)
    with pytest.raises(QueueExhausted, match="sequence"):
        stage.queue.enqueue("third", side_effect="idempotent")
    with pytest.raises(QueueExhausted, match="sequence"):
        stage.queue.enqueue("later", side_effect="idempotent", delay=5)
    leases = stage.queue.claim(5)
    assert [lease.id for lease in leases] == [second.id, first.id]
    for lease in leases:
        lease.release(delay=0)
        stage.queue.reap()
    assert len(stage.queue.claim(5)) == 2
    no_exponents(redis_client, keys)


def test_the_last_identity(stage: Stage, redis_client: redis.Redis, keys: QueueKeys) -> None:
    """Two workers never get the same identity: beyond the last one there is none."""
    redis_client.hset(keys.meta, "worker_sequence", LIMIT - 1)
    assert stage.queue.register("w").name == f"w-{LIMIT}"
    for _ in range(2):
        with pytest.raises(QueueExhausted):
            stage.queue.register("w")
    assert redis_client.hget(keys.meta, "worker_sequence") == b"%d" % LIMIT
    no_exponents(redis_client, keys)


def test_the_last_epoch(stage: Stage, redis_client: redis.Redis, keys: QueueKeys) -> None:
    """A pause that is late stays late, also at the end of the counter."""
    redis_client.hset(keys.meta, "epoch", LIMIT - 1)
    stage.queue.pause(by="ops")
    assert stage.queue.stats().epoch == LIMIT
    with pytest.raises(QueueExhausted):
        stage.queue.resume(by="ops")
    assert stage.queue.stats().pause == "claims"
    with pytest.raises(QueueExhausted):
        stage.queue.run(operate.pause("", LIMIT, by="ops"))


def test_the_last_generation(stage: Stage, redis_client: redis.Redis, keys: QueueKeys) -> None:
    """Generations are for people; tokens decide. The last one is kept, and every lease still excludes the others."""
    stage.queue.enqueue("work", side_effect="idempotent", task_id="t", lease_duration=1, max_expirations=99)
    redis_client.hset(keys.task("t"), "claim_generation", LIMIT - 1)
    for _ in range(3):
        (lease,) = stage.queue.claim()
        assert lease.generation == LIMIT
        stage.queue.attach(lease.handle())
        stage.clock.advance_ms(2_000)
        stage.queue.reap()
        assert stage.queue.get("t").status == "ready"
    no_exponents(redis_client, keys)


def test_far_dates_are_kept_to_the_millisecond(stage: Stage, redis_client: redis.Redis, keys: QueueKeys) -> None:
    """A server that says it is the year 9999 has no microseconds left to issue as tokens."""
    at = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    task = stage.queue.enqueue("work", side_effect="idempotent", at=at)
    assert task.available_at == stage.queue.get(task.id).available_at == 253_402_300_799_999
    stage.clock.set_ms(253_402_300_799_999)
    with pytest.raises(QueueExhausted, match="fence"):
        stage.queue.claim()
    no_exponents(redis_client, keys)
