"""Both transports, on every engine, against small scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from both import Both
from sample_scripts import call, sample_library
from servers import Engine

from redislease.connection.async_transport import AsyncTransport
from redislease.connection.clients import open_async_clients, open_clients
from redislease.connection.transport import Transport
from redislease.errors import (
    ConfigurationError,
    InvalidInput,
    LayoutMismatch,
    LeaseLost,
    NotReplicated,
    ServerError,
)
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

BINARY = bytes(range(256))

Open = Callable[..., Any]


@pytest.fixture
def samples(tmp_path: Path) -> ScriptLibrary:
    return sample_library(tmp_path)


@pytest.fixture
def opened(both: Both, engine: Engine, keys: QueueKeys, samples: ScriptLibrary) -> Iterator[Open]:
    """Opens transports to the engine, and closes them."""
    transports: list[Any] = []

    def open_transport(url: str = engine.url, **options: Any) -> Any:
        clients = both.pick(open_clients, open_async_clients)(url)
        transports.append(both.pick(Transport, AsyncTransport)(keys, samples, clients, **options))
        return transports[-1]

    yield open_transport
    for transport in transports:
        transport.close()


@pytest.fixture
def transport(opened: Open) -> Any:
    return opened()


@pytest.fixture(params=[{}, {"decode_responses": True}, {"protocol": 2}, {"protocol": 3, "decode_responses": True}])
def users_transport(
    both: Both, engine: Engine, keys: QueueKeys, samples: ScriptLibrary, request: pytest.FixtureRequest
) -> Iterator[Any]:
    """A transport on a user's own client, with each setting that could change what a reply looks like."""
    client = both.pick(engine.sync_client, engine.async_client)(**request.param)
    transport = both.pick(Transport, AsyncTransport)(keys, samples, client)
    yield transport
    transport.close()
    assert client.ping(), "a user's client stays open"
    client.close()


def test_replies_are_raw_bytes_whatever_the_client(users_transport: Any) -> None:
    assert users_transport.run(call("echo", BINARY)) == [BINARY, 7]
    assert users_transport.run_many([call("echo", BINARY), call("echo", "ä")]) == [[BINARY, 7], ["ä".encode(), 7]]


def test_reads_have_one_shape_whatever_the_client(users_transport: Any, keys: QueueKeys, redis_client: Any) -> None:
    redis_client.hset(keys.meta, mapping={"a": BINARY, "b": b"1"})
    redis_client.zadd(keys.index("ready"), {"x": 1.5, "y": 1_800_000_000_000})
    redis_client.rpush(keys.audit, BINARY)
    redis_client.sadd(keys.base + "set", "m")
    read = users_transport.read
    assert read("HGETALL", keys.meta) == {b"a": BINARY, b"b": b"1"}
    assert read("HGETALL", keys.never) == {}
    assert read("ZRANGE", keys.index("ready"), 0, -1) == [b"x", b"y"]
    flat = read("ZRANGE", keys.index("ready"), 0, -1, "WITHSCORES")
    assert (flat[0], float(flat[1]), flat[2], float(flat[3])) == (b"x", 1.5, b"y", 1.8e12)
    assert read("LRANGE", keys.audit, 0, -1) == [BINARY]
    assert read("SMEMBERS", keys.base + "set") == [b"m"]
    assert read("HGET", keys.meta, "missing") is None
    assert float(read("ZSCORE", keys.index("ready"), "x")) == 1.5


def test_bells(users_transport: Any, keys: QueueKeys, redis_client: Any) -> None:
    redis_client.zadd(keys.signal("w-1"), {"1": 0})
    assert users_transport.block([keys.wake(), keys.signal("w-1")], 5) == keys.signal("w-1")


@pytest.mark.parametrize("timeout_s", [0, -1, 0.0001])
def test_a_block_is_never_endless(transport: Any, keys: QueueKeys, timeout_s: float) -> None:
    assert transport.block([keys.wake()], timeout_s) is None


