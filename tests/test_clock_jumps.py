"""G8: only the server's clock decides; what its jumps do to leases, and that clocks of clients do nothing at all.

The server's own clock is moved by libfaketime where both are there; `test_holding` does the same on a clock of our own,
on every engine.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from command_line import CommandLine
from keyspace import Keyspace
from servers import Engine, ServerProcess, first_program, missing
from virtual_clock import VirtualClock

from redislease import LeaseLost, Queue, local_clock
from redislease.keys import QueueKeys

HOUR_S = 3_600
SETTLES_S = 0.2
"""How long a server may take to see that its clock was moved."""

HANGS = {"redis-7.0"}
"""Debian's Redis hangs at start under libfaketime."""


def libfaketime() -> str:
    """The library; where it is missing the test is skipped, and fails on CI."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        missing("libfaketime")
    return str(found[0])


@dataclass
class Movable:
    """A server whose clock can be moved."""

    server: ServerProcess
    offset: Path

    def move_to(self, offset_s: int) -> None:
        """Sets how far its clock is off, in seconds."""
        self.offset.write_text(f"{offset_s:+d}\n")
        time.sleep(SETTLES_S)


@pytest.fixture
def movable(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Movable]:
    if not engine.is_real or engine.name in HANGS:
        pytest.skip("libfaketime does not work with it")
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    with monkeypatch.context() as environment:
        environment.setenv("LD_PRELOAD", libfaketime())
        environment.setenv("FAKETIME_TIMESTAMP_FILE", str(offset))
        environment.setenv("FAKETIME_NO_CACHE", "1")
        environment.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        server = engine.start_extra()
    yield Movable(server, offset)
    server.close()


@pytest.fixture
def queue(movable: Movable, queue_name: str) -> Iterator[Queue]:
    with Queue(queue_name, redis_url=movable.server.url, worker_name="w") as opened:
        yield opened
        with movable.server.sync_client() as client:
            assert Keyspace(client, opened.keys).problems() == []


def leases_of(queue: Queue, amount: int, **options: Any) -> list[Any]:
    queue.enqueue_many([{"name": "work", "side_effect": "idempotent", **options} for _ in range(amount)])
    return queue.claim(amount)


def test_an_hour_forwards_ends_each_lease_once(movable: Movable, queue: Queue) -> None:
    leases = leases_of(queue, 40)
    later = queue.enqueue("later", side_effect="idempotent", delay=1_800)
    movable.move_to(HOUR_S)
    recovered: list[str] = []

    def reap() -> None:
        with Queue(queue.name, redis_url=movable.server.url) as mine:
            for _ in range(5):
                recovered.extend(one.id for one in mine.reap(10).recovered)

    reapers = [threading.Thread(target=reap) for _ in range(4)]
    for reaper in reapers:
        reaper.start()
    for reaper in reapers:
        reaper.join()
    assert sorted(recovered) == sorted(lease.id for lease in leases)
    assert queue.get(later.id).status == "ready"
    for lease in leases:
        with pytest.raises(LeaseLost, match="expired"):
            lease.complete()
    again = queue.claim(100)
    assert {lease.generation for lease in again} == {1, 2}
    assert min(lease.fencing_token for lease in again) > max(lease.fencing_token for lease in leases)


def test_an_hour_backwards_shortens_nothing(movable: Movable, queue: Queue) -> None:
    leases = leases_of(queue, 10)
    movable.move_to(-HOUR_S)
    assert queue.reap().recovered == []
    with Queue(queue.name, redis_url=movable.server.url) as other:
        assert other.claim(10) == []
    for lease in leases[:5]:
        renewed = lease.renew()
        assert 59_000 <= renewed.remaining_ms <= 60_000
    queue.complete_many([(lease, None) for lease in leases])
    assert queue.stats().states["completed"] == 10
    (after,) = leases_of(queue, 1)
    assert after.fencing_token > max(lease.fencing_token for lease in leases)
    after.complete()


def test_back_and_forth(movable: Movable, queue: Queue) -> None:
    """Renewed after the step back, a lease is not an hour longer: forwards again it ends as it should."""
    (lease,) = leases_of(queue, 1)
    movable.move_to(-HOUR_S)
    lease.renew()
    movable.move_to(-HOUR_S + 50)
    assert lease.renew().remaining_ms >= 59_000
    movable.move_to(-HOUR_S + 180)
    with pytest.raises(LeaseLost, match="expired"):
        lease.renew()
    assert [one.cause for one in queue.reap().recovered] == ["expired"]


def test_max_runtime_after_a_step_back(movable: Movable, queue: Queue) -> None:
    """The cap is a moment of the server's clock; a step back never lets a lease pass it."""
    (lease,) = leases_of(queue, 1, max_runtime=90)
    movable.move_to(-HOUR_S)
    assert lease.renew().expires_at <= lease.task.runtime_deadline
    movable.move_to(HOUR_S)
    with pytest.raises(LeaseLost):
        lease.renew()
    assert len(queue.reap().recovered) == 1


