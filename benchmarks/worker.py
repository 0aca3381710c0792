"""How fast one worker process is, with no-op async tasks and when idle: `python -m benchmarks.worker`.

Over TCP, the server on one core and this process, prepared as `redislease worker` prepares its own, on the other.
Each figure stands beside a plain client on the same server just before and after: a loop of SET for the throughput,
PING for the pickup.
"""

from __future__ import annotations

import time
from typing import Any

import redis

from benchmarks.counting import measured
from benchmarks.pickup import PAYLOAD, QUEUE, pickup
from benchmarks.report import medians, show
from benchmarks.server import BenchmarkServer, arguments
from benchmarks.throughput import sets_per_s
from redislease import Worker
from redislease.worker.process import calm_collector


def throughput(server: BenchmarkServer, client: redis.Redis, tasks: int, concurrency: int) -> dict[str, Any]:
    """Runs no-op tasks to their end."""
    client.flushall()
    left = tasks
    with server.queue(QUEUE) as queue:

        @queue.task(side_effect="read_only")
        async def nothing(data: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                worker.stop()

        nothing.enqueue_many([(PAYLOAD,)] * tasks)
        worker = Worker(queue, concurrency=concurrency)
        before = sets_per_s(client)
        used_s, begun = time.process_time(), time.perf_counter()
        with measured(client) as cost:
            worker.run()
            taken_s = time.perf_counter() - begun
        used_s = time.process_time() - used_s
        assert queue.stats().states["completed"] == tasks
    plain = (before + sets_per_s(client)) / 2
    return {
        "tasks / s": tasks / taken_s,
        "/ SET loop": tasks / taken_s / plain,
        "worker CPU us / task": used_s / tasks * 1e6,
        "server CPU us / task": cost.cpu_us / tasks,
        "script calls / task": cost.calls / tasks,
        "SET / s": plain,
    }


def main() -> None:
    """Prints two tables."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[100, 250])
    parser.add_argument("--pickups", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    calm_collector()
    with BenchmarkServer(options, tcp=True) as server, server.client() as client:
        rows = [
            {"handlers at once": at_once}
            | medians([throughput(server, client, options.tasks, at_once) for _ in range(options.runs)])
            for at_once in options.concurrency
        ]
        title = f"{options.tasks:,} no-op tasks, {server.description()}, medians of {options.runs}"
        show(title, rows, as_json=options.json)
        pickups = medians([pickup(server, client, server.port, options.pickups) for _ in range(options.runs)])
        show("pickup by an idle worker", [pickups], as_json=options.json)


if __name__ == "__main__":
    main()
