"""Servers that are down, full, read-only, loading, busy or lose their replies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from both import Both
from sample_scripts import call, sample_library
from servers import Engine, ServerProcess, free_port, wait_until

from redislease.connection.async_transport import AsyncTransport
from redislease.connection.clients import open_async_clients, open_clients
from redislease.connection.limits import Limits
from redislease.connection.transport import Transport
from redislease.errors import (
    NotReplicated,
    PermissionDenied,
    ServerError,
    ServerOutOfMemory,
    ServerReadOnly,
    ServerUnavailable,
)
from redislease.keys import QueueKeys

Connect = Callable[..., Any]


@pytest.fixture
def connect(both: Both, keys: QueueKeys, tmp_path: Path) -> Iterator[Connect]:
    library = sample_library(tmp_path)
    with ExitStack() as stack:

        def connect_to(url: str, limits: Limits | None = None, **options: Any) -> Any:
            clients = both.pick(open_clients, open_async_clients)(url, limits=limits or Limits())
            transport = both.pick(Transport, AsyncTransport)(keys, library, clients, **options)
            stack.callback(transport.close)
            return transport

        yield connect_to


@pytest.fixture
def server(real_engine: Engine) -> Iterator[ServerProcess]:
    extra = real_engine.start_extra("--appendonly", "yes")
    yield extra
    extra.close()


def test_nobody_there(connect: Connect) -> None:
    transport = connect("unix:///nowhere/s?password=s3cr3t")
    started = time.monotonic()
    with pytest.raises(ServerUnavailable, match="unix:///nowhere/s") as caught:
        transport.run(call("echo", "x"), retry_for_s=0.2)
    assert time.monotonic() - started < 1.0
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__
    transport.announce()


def test_a_restart_is_survived(server: ServerProcess, connect: Connect) -> None:
    transport = connect(server.url)
    assert transport.run(call("count")) == [1]
    server.kill()
    starter = threading.Timer(0.2, server.start)
    starter.start()
    answer = transport.run(call("count"))
    starter.join()
    assert answer == [2]


def test_a_waiter_learns_of_a_restart_and_can_wait_again(
    server: ServerProcess, connect: Connect, keys: QueueKeys
) -> None:
    transport = connect(server.url)
    killer = threading.Timer(0.1, server.kill)
    killer.start()
    with pytest.raises(ServerUnavailable):
        transport.block([keys.wake()], 5)
    killer.join()
    with pytest.raises(ServerUnavailable):
        transport.block([keys.wake()], 5)
    server.start()
    with server.sync_client() as client:
        client.zadd(keys.wake(), {"1": 0})
    assert transport.block([keys.wake()], 5) == keys.wake()


def test_a_silent_server_costs_no_more_than_the_budget(server: ServerProcess, connect: Connect) -> None:
    transport = connect(server.url)
    assert transport.run(call("count")) == [1]
    server.pause()
    try:
        started = time.monotonic()
        with pytest.raises(ServerUnavailable, match="did not answer in time"):
            transport.run(call("count"), retry_for_s=0.3)
        assert time.monotonic() - started < 2.0
    finally:
        server.resume()
    # What was sent may have been done; the answer to it must not be taken for the answer to this.
    assert transport.run(call("echo", "x")) == [b"x", 7]


def test_a_socket_timeout_is_retried_within_the_budget(server: ServerProcess, connect: Connect) -> None:
    transport = connect(server.url, Limits(socket_timeout_s=0.2, connect_timeout_s=0.2))
    assert transport.run(call("echo", "a")) == [b"a", 7]
    server.pause()
    resume = threading.Timer(0.5, server.resume)
    resume.start()
    assert transport.run(call("echo", "b"), retry_for_s=10) == [b"b", 7]
    resume.join()


def test_a_full_server_refuses_at_once(server: ServerProcess, connect: Connect) -> None:
    with server.sync_client() as client:
        client.config_set("maxmemory", 1)
    transport = connect(server.url)
    started = time.monotonic()
    with pytest.raises(ServerOutOfMemory):
        transport.run(call("store", "f", "v"))
    assert time.monotonic() - started < 1.0
    transport.announce()


def test_too_few_replicas_refuse_at_once(server: ServerProcess, connect: Connect) -> None:
    with server.sync_client() as client:
        client.config_set("min-replicas-to-write", 1)
    with pytest.raises(ServerError, match="too few healthy replicas"):
        connect(server.url).run(call("store", "f", "v"))


def test_acl_denials(server: ServerProcess, connect: Connect) -> None:
    with server.sync_client() as client:
        client.execute_command(
            "ACL", "SETUSER", "u", "on", ">s3cr3t", "~redislease:{*", "+evalsha", "+script", "+ping", "+hset", "+client"
        )
    transport = connect(f"{server.url}?username=u&password=s3cr3t")
    assert transport.run(call("store", "f", "v")) == [b"0", b"v"]
    with pytest.raises(PermissionDenied):
        transport.run(call("forbidden"))
    with pytest.raises(PermissionDenied):
        transport.read("KEYS", "*")
    transport.announce()
    with pytest.raises(PermissionDenied) as caught:
        connect(f"{server.url}?username=u&password=wr0ng").run(call("echo", "x"))
    assert "wr0ng" not in str(caught.value)


def test_busy_is_waited_for(server: ServerProcess, connect: Connect) -> None:
    with server.sync_client() as client:
        client.config_set("lua-time-limit", 10)
    transport = connect(server.url)
    assert transport.run(call("echo", "a")) == [b"a", 7]

    def loop() -> None:
        with server.sync_client() as client, pytest.raises(redis.ResponseError):
            client.eval("while true do end", 0)

    def is_busy() -> bool:
        with server.sync_client() as client:
            try:
                return not client.ping()
            except redis.ResponseError:
                return True

    looping = threading.Thread(target=loop)
    looping.start()
    wait_until(is_busy)
    with pytest.raises(ServerUnavailable, match="busy"):
        transport.run(call("echo", "b"), retry_for_s=0)

    def kill() -> None:
        with server.sync_client() as client:
            client.script_kill()

    killer = threading.Timer(0.2, kill)
    killer.start()
    assert transport.run(call("echo", "c")) == [b"c", 7]
    killer.join()
    looping.join()


def test_replicas(real_engine: Engine, connect: Connect) -> None:
    port = free_port()
    # The last option wins over the default of no port.
    primary = real_engine.start_extra("--port", str(port), "--repl-diskless-sync-delay", "0")
    replica = real_engine.start_extra("--replicaof", "127.0.0.1", str(port))
    try:
        with replica.sync_client() as client:
            wait_until(lambda: client.info("replication")["master_link_status"] == "up")
        transport = connect(primary.url, wait_replicas=1, wait_timeout_ms=2_000)
        assert transport.run(call("store", "f", "v")) == [b"1", b"v"]
        answers = transport.run_many([call("store", "f", "1"), call("store", "f", "2")])
        assert answers == [[b"1", b"1"], [b"1", b"2"]]
        started = time.monotonic()
        with pytest.raises(ServerReadOnly):
            connect(replica.url).run(call("store", "f", "v"))
        assert time.monotonic() - started < 1.0
        replica.pause()
        quick = connect(primary.url, wait_replicas=1, wait_timeout_ms=100)
        with pytest.raises(NotReplicated) as caught:
            quick.run(call("store", "f", "w"))
        assert caught.value.answer == [b"1", b"w"]
        replica.resume()
    finally:
        replica.close()
        primary.close()


def test_more_callers_than_connections_wait_for_each_other(engine: Engine, connect: Connect, keys: QueueKeys) -> None:
    transport = connect(engine.url, Limits(max_connections=2))
    answers: list[Any] = []

    def work(number: int) -> None:
        answers.append(transport.run(call("echo", number))[0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(answer) for answer in answers) == list(range(40))


def test_a_pool_that_stays_busy_is_a_clear_error(real_engine: Engine, connect: Connect, keys: QueueKeys) -> None:
    transport = connect(real_engine.url, Limits(max_connections=1, pool_wait_s=0.1))
    waiting = threading.Thread(target=transport.block, args=([keys.wake()], 2.0))
    waiting.start()
    time.sleep(0.1)
    with pytest.raises(ServerUnavailable):
        transport.block([keys.wake()], 0.1)
    waiting.join()