def test_a_bell_wakes_a_waiter(transport: Any, keys: QueueKeys, redis_client: Any) -> None:
    ring = threading.Timer(0.05, lambda: redis_client.zadd(keys.wake(), {"1": 0}))
    ring.start()
    assert transport.block([keys.wake()], 5) == keys.wake()
    ring.join()


def test_unknown_scripts_are_loaded_on_the_way(transport: Any, redis_client: Any) -> None:
    redis_client.script_flush()
    assert transport.run(call("echo", "a")) == [b"a", 7]
    redis_client.script_flush()
    answers = transport.run_many([call("echo", "b"), call("store", "f", "v"), call("echo", "c")])
    assert answers == [[b"b", 7], [b"0", b"v"], [b"c", 7]]


def test_flushing_all_the_time_does_not_matter(transport: Any, redis_client: Any) -> None:
    stop = threading.Event()

    def flush() -> None:
        while not stop.is_set():
            redis_client.script_flush()

    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        for number in range(200):
            assert transport.run(call("echo", number)) == [b"%d" % number, 7]
    finally:
        stop.set()
        flusher.join()


def test_durable_says_whether_replicas_are_waited_for(transport: Any) -> None:
    assert transport.run(call("store", "f", "v")) == [b"0", b"v"]


def test_a_refusal_is_raised(transport: Any) -> None:
    with pytest.raises(LeaseLost):
        transport.run(call("echo", "lost"))


def test_one_refusal_of_many(transport: Any) -> None:
    calls = [call("echo", "a"), call("echo", "lost"), call("echo", "b")]
    first, refusal, last = transport.run_many(calls, return_errors=True)
    assert (first, last) == ([b"a", 7], [b"b", 7])
    assert isinstance(refusal, LeaseLost)
    with pytest.raises(LeaseLost):
        transport.run_many(calls)
    assert transport.run_many([]) == []


def test_another_layout_is_refused(transport: Any) -> None:
    with pytest.raises(LayoutMismatch, match=r"layout 9.*layout 1"):
        transport.run(call("layout"))


def test_an_error_in_a_script_is_final_and_located(transport: Any) -> None:
    with pytest.raises(ServerError, match="broken") as caught:
        transport.run(call("broken"))
    assert isinstance(caught.value.__cause__, redis.ResponseError)
    assert transport.run(call("echo", "next")) == [b"next", 7]


def test_a_lone_surrogate_is_refused_before_anything_is_sent(transport: Any) -> None:
    with pytest.raises(InvalidInput):
        transport.run(call("echo", "\ud800"))


def test_announce_lists_the_queue_once(transport: Any, redis_client: Any, queue_name: str) -> None:
    transport.announce()
    assert redis_client.sismember("redislease:queues", queue_name)
    redis_client.srem("redislease:queues", queue_name)
    transport.announce()
    assert not redis_client.sismember("redislease:queues", queue_name)


def test_concurrent_threads_get_their_own_answers(transport: Any) -> None:
    wrong: list[Any] = []

    def work(base: int) -> None:
        for number in range(base, base + 50):
            answer = transport.run(call("echo", number))
            if answer != [b"%d" % number, 7]:
                wrong.append((number, answer))

    threads = [threading.Thread(target=work, args=(base * 1000,)) for base in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_wait_timeout_must_fit_into_the_socket_timeout(opened: Open) -> None:
    with pytest.raises(ConfigurationError, match="wait_timeout_ms"):
        opened(wait_replicas=1, wait_timeout_ms=5_000)


def test_unconfirmed_writes_are_told_with_their_answer(real_engine: Engine, opened: Open, redis_client: Any) -> None:
    transport = opened(wait_replicas=1, wait_timeout_ms=50)
    with pytest.raises(NotReplicated, match="0 of 1") as caught:
        transport.run(call("store", "f", "v"))
    assert caught.value.answer == [b"1", b"v"]
    assert transport.run(call("store", "f", "w", confirm=False)) == [b"1", b"w"]
    with pytest.raises(LeaseLost):
        transport.run(call("echo", "lost"))
