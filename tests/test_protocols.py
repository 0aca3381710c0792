"""Every verb on every kind of client: RESP2 and RESP3, `decode_responses` on and off, with hiredis and without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import redis
from both import Both
from redis import _parsers as parsers
from redis.asyncio import Redis as AsyncRedis
from servers import Engine, first_program
from tallies import difference, tally, without_replay
from verbs import VERBS, Stage
from virtual_clock import VirtualClock

from redislease import AsyncQueue, Queue
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary


@dataclass(frozen=True, slots=True)
class Settings:
    """How somebody's client talks and reads."""

    protocol: int
    decode: bool
    hiredis: bool

    def __str__(self) -> str:
        words = [f"resp{self.protocol}", "text" if self.decode else "bytes", "hiredis" if self.hiredis else "python"]
        return "-".join(words)

    def parser(self, *, is_async: bool) -> type[Any]:
        """The parser that redis-py would choose, or be left with."""
        if self.hiredis:
            return parsers._AsyncHiredisParser if is_async else parsers._HiredisParser
        if self.protocol == 3:
            return parsers._AsyncRESP3Parser if is_async else parsers._RESP3Parser
        return parsers._AsyncRESP2Parser if is_async else parsers._RESP2Parser


ALL = [
    Settings(protocol, decode, hiredis) for protocol, decode, hiredis in product((2, 3), (False, True), (False, True))
]


@pytest.fixture(params=ALL, ids=str)
def settings(request: pytest.FixtureRequest) -> Settings:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def users_client(real_engine: Engine, both: Both, settings: Settings) -> Iterator[Any]:
    """On the first program of the run; on the others one of each protocol."""
    assert real_engine.server
    if real_engine.name != first_program() and (settings.decode or settings.hiredis):
        pytest.skip("what a client makes of a reply is the same on every engine")
    path = real_engine.server.socket_path

    def make() -> Any:
        kind, connection = (
            (AsyncRedis, redis.asyncio.UnixDomainSocketConnection)
            if both.is_async
            else (redis.Redis, redis.UnixDomainSocketConnection)
        )
        pool_of = redis.asyncio.ConnectionPool if both.is_async else redis.ConnectionPool
        return kind(
            connection_pool=pool_of(
                connection_class=connection,
                path=path,
                protocol=settings.protocol,
                decode_responses=settings.decode,
                parser_class=settings.parser(is_async=both.is_async),
            )
        )

    client = both.pick(make, make)()
    yield client
    client.connection_pool.disconnect()


@pytest.fixture
def users_queue(users_client: Any, both: Both, queue_name: str, library: ScriptLibrary) -> Iterator[Any]:
    opened = both.pick(Queue, AsyncQueue)(queue_name, client=users_client, scripts=library, worker_name="w")
    yield opened
    opened.close()


def test_the_client_is_what_it_says(users_client: Any, settings: Settings) -> None:
    connection = users_client.connection_pool.make_connection()
    name = type(connection._parser).__name__
    assert ("Hiredis" in name) == settings.hiredis
    assert settings.hiredis or str(settings.protocol) in name
    users_client.set("protocol-test", b"\xc3\xa4")
    assert users_client.get("protocol-test") == ("ä" if settings.decode else b"\xc3\xa4")


def test_every_verb(
    users_client: Any, both: Both, library: ScriptLibrary, redis_client: redis.Redis, queue_name: str
) -> None:
    """The effect and the answer of each are those that a client of our own gets."""
    for number, (name, verb) in enumerate(VERBS.items()):
        keys = QueueKeys(f"{queue_name}-{number}")
        queue = both.pick(Queue, AsyncQueue)(keys.queue, client=users_client, scripts=library, worker_name="w")
        clock = VirtualClock(redis_client, keys)
        clock.set_ms()
        call = verb.prepare(Stage(queue, clock))
        before = tally(redis_client, keys)
        answer = queue.run(call)
        assert difference(before, tally(redis_client, keys)) == verb.effect, name
        if verb.repeated == "same":
            assert without_replay(queue.run(call)) == without_replay(answer), name
        queue.close()


def test_a_life_with_everything_in_it(users_queue: Any) -> None:
    """Binary and large values, unicode, readings, bells."""
    queue = users_queue
    payload = {"text": "ä🦊\r\n\0", "big": 2**60, "empty": [[], {}], "minus": -0.0}
    task = queue.enqueue(
        "näme", payload, side_effect="non_idempotent", records_effects=True, task_id="t-ä", priority=-7
    )
    queue.enqueue("later", side_effect="idempotent", delay=3_600, task_id="later")
    (lease,) = queue.claim(5, wait=0.1)
    assert lease.payload == payload
    assert str(lease.payload["minus"]) == "-0.0"
    assert lease.run_effect("smtp.send", lambda effect: {"sent": "ä"}, request=payload) == {"sent": "ä"}
    lease.progress(1, 2, "hälf\n")
    assert queue.attach(lease.handle()).payload == payload
    lease.complete({"r": ["ä", 2**60]})
    detail = queue.detail(task.id)
    assert (detail.task.priority, detail.task.status) == (-7, "completed")
    assert detail.result == {"r": ["ä", 2**60]}
    assert detail.progress["note"] == "hälf\n"
    (scheduled,) = queue.tasks("scheduled")
    assert scheduled.available_at == scheduled.created_at + 3_600_000
    assert [one.id for one in queue.tasks("completed")] == ["t-ä"]
    queue.pause(by="öps", reason="größe")
    assert queue.claim() == []
    queue.resume(by="öps")
    assert [line["by"] for line in queue.audit()] == ["öps", "öps"]
    assert [line["event"] for line in queue.evidence(task.id)][-1] == "completed"
    assert [one["owner"] for one in queue.workers()] == ["w-1"]
    assert queue.check("completed").problems == []
    assert queue.claim(wait=0.05) == []
