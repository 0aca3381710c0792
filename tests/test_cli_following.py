"""The verbs `watch` and `tail`, and what `stats --durations` makes of what was observed."""

from __future__ import annotations

import threading
import time

import pytest
from command_line import CommandLine
from virtual_clock import VirtualClock

from redislease.cli.following import bar
from redislease.flows.durations import advice
from redislease.queue import Queue

pytest_plugins = ["cli_fixtures"]


def test_watch_shows_what_is_running_and_how_far(cli: CommandLine, plain_queue: Queue) -> None:
    assert "nothing is running" in cli.expect(0, "watch", "--times", "1").out
    plain_queue.enqueue("first", side_effect="idempotent")
    plain_queue.enqueue("second", side_effect="idempotent")
    one, two = plain_queue.claim(2)
    one.progress(5, 10, "half\x1b[31m")
    out = cli.expect(0, "watch", "--times", "2", "--interval", "0.1").out
    assert out.count(one.id) == out.count(two.id) == 2
    assert "[##########..........]  50%" in out
    assert "\x1b" not in out
    lines = cli.expect(0, "watch", "--times", "1", "--jsonl").lines
    assert {line["task"]["id"] for line in lines} == {one.id, two.id}
    one.release()
    (again,) = plain_queue.claim()
    assert "50%" not in cli.expect(0, "watch", "--times", "1").out, "the progress of an earlier attempt"
    again.complete()


@pytest.mark.parametrize(
    ("done", "total", "shown"),
    [(3, None, "3"), (0, 10, f"[{'.' * 20}]   0%"), (10, 10, f"[{'#' * 20}] 100%"), (50, 10, f"[{'#' * 20}] 100%"),
     (-5, 10, f"[{'.' * 20}]   0%"), (1, 0, "1")],
)  # fmt: skip
def test_bars(done: float, total: float | None, shown: str) -> None:
    assert bar(done, total) == shown


def test_tail_tells_of_an_effect_as_it_happens(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("work", side_effect="idempotent").id

    def work() -> None:
        (lease,) = plain_queue.claim()
        with lease.effect("first") as first:
            time.sleep(0.3)
            lease.run_effect("second", lambda effect: time.sleep(0.3))
            first.record()
        time.sleep(0.3)
        lease.complete()

    thread = threading.Thread(target=work)
    thread.start()
    lines = cli.expect(0, "tail", task_id, "--interval", "0.05", "--jsonl").lines
    thread.join()
    told = [(line["event"], line.get("effect")) for line in lines]
    assert told == [
        ("intent", "first"),
        ("intent", "second"),
        ("outcome", "second"),
        ("outcome", "first"),
        ("completed", None),
        ("ended", None),
    ]


def test_tail_follows_a_task_to_its_end(cli: CommandLine, plain_queue: Queue) -> None:
    task_id = plain_queue.enqueue("work", side_effect="idempotent", max_attempts=2).id

    def work() -> None:
        (lease,) = plain_queue.claim()
        time.sleep(0.3)
        lease.progress(1, 2, "half")
        time.sleep(0.3)
        lease.fail("no luck", delay=0)
        time.sleep(0.3)
        (lease,) = plain_queue.claim(wait=5)
        lease.complete()

    thread = threading.Thread(target=work)
    thread.start()
    lines = cli.expect(0, "tail", task_id, "--interval", "0.05", "--jsonl").lines
    thread.join()
    told = [line["event"] for line in lines]
    assert told[-1] == "ended"
    assert [event for event in told if event in ("progress", "failed", "completed")] == [
        "progress",
        "failed",
        "completed",
    ]
    assert "completed" in cli.expect(0, "tail", task_id).out
    told = cli.expect(0, "tail", task_id, "--jsonl").lines
    assert [line["at"] for line in told] == sorted(line["at"] for line in told)
    cli.expect(4, "tail", "nobody")


@pytest.mark.usefixtures("virtual_time")
def test_durations_advise_on_the_lease(cli: CommandLine, engine: object, clock: VirtualClock, queue_name: str) -> None:
    assert "nothing was completed" in cli.expect(0, "stats", "--durations").out
    with Queue(queue_name, redis_url=cli.environment["REDISLEASE_URL"]) as queue:
        for seconds in (1, 2, 90):
            queue.enqueue("steady", side_effect="read_only")
            (lease,) = queue.claim()
            for _ in range(seconds // 20):
                clock.advance_ms(20_000)
                lease.renew()
            clock.advance_ms(seconds % 20 * 1000)
            lease.complete()
        queue.enqueue("jumpy", side_effect="read_only", lease_duration=10)
        (lease,) = queue.claim()
        clock.advance_ms(9_000)
        lease.renew()
        lease.complete()
    found = {line["name"]: line for line in cli.expect(0, "stats", "--durations", "--jsonl").lines}
    assert (found["steady"]["tasks"], found["steady"]["median_ms"], found["steady"]["longest_ms"]) == (3, 2_000, 90_000)
    assert found["steady"]["advice"].startswith("long enough")
    assert found["jumpy"]["longest_gap_ms"] == 9_000
    assert "too short" in found["jumpy"]["advice"]
    assert "take 36 s" in cli.expect(0, "stats", "--durations").out


def test_advice() -> None:
    assert advice(60_000, None).startswith("never renewed")
    assert advice(60_000, 25_000) == "fits"
    assert advice(60_000, 20_100).startswith("long enough")
    assert advice(60_000, 40_000).startswith("too short")