# The clocks of clients


@pytest.mark.parametrize("offset", ["+3600", "-3600", "2020-01-01 00:00:00"])
def test_a_client_whose_clock_is_wrong(real_engine: Engine, queue_name: str, offset: str) -> None:
    """A whole process an hour ahead, an hour behind, or standing still: its tasks and leases are like all others."""
    if real_engine.name != first_program():
        pytest.skip("what a client sends is the same to every engine")
    cli = CommandLine(real_engine.url, queue_name)
    environment = cli.process_environment(LD_PRELOAD=libfaketime(), FAKETIME=offset, FAKETIME_DONT_FAKE_MONOTONIC="1")
    with Queue(queue_name, redis_url=real_engine.url) as right:

        def run(*arguments: str) -> str:
            started = cli.start(*arguments, env=environment, stdout=subprocess.PIPE)
            out, _ = started.communicate(timeout=60)
            assert started.returncode == 0
            return out.decode()

        now_s = datetime.now(UTC).timestamp()
        task_id = run("enqueue", "work", "--side-effect", "idempotent", "--lease", "30").strip()
        assert abs(right.get(task_id).created_at / 1000 - now_s) < 60
        later_id = run("enqueue", "later", "--side-effect", "idempotent", "--delay", "100").strip()
        assert 90 < right.get(later_id).available_at / 1000 - now_s < 160
        lease = json.loads(run("claim"))
        assert lease["id"] == task_id
        task = right.get(task_id)
        assert 0 < task.lease_expires_at - right.stats().now <= 30_000
        assert right.reap().recovered == []


def test_a_client_whose_clocks_stand_still(
    engine: Engine,
    queue_name: str,
    library: Any,
    redis_client: redis.Redis,
    keys: QueueKeys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The guard is not in the client: one that believes that no time has passed is refused all the same."""
    clock = VirtualClock(redis_client, keys)
    clock.set_ms()
    with (
        Queue(queue_name, redis_url=engine.url, scripts=library, worker_name="frozen") as frozen,
        Queue(queue_name, redis_url=engine.url, scripts=library, worker_name="other") as other,
    ):
        frozen.enqueue("work", side_effect="idempotent")
        now_s = local_clock.elapsed_s()
        monkeypatch.setattr(local_clock, "elapsed_s", lambda: now_s)
        (lease,) = frozen.claim()
        clock.advance_ms(60_001)
        lease.check()
        (theirs,) = other.claim()
        assert lease.remaining == pytest.approx(60)
        for verb in (lease.renew, lease.complete, lease.release, lambda: lease.fail("x"), lambda: lease.progress(1)):
            with pytest.raises(LeaseLost, match="reclaimed"):
                verb()
        theirs.complete("theirs")
        assert frozen.result(theirs.id) == "theirs"


def test_no_clock_of_a_client_is_sent(engine: Engine, queue_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the date that the user chose, and the id of a new task, which orders nothing."""
    with Queue(queue_name, redis_url=engine.url) as queue:
        queue.enqueue("work", side_effect="idempotent", task_id="t")
        monkeypatch.setattr(time, "time", lambda: 0.0)
        monkeypatch.setattr(time, "time_ns", lambda: 0)
        queue.enqueue("work", side_effect="idempotent", delay=5, task_id="u")
        first, second = queue.get("t"), queue.get("u")
        if engine.is_real:
            assert 0 <= second.created_at - first.created_at < 10_000
            assert second.available_at == second.created_at + 5_000
            queue.claim()[0].complete()
