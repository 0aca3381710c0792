"""The reaper: it recovers with a reason, promotes, purges, sleeps in between, and any number may run at once."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from program import one_server
from servers import Engine, wait_until
from virtual_clock import VirtualClock, virtual_library
from working import assert_whole

from redislease import ConfigurationError, InvalidInput, Queue
from redislease.keys import QueueKeys
from redislease.models import Recovery
from redislease.reaper import Reaper, Retention


@contextmanager
def reaping(*reapers: Reaper) -> Iterator[None]:
    """Reapers in threads, stopped behind the block."""
    threads = [threading.Thread(target=one.run, daemon=True) for one in reapers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for one in reapers:
            one.stop()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def abandon(queue: Queue, amount: int, **options: Any) -> list[str]:
    """Tasks whose worker is gone."""
    for _ in range(amount):
        queue.enqueue("work", **{"side_effect": "idempotent", "lease_duration": 0.3, **options})
    return [lease.id for lease in queue.claim(amount)]


def test_recoveries_say_why(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "redislease.reaper")
    again, doubtful = abandon(queue, 1) + abandon(queue, 1, side_effect="non_idempotent")
    seen: list[Recovery] = []
    with reaping(Reaper([queue], on_recovery=lambda name, one: seen.append(one))):
        wait_until(lambda: len(seen) == 2, 5)
    assert {one.id: (one.cause, one.status, one.side_effect) for one in seen} == {
        again: ("expired", "ready", "idempotent"),
        doubtful: ("expired", "reconciling", "non_idempotent"),
    }
    lines = [record.getMessage() for record in caplog.records if "recovered" in record.getMessage()]
    assert len(lines) == 2
    assert f"task={again} side_effect=idempotent cause=expired to=ready generation=1" in " ".join(lines)
    recovered = next(record for record in caplog.records if "recovered" in record.getMessage())
    assert recovered.redislease["event"] == "recovered"  # type: ignore[attr-defined]


def test_its_first_line_says_what_it_looks_after(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "redislease.reaper")
    for retention, words in (
        (Retention(), "completed=3600 cancelled=604800 dead=never evidence=2592000"),
        (Retention(completed=None, dead=90.5), "completed=never cancelled=604800 dead=90.5 evidence=2592000"),
        (None, "purge=no"),
    ):
        caplog.clear()
        with reaping(Reaper([queue], retention=retention, limit=7)):
            wait_until(lambda: caplog.records, 5)
        assert caplog.records[0].getMessage() == f"started queues={queue.name} limit=7 {words}"
        event = caplog.records[0].redislease  # type: ignore[attr-defined]
        assert (event["event"], event["queues"], event["limit"]) == ("started", [queue.name], 7)


def test_a_queue_that_appears_later_is_told(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "redislease.reaper")
    listed: list[Queue] = []
    working = Reaper(lambda: listed)
    with reaping(working):
        wait_until(lambda: caplog.records, 5)
        listed.append(queue)
        wait_until(lambda: len(caplog.records) == 2, 5)
    assert [record.getMessage().partition(" limit")[0] for record in caplog.records] == [
        "started queues=none",
        f"looks after queue={queue.name} too",
    ]


def test_several_reapers_recover_each_lease_once(server: Engine, queue: Queue) -> None:
    ids = abandon(queue, 300)
    counted: Counter[str] = Counter()
    lock = threading.Lock()

    def count(_: str, one: Recovery) -> None:
        with lock:
            counted[one.id] += 1

    queues = [Queue(queue.name, redis_url=server.url) for _ in range(4)]
    with reaping(*(Reaper([one], limit=7, on_recovery=count) for one in queues)):
        wait_until(lambda: queue.stats().states["ready"] == 300, 10)
    for one in queues:
        one.close()
    assert counted == dict.fromkeys(ids, 1)


def test_due_tasks_are_promoted(queue: Queue) -> None:
    queue.enqueue("work", side_effect="read_only", delay=0.4)
    with reaping(Reaper([queue])):
        wait_until(lambda: queue.stats().states["ready"] == 1, 3)


def test_an_idle_reaper_asks_for_little(server: Engine, queue: Queue) -> None:
    queue.enqueue("work", side_effect="read_only", delay=600)
    with server.sync_client() as client, reaping(Reaper([queue])):
        time.sleep(0.3)
        before: Any = client.info("commandstats")
        time.sleep(3.0)
        after: Any = client.info("commandstats")
    assert after["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"] <= 2 * 3


def test_retentions(server: Engine, queue_name: str) -> None:
    with Queue(queue_name, redis_url=server.url, scripts=virtual_library()) as queue, server.sync_client() as client:
        clock = VirtualClock(client, QueueKeys(queue_name))
        clock.set_ms()
        for name in ("completed", "cancelled", "dead", "kept"):
            queue.enqueue(name, side_effect="idempotent", task_id=name)
        leases = {lease.id: lease for lease in queue.claim(3)}
        leases["completed"].complete("result")
        leases["dead"].fail("no", retry=False)
        queue.cancel("cancelled", by="me", reason="test")
        reaper = Reaper([queue], retention=Retention(completed=0, cancelled=3_600, dead=7_200, evidence=0))
        for step_ms, left in ((59_000, 4), (2_000, 3), (3_600_000, 2), (3_600_000, 1)):
            clock.advance_ms(step_ms)
            reaper._watches.clear()
            reaper.step()
            assert sum(queue.stats().states.values()) == left
        assert_whole(server, queue)


def test_retentions_are_checked() -> None:
    with pytest.raises(InvalidInput):
        Retention(completed=-1)
    with pytest.raises(InvalidInput):
        Retention(evidence=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        Reaper([])


def test_a_server_that_is_away_is_tried_again() -> None:
    with one_server() as engine:
        server = engine.start_extra("--appendonly", "yes", "--appendfsync", "always")
        with Queue("away", redis_url=server.url, retry_for_s=0.2) as queue:
            abandon(queue, 3)
            seen: list[Recovery] = []
            with reaping(Reaper([queue], on_recovery=lambda _, one: seen.append(one))):
                server.kill()
                time.sleep(0.5)
                server.start()
                wait_until(lambda: len(seen) == 3, 5)


# As a process


def start(url: str, *arguments: str) -> subprocess.Popen[str]:
    """`redislease reaper`."""
    command = [sys.executable, "-m", "redislease.cli", "--url", url, "reaper", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REDISLEASE_")}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def test_the_program_looks_after_every_queue(server: Engine, queue_name: str) -> None:
    """Also after one that is there only later, and until it is told to stop."""
    queues = [Queue(f"{queue_name}-{number}", redis_url=server.url) for number in range(2)]
    process = start(server.url, "--all", "--completed", "0")
    try:
        for queue in queues:
            abandon(queue, 2)
        wait_until(lambda: [queue.stats().states["ready"] for queue in queues] == [2, 2], 20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert process.stderr
        assert process.stderr.read().count("recovered queue=") >= 4
    finally:
        process.kill()
        process.communicate()
        for queue in queues:
            queue.close()


def test_a_killed_reaper_hinders_nobody(queue: Queue, server: Engine) -> None:
    abandon(queue, 200)
    process = start(server.url, "--queue", queue.name, "--limit", "1")
    wait_until(lambda: queue.stats().states["ready"] >= 1, 20)
    process.kill()
    process.communicate()
    with reaping(Reaper([queue])):
        wait_until(lambda: queue.stats().states["ready"] == 200, 5)


@pytest.mark.parametrize("arguments", [[], ["--all", "--queue", "x"], ["--queue", "x", "--completed", "soon"]])
def test_mistakes_on_the_command_line(server: Engine, arguments: list[str]) -> None:
    process = start(server.url, *arguments)
    _, told = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "Traceback" not in told
