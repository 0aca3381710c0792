"""What a mass expiry does to everybody else: `python -m benchmarks.recovery`.

So many leases end at one instant and so many tasks become due, while a reaper recovers them and a worker claims and
completes, one by one, what was ready all along. Server time is what the server's own log says of each call.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import redis

from benchmarks import work
from benchmarks.report import Row, show
from benchmarks.server import BenchmarkServer, arguments
from redislease import EnqueueRequest, Queue
from redislease.scripts import ScriptLibrary

LOG_LENGTH = 1_000_000


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of all stays below."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def row(name: str, values: Sequence[float], server_us: Sequence[float]) -> Row:
    """One line of the table."""
    return {
        "calls of": name,
        "number": len(values),
        "p50 ms": percentile(values, 0.5) * 1000,
        "p99.9 ms": percentile(values, 0.999) * 1000,
        "longest ms": max(values) * 1000,
        "server p99.9 ms": percentile(server_us, 0.999) / 1000,
        "server longest ms": max(server_us) / 1000,
    }


def server_times_us(client: redis.Redis, library: ScriptLibrary) -> dict[str, list[float]]:
    """Microseconds of every script call since the log was emptied, by script."""
    names = {library[name].sha.encode(): name for name in library.names()}
    times: dict[str, list[float]] = {}
    for entry in client.slowlog_get(LOG_LENGTH):
        words = entry["command"].split(b" ")
        if words[0].upper() == b"EVALSHA" and words[1] in names:
            times.setdefault(names[words[1]], []).append(entry["duration"])
    return times


def timed_claims(queue: Queue, seconds: float) -> Iterator[float]:
    """Claims and completes one by one for a while; yields the seconds that each claim took."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        started = time.perf_counter()
        leases = queue.claim(1)
        yield time.perf_counter() - started
        work.complete_all(queue, leases)


def reap_all(url: str, limit: int, answers: Any) -> None:
    """Recovers and promotes until nothing is left; answers the seconds of each call."""
    taken: list[float] = []
    with Queue("orders", redis_url=url) as queue:
        queue.stats()
        answers.put("ready")
        while True:
            started = time.perf_counter()
            reaped = queue.reap(limit)
            taken.append(time.perf_counter() - started)
            if not reaped.more:
                break
    answers.put(taken)


def set_the_scene(queue: Queue, leases: int, due: int) -> float:
    """Leases that end and tasks that become due at one instant; answers how many seconds from now that is."""
    started = time.monotonic()
    estimate_s = 3.0 + (leases + due) / 4_000
    work.fill(queue, leases, lease_duration=estimate_s)
    at = datetime.now(UTC) + timedelta(seconds=estimate_s)
    one = EnqueueRequest(name="work", payload=work.PAYLOAD, side_effect="idempotent", at=at)
    for first in range(0, due, 10_000):
        queue.enqueue_many([one] * min(10_000, due - first))
    for _ in range(0, leases, 1_000):
        queue.claim(1_000)
    if (late_s := time.monotonic() - started - estimate_s) > 0:
        raise SystemExit(f"this machine is too slow for so many: {late_s:.1f} s late")
    # The last leases were claimed just now.
    return estimate_s + 0.05


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--leases", type=int, default=50_000)
    parser.add_argument("--due", type=int, default=100_000)
    parser.add_argument("--ready", type=int, default=40_000, help="tasks that wait with a higher priority")
    parser.add_argument("--limit", type=int, default=100, help="of each call of the reaper")
    parser.add_argument("--quiet-seconds", type=float, default=3.0, help="how long to measure claims alone")
    options = parser.parse_args()
    # As for a real fleet, the server's log is off while the scene is set.
    config = ("--slowlog-log-slower-than", "-1", "--slowlog-max-len", str(LOG_LENGTH))
    with BenchmarkServer(options, *config) as server, server.client() as client, server.queue() as queue:
        pause_s = set_the_scene(queue, options.leases, options.due)
        urgent = EnqueueRequest(name="work", payload=work.PAYLOAD, side_effect="idempotent", priority=50)
        for first in range(0, options.ready, 10_000):
            queue.enqueue_many([urgent] * min(10_000, options.ready - first))
        alone = measured_alone(client, server, options, pause_s)
        rows = [*alone, *measured_together(client, server, options)]
        title = (
            f"{options.leases:,} leases end and {options.due:,} tasks become due at once, {server.description()}; "
            f"reap({options.limit})"
        )
        show(title, rows, as_json=options.json)


def measured_alone(client: redis.Redis, server: BenchmarkServer, options: Any, pause_s: float) -> list[Row]:
    """Claims in a queue of their own before anything expires."""
    with server.queue("quiet") as quiet:
        work.fill(quiet, 20_000)
        client.slowlog_reset()
        client.config_set("slowlog-log-slower-than", 0)
        taken = list(timed_claims(quiet, options.quiet_seconds))
        times = server_times_us(client, quiet._library)
    client.config_set("slowlog-log-slower-than", -1)
    client.slowlog_reset()
    time.sleep(pause_s)
    return [row("claim(1), nothing expires", taken, times["claim"])]


def measured_together(client: redis.Redis, server: BenchmarkServer, options: Any) -> list[Row]:
    """Claims and the reaper at the same time."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    reaper = context.Process(target=reap_all, args=(server.url, options.limit, answers))
    with server.queue() as queue:
        before = queue.stats()
        client.config_set("slowlog-log-slower-than", 0)
        reaper.start()
        answers.get(timeout=60)
        claims: list[float] = []
        started = time.perf_counter()
        reaps: list[float] = []
        while not reaps:
            claims += timed_claims(queue, 0.1)
            if not answers.empty():
                reaps = answers.get()
        took_s = time.perf_counter() - started
        client.config_set("slowlog-log-slower-than", -1)
        reaper.join()
        after = queue.stats()
        times = server_times_us(client, queue._library)
    assert after.expired == after.overdue == 0
    moved = before.expired + before.overdue
    assert after.counters["expired"] + after.counters["promoted"] == options.leases + options.due
    return [
        row("claim(1) meanwhile", claims, times["claim"]),
        row(f"reap: {moved:,} tasks in {took_s:.1f} s", reaps, times["reap"]),
    ]


if __name__ == "__main__":
    main()
