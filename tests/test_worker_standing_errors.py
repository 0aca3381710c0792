"""A claim behind the bell that ends in an error: the worker claims again in the ordinary way, and not in a hot loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from servers import Engine, free_port, wait_until
from standing import standing, wait_asleep
from working import Running, assert_whole, elapsed_s, statuses, wait_status, working

from redislease import LayoutMismatch, Queue, Worker


@pytest.fixture
def queue(real_engine: Engine, queue_name: str) -> Iterator[Queue]:
    """A queue by the server's clock, whose keys are checked behind the test."""
    with Queue(queue_name, redis_url=real_engine.url) as opened:
        yield opened
        assert_whole(real_engine, opened)


def test_scripts_forgotten_while_it_stands(queue: Queue, real_engine: Engine) -> None:
    @queue.task(side_effect="read_only")
    async def note() -> None:
        pass

    with working(queue) as running, real_engine.sync_client() as client:
        for _ in range(3):
            wait_asleep(running)
            client.script_flush()
            begun = time.monotonic()
            wait_status(queue, note.enqueue().id, "completed", 5)
            assert elapsed_s(begun) < 1


def test_an_identity_purged_while_it_stands(queue: Queue, real_engine: Engine) -> None:
    @queue.task(side_effect="read_only")
    async def note() -> None:
        pass

    with working(queue) as running, real_engine.sync_client() as client:
        for _ in range(3):
            wait_asleep(running)
            trip = standing(running)
            assert trip
            assert trip.claim
            client.delete(queue.keys.worker(trip.claim.owner))
            client.zrem(queue.keys.workers, trip.claim.owner)
            begun = time.monotonic()
            wait_status(queue, note.enqueue().id, "completed", 5)
            assert elapsed_s(begun) < 1


def test_connections_killed_while_it_stands(queue: Queue, real_engine: Engine) -> None:
    @queue.task(side_effect="read_only")
    async def note() -> None:
        pass

    with working(queue) as running, real_engine.sync_client() as client:
        for _ in range(3):
            wait_asleep(running)
            client.client_kill_filter(_type="normal", skipme=True)
            begun = time.monotonic()
            wait_status(queue, note.enqueue().id, "completed", 5)
            assert elapsed_s(begun) < 1.5


def test_a_layout_that_changes_while_it_stands_ends_the_worker(real_engine: Engine, queue_name: str) -> None:
    with Queue(queue_name, redis_url=real_engine.url) as queue, real_engine.sync_client() as client:
        queue.add_task(lambda: None, name="works", side_effect="read_only")
        running = Running(Worker(queue, signals=False))
        wait_asleep(running)
        client.hset(queue.keys.meta, "layout", "99")
        client.zadd(queue.keys.wake(), {"wake": 0})
        with pytest.raises(LayoutMismatch):
            running.join(10)


def test_a_server_that_becomes_a_replica_for_a_while(real_engine: Engine, queue_name: str) -> None:
    server = real_engine.start_extra()
    with Queue(queue_name, redis_url=server.url) as queue, server.sync_client() as client:

        @queue.task(side_effect="read_only")
        async def note() -> None:
            pass

        with working(queue) as running:
            wait_asleep(running)
            client.replicaof("127.0.0.1", "1")
            time.sleep(1.0)
            before: Any = client.info("commandstats")
            time.sleep(2.0)
            after: Any = client.info("commandstats")
            names = ("cmdstat_evalsha", "cmdstat_bzpopmin")
            asked = sum(after[one]["calls"] - before[one]["calls"] for one in names)
            refused = sum(after[one].get("rejected_calls", 0) - before[one].get("rejected_calls", 0) for one in names)
            assert asked + refused < 30, "a hot loop"
            client.replicaof("no", "one")
            wait_status(queue, note.enqueue().id, "completed", 5)
    server.close()


def test_a_server_that_restarts_while_it_stands(real_engine: Engine, queue_name: str) -> None:
    server = real_engine.start_extra("--appendonly", "yes")
    with Queue(queue_name, redis_url=server.url) as queue:

        @queue.task(side_effect="read_only")
        async def note() -> None:
            pass

        with working(queue) as running:
            for _ in range(2):
                wait_asleep(running)
                server.kill()
                server.start()
                wait_status(queue, note.enqueue().id, "completed", 5)
    server.close()


