"""How fast one worker process is: no-op async tasks, and how soon an idle worker begins a task.

Over TCP, the server on one core and this process on the other. Each figure stands beside a plain client on the same
server just before and after: a loop of SET for the throughput, PING for the pickup.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import statistics
import time
from typing import Any

import redis

from benchmarks.report import show
from benchmarks.server import BenchmarkServer, arguments
from redislease import Queue
from redislease.worker import Worker

PAYLOAD = "x" * 100
SETS = 3_000
PINGS = 1_000


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class WorkerBench:
    """Measures over one connection URL.

    Args:
        url: The server.
        client: A plain client of it.
    """

    def __init__(self, url: str, client: redis.Redis) -> None:
        self._url = url
        self._client = client

    def sets_per_s(self) -> float:
        """The yardstick of the throughput."""
        begun = time.perf_counter()
        for number in range(SETS):
            self._client.set(f"set:{number % 100}", PAYLOAD)
        return SETS / (time.perf_counter() - begun)

    def pings_s(self) -> list[float]:
        """The yardstick of the pickup: seconds of single PINGs."""
        taken = []
        for _ in range(PINGS):
            begun = time.perf_counter()
            self._client.ping()
            taken.append(time.perf_counter() - begun)
        return taken

    def server_cpu_s(self) -> float:
        """Seconds of CPU that the server has used."""
        found: Any = self._client.info("cpu")
        return float(found["used_cpu_user"] + found["used_cpu_sys"])

    def throughput(self, tasks: int, concurrency: int) -> dict[str, float]:
        """Runs no-op tasks to their end."""
        self._client.flushall()
        left = tasks
        with Queue("bench", redis_url=self._url) as queue:

            @queue.task(side_effect="read_only")
            async def nothing(data: str) -> None:
                nonlocal left
                left -= 1
                if not left:
                    worker.stop()

            nothing.enqueue_many([(PAYLOAD,)] * tasks)
            worker = Worker(queue, concurrency=concurrency)
            before = self.sets_per_s()
            used_s, server_s, begun = time.process_time(), self.server_cpu_s(), time.perf_counter()
            worker.run()
            taken_s = time.perf_counter() - begun
            used_s, server_s = time.process_time() - used_s, self.server_cpu_s() - server_s
            assert queue.stats().states["completed"] == tasks
        base = (before + self.sets_per_s()) / 2
        return {
            "tasks/s": tasks / taken_s,
            "SET/s": base,
            "ratio": tasks / taken_s / base,
            "worker µs CPU/task": used_s / tasks * 1e6,
            "server µs CPU/task": server_s / tasks * 1e6,
        }

    def pickup(self, tasks: int, core: int | None) -> dict[str, float]:
        """Enqueues one task at a time for an idle worker.

        Another process, on the server's core, enqueues; the clock runs from the answer that it gets to the handler's
        first line.
        """
        self._client.flushall()
        begun: list[float] = []
        answered: Any = multiprocessing.get_context("spawn").SimpleQueue()
        before = self.pings_s()
        with Queue("bench", redis_url=self._url) as queue:

            @queue.task(side_effect="read_only")
            async def nothing(data: str) -> None:
                begun.append(time.perf_counter())
                if len(begun) == tasks:
                    worker.stop()

            worker = Worker(queue)
            producer = multiprocessing.get_context("spawn").Process(
                target=produce, args=(self._url, tasks, core, answered), daemon=True
            )
            producer.start()
            worker.run()
            times = answered.get()
            producer.join()
        ping_s = statistics.median(before + self.pings_s())
        taken = [max(0.0, start - answer) for start, answer in zip(begun, times, strict=True)]
        return {
            "p50 ms": statistics.median(taken) * 1e3,
            "p99 ms": statistics.quantiles(taken, n=100)[98] * 1e3,
            "PING p50 ms": ping_s * 1e3,
            "p50 ÷ PING": statistics.median(taken) / ping_s,
        }


def produce(url: str, tasks: int, core: int | None, answered: Any) -> None:
    """Enqueues now and then, and tells when each was answered."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    times = []
    with Queue("bench", redis_url=url) as queue:
        time.sleep(0.5)
        for _ in range(tasks):
            queue.enqueue("nothing", {"data": PAYLOAD}, side_effect="read_only")
            times.append(time.perf_counter())
            time.sleep(0.01)
    answered.put(times)


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """The median of each column."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def main() -> None:
    """Prints two tables."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[100, 250])
    parser.add_argument("--pickups", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    port = free_port()
    with BenchmarkServer(options, "--port", str(port)) as server, redis.Redis(port=port) as client:
        bench = WorkerBench(f"redis://127.0.0.1:{port}", client)
        rows = [
            {"handlers at once": concurrency}
            | medians([bench.throughput(options.tasks, concurrency) for _ in range(options.runs)])
            for concurrency in options.concurrency
        ]
        show(
            f"{options.tasks:,} no-op tasks, {server.description()}, medians of {options.runs}",
            rows,
            as_json=options.json,
        )
        pickups = medians([bench.pickup(options.pickups, server.pinned) for _ in range(options.runs)])
        show("Pickup by an idle worker", [pickups], as_json=options.json)


if __name__ == "__main__":
    main()
