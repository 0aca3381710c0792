"""G4: whatever breaks in the middle of a call, every task stays in exactly one index that agrees with its hash.

Every script meets every key class as a key of the wrong type, and as a key that the user may not touch. It may do its
work around the key or refuse as a whole; it may not stop half-way.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from keyspace import Keyspace
from servers import Engine
from tallies import stored
from virtual_clock import VirtualClock

from redislease import Queue, RedisLeaseError
from redislease.commands import hold, inspect, settle
from redislease.handle import Handle
from redislease.keys import STATES, QueueKeys
from redislease.scripts import ScriptLibrary

pytestmark = [pytest.mark.contract, pytest.mark.broken_keys]

QUEUE_KEYS = (*STATES, "unsettled", "orphans", "payloads", "results", "progress", "workers", "wake", "audit", "meta")
TASK_KEYS = ("task", "evidence", "idempotency", "worker", "signal", "effects")


@dataclass
class Cast:
    """A queue with a task in every state that a script may meet, all with the same odds of being touched."""

    queue: Queue
    leases: dict[str, Any] = field(default_factory=dict)

    def handle(self, name: str) -> Handle:
        return Handle.decode(self.leases[name].handle())


def build(queue: Queue, clock: VirtualClock) -> Cast:
    """Tasks that expire, hold, wait, are due, in doubt, dead, ended, and one that is ready."""
    cast = Cast(queue)

    def claimed(name: str, **options: Any) -> Any:
        queue.enqueue("work", {"n": 1}, task_id=name, idempotency_key=f"key-{name}", **options)
        (cast.leases[name],) = queue.claim()
        return cast.leases[name]

    claimed("to-cancel-later", side_effect="idempotent").release(delay=3_600)
    claimed("in-doubt", side_effect="non_idempotent").fail("x")
    claimed("is-dead", side_effect="idempotent").fail("x", retry=False)
    claimed("is-done", side_effect="idempotent").complete({"r": 1})
    for name in ("held", "held-too"):
        claimed(name, side_effect="idempotent", lease_duration=3_600)
    clock.advance_ms(100_000)
    claimed("expired", side_effect="idempotent", lease_duration=1)
    clock.advance_ms(2_000)
    queue.enqueue("work", {"n": 1}, task_id="due", side_effect="idempotent", delay=1)
    clock.advance_ms(2_000)
    queue.enqueue("work", {"n": 1}, task_id="waits", side_effect="idempotent", idempotency_key="key-waits")
    return cast


def enqueue(cast: Cast) -> None:
    cast.queue.enqueue_many(
        [
            {"name": "new", "side_effect": "idempotent", "task_id": "new", "idempotency_key": "key-new"},
            {"name": "new", "side_effect": "idempotent", "task_id": "later", "delay": 5, "payload": {"a": 1}},
        ]
    )


SCRIPTS: dict[str, Callable[[Cast], Any]] = {
    "register": lambda cast: cast.queue.register("w"),
    "enqueue": enqueue,
    "claim": lambda cast: cast.queue.claim(3),
    "renew": lambda cast: cast.queue.run(hold.renew([(cast.handle("held"), None), (cast.handle("held-too"), None)])),
    "progress": lambda cast: cast.queue.run(hold.progress(cast.handle("held"), 1, 1)),
    "complete": lambda cast: cast.queue.run(
        settle.complete([settle.Completion(cast.handle(name), b"1") for name in ("held", "held-too")])
    ),
    "complete+claim": lambda cast: cast.queue.run(
        settle.complete([settle.Completion(cast.handle("held"), b"1")], settle.NextClaim("w-1", 99, 2))
    ),
    "fail": lambda cast: cast.queue.run(settle.fail([settle.Failure(cast.handle("held"), "x", delay_ms=5)])),
    "release": lambda cast: cast.queue.run(settle.release([settle.Return(cast.handle("held"))])),
    "refused": lambda cast: cast.queue.run(settle.release([settle.Return(cast.handle("is-done"))])),
    "cancel": lambda cast: cast.queue.cancel("held", by="ops"),
    "cancel-scheduled": lambda cast: cast.queue.cancel("to-cancel-later", by="ops"),
    "revoke": lambda cast: cast.queue.revoke("held", by="ops"),
    "resolve": lambda cast: cast.queue.resolve("in-doubt", "retry", by="ops", effects={"handler": "not_done"}),
    "resolve-dead": lambda cast: cast.queue.resolve("in-doubt", "dead", by="ops"),
    "requeue": lambda cast: cast.queue.requeue("is-dead", by="ops"),
    "reap": lambda cast: cast.queue.reap(),
    "pause": lambda cast: cast.queue.pause(by="ops"),
    "purge": lambda cast: cast.queue.purge(completed=60, cancelled=60, dead=60),
    "stats": lambda cast: cast.queue.stats(),
    "check": lambda cast: cast.queue.run(inspect.check("leased")),
}


def key_names(keys: QueueKeys, kind: str) -> list[str]:
    """The keys of a class that these scripts may meet."""
    if kind in QUEUE_KEYS:
        return [keys.base + kind]
    ids = ["expired", "held", "held-too", "due", "waits", "in-doubt", "is-dead", "is-done", "to-cancel-later", "new"]
    if kind in ("worker", "signal"):
        return [f"{keys.base}{kind}:{owner}" for owner in ("w-1", "w-2")]
    if kind == "idempotency":
        return [f"{keys.base}idempotency:key-{task_id}" for task_id in ids]
    return [f"{keys.base}{kind}:{task_id}" for task_id in ids]


@contextlib.contextmanager
def wrong_type(client: redis.Redis, names: list[str]) -> Iterator[None]:
    """Each key holds something else for a while, and is put back as it was."""
    aside = [name for name in names if client.exists(name)]
    for name in aside:
        client.rename(name, f"aside:{name}")
    for name in names:
        if name.endswith((":meta", ":payloads")) or ":task:" in name:
            client.rpush(name, "wrong")
        else:
            client.hset(name, "wrong", "1")
    try:
        yield
    finally:
        for name in names:
            if client.type(name) in (b"list", b"hash") and _is_wrong(client, name):
                client.delete(name)
        for name in aside:
            client.delete(name)
            client.rename(f"aside:{name}", name)


def _is_wrong(client: redis.Redis, name: str) -> bool:
    if client.type(name) == b"list":
        return client.lrange(name, 0, -1) == [b"wrong"]
    return bool(client.hexists(name, "wrong"))


class Theatre:
    """Sets up the same scene again and again: it is built once, and then restored key by key."""

    def __init__(self, engine: Engine, library: ScriptLibrary) -> None:
        self.engine = engine
        self.library = library
        self.client = engine.sync_client()
        self._queue = Queue(f"t-{uuid.uuid4().hex[:12]}", client=self.client, scripts=library, worker_name="w")
        self.keys = self._queue.keys
        clock = VirtualClock(self.client, self.keys)
        clock.set_ms()
        self._cast = build(self._queue, clock)
        self.before = Keyspace(self.client, self.keys)
        assert self.before.problems() == []
        self.stored = stored(self.client, self.keys)
        names = [*self.client.scan_iter(f"{self.keys.base}*", count=1000), f"clock:{self.keys.base}"]
        self._saved = {name: (max(self.client.pttl(name), 0), self.client.dump(name)) for name in names}

    def scene(self) -> Cast:
        """The scene as it was built."""
        left = list(self.client.scan_iter(f"{self.keys.base}*", count=1000))
        with self.client.pipeline(transaction=False) as pipe:
            if left:
                pipe.delete(*left)
            for name, (left_ms, value) in self._saved.items():
                pipe.restore(name, left_ms, value, replace=True)
            pipe.execute()
        return self._cast

    def close(self) -> None:
        self._queue.close()
        self.client.close()


@pytest.fixture(scope="module")
def theatre(engine: Engine, library: ScriptLibrary) -> Iterator[Theatre]:
    opened = Theatre(engine, library)
    yield opened
    opened.close()


def disagreements(seen: Keyspace) -> list[str]:
    """Tasks that are not in exactly one index; one that was put into `orphans` is in no other."""
    orphans = seen.index("orphans")
    return [line for line in seen._misplaced() if line.split(" ")[0] not in orphans or "[]" not in line]


def test_every_script_has_something_to_do_in_the_scene(theatre: Theatre) -> None:
    """Else what follows would show nothing."""
    for name, script in SCRIPTS.items():
        cast = theatre.scene()
        assert stored(theatre.client, theatre.keys) == theatre.stored, name
        script(cast)
        changed = stored(theatre.client, theatre.keys) != theatre.stored
        assert changed == (name not in ("stats", "check")), name


@pytest.mark.parametrize("kind", [*QUEUE_KEYS, *TASK_KEYS])
def test_a_key_of_the_wrong_type_leaves_every_task_in_one_index(theatre: Theatre, kind: str) -> None:
    for name, script in SCRIPTS.items():
        cast = theatre.scene()
        broken = wrong_type(theatre.client, key_names(theatre.keys, kind))
        with broken, contextlib.suppress(RedisLeaseError):
            script(cast)
        after = Keyspace(theatre.client, theatre.keys)
        assert disagreements(after) == [], name
        assert set(theatre.before.tasks) - set(after.tasks) <= {"is-done", "is-dead"}, name


def restricted_user(client: redis.Redis, keys: QueueKeys, kind: str) -> str:
    """A user that may do everything but touch one class of keys."""
    allowed = [f"{keys.base}{name}" for name in (*QUEUE_KEYS, "never", "wake:approved") if name != kind]
    allowed += [f"{keys.base}{name}:*" for name in (*TASK_KEYS, "proposal", "approval") if name != kind]
    patterns = [f"~{pattern}" for pattern in (*allowed, f"clock:{keys.base}")]
    user = f"user-{keys.queue}"
    client.execute_command("ACL", "SETUSER", user, "on", ">secret", "resetkeys", "+@all", *patterns)
    return user


@pytest.mark.parametrize("kind", [*QUEUE_KEYS, *TASK_KEYS])
def test_a_key_that_the_user_may_not_touch_leaves_every_task_in_one_index(theatre: Theatre, kind: str) -> None:
    if not theatre.engine.is_real:
        pytest.skip("fakeredis has no ACL inside scripts")
    refused = 0
    user = restricted_user(theatre.client, theatre.keys, kind)
    for name, script in SCRIPTS.items():
        cast = theatre.scene()
        client = theatre.engine.sync_client(username=user, password="secret")
        with client, Queue(theatre.keys.queue, client=client, scripts=theatre.library, worker_name="w") as limited:
            try:
                script(Cast(limited, cast.leases))
            except RedisLeaseError:
                refused += 1
        after = Keyspace(theatre.client, theatre.keys)
        assert disagreements(after) == [], name
        assert after.index("orphans") == {}, name
    theatre.client.execute_command("ACL", "DELUSER", user)
    assert refused or kind == "effects"