@pytest.mark.parametrize("command", ["bzpopmin", "evalsha"])
def test_a_command_that_the_user_may_not_use(real_engine: Engine, queue_name: str, command: str) -> None:
    """Without its bell a worker claims now and then; a claim that is refused is repeated until it is allowed."""
    server = real_engine.start_extra()
    with Queue(queue_name, redis_url=server.url) as queue, server.sync_client() as client:

        @queue.task(side_effect="read_only")
        async def note() -> None:
            pass

        with working(queue) as running:
            wait_asleep(running)
            task = None
            client.acl_setuser("default", enabled=True, nopass=True, keys="*", commands=["+@all", f"-{command}"])
            client.config_resetstat()
            time.sleep(2.0)
            if command == "bzpopmin":
                task = note.enqueue()
                wait_status(queue, task.id, "completed", 5)
            stats: Any = client.info("commandstats")
            for name in ("cmdstat_bzpopmin", "cmdstat_evalsha"):
                counted = stats.get(name, {})
                assert counted.get("calls", 0) + counted.get("rejected_calls", 0) < 50, "a hot loop"
            client.acl_setuser("default", enabled=True, nopass=True, keys="*", commands=["+@all"])
            wait_status(queue, note.enqueue().id, "completed", 5)
    server.close()


def test_an_exhausted_fence_is_no_hot_loop(real_engine: Engine, queue_name: str) -> None:
    with Queue(queue_name, redis_url=real_engine.url) as queue, real_engine.sync_client() as client:

        @queue.task(side_effect="read_only")
        async def note() -> None:
            pass

        with working(queue, grace=0) as running:
            wait_asleep(running)
            usual = client.hget(queue.keys.meta, "fence")
            client.hset(queue.keys.meta, "fence", str(2**53 - 1))
            task = note.enqueue()
            time.sleep(0.3)
            client.config_resetstat()
            time.sleep(2.0)
            stats: Any = client.info("commandstats")
            assert stats["cmdstat_evalsha"]["calls"] < 20
            assert statuses(queue, task.id) == ["ready"]
            client.hset(queue.keys.meta, "fence", usual or b"0")
            wait_status(queue, task.id, "completed", 5)


def test_what_no_replica_confirms_is_given_back(real_engine: Engine, queue_name: str) -> None:
    ran: list[int] = []
    settings: dict[str, Any] = {"redis_url": real_engine.url, "wait_replicas": 1, "wait_timeout_ms": 50}
    with Queue(queue_name, **settings) as queue, Queue(queue_name, redis_url=real_engine.url) as plain:

        @queue.task(side_effect="idempotent")
        async def note() -> None:
            ran.append(1)

        with working(queue) as running:
            wait_asleep(running)
            task = plain.enqueue("note", {}, side_effect="idempotent")
            wait_until(lambda: plain.get(task.id).claim_generation >= 2, 10)
        assert ran == []
        assert plain.stats().states["leased"] == 0
        assert plain.get(task.id).attempts == 0


def test_a_replica_confirms_it(real_engine: Engine, queue_name: str) -> None:
    """The wait for replicas stands behind the claim, on the same connection."""
    port = free_port()
    primary = real_engine.start_extra("--port", str(port), "--repl-diskless-sync-delay", "0")
    replica = real_engine.start_extra("--replicaof", "127.0.0.1", str(port))
    ran: list[int] = []
    with (
        Queue(queue_name, redis_url=primary.url, wait_replicas=1, wait_timeout_ms=2_000) as queue,
        primary.sync_client() as client,
    ):
        wait_until(lambda: client.info("replication")["connected_slaves"] == 1 and client.wait(1, 100) == 1)

        @queue.task(side_effect="idempotent")
        async def note() -> None:
            ran.append(1)

        with working(queue) as running:
            for _ in range(3):
                wait_asleep(running)
                begun = time.monotonic()
                task = note.enqueue()
                wait_status(queue, task.id, "completed", 5)
                assert elapsed_s(begun) < 1.5
                assert queue.get(task.id).claim_generation == 1
    replica.close()
    primary.close()
