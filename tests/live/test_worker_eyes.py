"""What can be seen of a worker: metrics, health, and a line for each lease event."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from typing import Any

import pytest
from program import one_server
from servers import free_port, wait_until
from working import statuses, wait_status, working

from redislease import AsyncLease, InvalidInput, Queue
from redislease.health import HealthServer, address
from redislease.reaper import Reaper
from redislease.worker.observer import Observer


def ask(port: int, path: str) -> tuple[int, str]:
    """The code and the body of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def test_metrics_and_health_of_a_worker(queue: Queue) -> None:
    pytest.importorskip("prometheus_client")
    port = free_port()

    @queue.task(side_effect="idempotent", max_attempts=1, lease_duration=0.3)
    async def works(lease: AsyncLease, how: str) -> None:
        if how == "raises":
            raise ValueError
        await asyncio.sleep(60 if how == "hangs" else 0.5)

    ids = [works.enqueue(how).id for how in ("returns", "raises", "hangs")]
    with working(queue, listen=str(port)):
        wait_until(lambda: statuses(queue, *ids) == ["completed", "dead", "leased"])
        queue.cancel(ids[2], by="me", reason="enough")
        wait_until(lambda: "redislease_losses_total{" in ask(port, "/metrics")[1], 5)
        code, text = ask(port, "/metrics")
        assert ask(port, "/healthz") == (200, json.dumps({queue.name: "ok"}))
        assert ask(port, "/else")[0] == 404
    assert code == 200
    label = f'queue="{queue.name}"'
    for line in (
        f"redislease_claims_total{{{label}}} 3.0",
        f'redislease_endings_total{{{label},status="completed",verb="complete"}} 1.0',
        f'redislease_endings_total{{{label},status="dead",verb="fail"}} 1.0',
        f'redislease_losses_total{{{label},reason="cancelled"}} 1.0',
        f'redislease_tasks{{{label},state="completed"}} 1.0',
        f'redislease_tasks{{{label},state="cancelled"}} 1.0',
        f"redislease_queue_up{{{label}}} 1.0",
        f"redislease_oldest_expired_lease_seconds{{{label}}} 0.0",
        f'redislease_handler_seconds_count{{name="works",{label}}} 3.0',
    ):
        assert line in text, text
    left = float(next(row for row in text.splitlines() if "left_at_renewal_seconds_sum" in row).split()[-1])
    count = float(next(row for row in text.splitlines() if "left_at_renewal_seconds_count" in row).split()[-1])
    assert count >= 2
    assert 0 < left / count <= 0.3


def test_recoveries_are_counted_by_class_and_decision(queue: Queue) -> None:
    metrics_module = pytest.importorskip("redislease.metrics")
    for side_effect in ("idempotent", "non_idempotent"):
        queue.enqueue("work", side_effect=side_effect, lease_duration=0.1)
    queue.claim(2)
    reaper = Reaper([queue])
    metrics = metrics_module.Metrics(reaper.queues)
    reaper._on_recovery = metrics.recovered
    wait_until(lambda: reaper.step() and queue.stats().counters["expired"] == 2)
    text = metrics.text().decode()
    for side_effect, status in (("idempotent", "ready"), ("non_idempotent", "reconciling")):
        labels = f'cause="expired",queue="{queue.name}",side_effect="{side_effect}",status="{status}"'
        assert f"redislease_recoveries_total{{{labels}}} 1.0" in text
    assert f'redislease_oldest_reconciling_age_seconds{{queue="{queue.name}"}}' in text


def test_health_asks_on_the_path_of_a_claim() -> None:
    """A server that answers PING and refuses claims is not healthy; a paused queue is."""
    with one_server() as engine:
        server = engine.start_extra()
        with (
            Queue("health", redis_url=server.url, retry_for_s=0.1) as queue,
            server.sync_client() as client,
            HealthServer(("127.0.0.1", 0), lambda: [queue]) as health,
        ):
            assert ask(health.port, "/healthz")[0] == 200
            assert ask(health.port, "/metrics")[0] == 404
            queue.pause(by="me", reason="test")
            assert ask(health.port, "/healthz")[0] == 200
            client.hset(queue.keys.meta, "layout", "99")
            code, body = ask(health.port, "/healthz")
            assert (code, "layout 99" in body) == (503, True)
            client.hset(queue.keys.meta, "layout", "1")
            server.kill()
            assert ask(health.port, "/healthz")[0] == 503
            server.start()
            assert ask(health.port, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [("9100", ("127.0.0.1", 9100)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:80", ("::1", 80))],
)
def test_addresses(text: str, expected: Any) -> None:
    assert address(text) == expected
    for wrong in ("", "host", "host:", "host:99999", "host:-1", "host:８０"):
        with pytest.raises(InvalidInput):
            address(wrong)


def test_a_line_for_each_lease_event_never_the_payload(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "redislease")

    @queue.task(side_effect="idempotent", name="a name")
    async def works(secret: str) -> str:
        return secret

    task = works.enqueue("hunter2")
    with working(queue):
        wait_status(queue, task.id, "completed")
    events = [record.redislease for record in caplog.records if record.name == "redislease.events"]  # type: ignore[attr-defined]
    assert [one["event"] for one in events] == ["claimed", "ended"]
    assert events[1] | {"token": 0, "owner": ""} == {
        "event": "ended", "queue": queue.name, "task": task.id, "name": "a name", "generation": 1, "token": 0,
        "owner": "", "verb": "complete", "status": "completed",
    }  # fmt: skip
    assert "name='a name'" in caplog.text
    assert "hunter2" not in caplog.text


def test_observers_see_what_happens(queue: Queue) -> None:
    seen: list[tuple[str, str]] = []

    class Notes(Observer):
        def claimed(self, lease: Any) -> None:
            seen.append(("claimed", lease.id))

        def ended(self, lease: Any, verb: str, status: str) -> None:
            seen.append((verb, status))

        def handled(self, lease: Any, seconds: float) -> None:
            seen.append(("handled", f"{seconds < 5}"))

    @queue.task(side_effect="idempotent")
    def works() -> None:
        pass

    task = works.enqueue()
    with working(queue, observers=[Notes()]):
        wait_status(queue, task.id, "completed")
    assert seen == [("claimed", task.id), ("handled", "True"), ("complete", "completed")]
