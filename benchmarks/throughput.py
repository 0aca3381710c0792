"""Tasks a second, as a ratio to a loop of SET just before and after: `python -m benchmarks.throughput`.

Absolute figures of two machines, or of two runs on a shared one, say nothing; the ratio says how many plain round trips
a task costs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import redis

from benchmarks import work
from benchmarks.counting import measured
from benchmarks.report import show
from benchmarks.server import BenchmarkServer, arguments, timed_s
from redislease import AsyncQueue, Queue

SETS = 4_000


def sets_per_s(client: redis.Redis) -> float:
    """SET of 100 bytes, one by one."""

    def loop() -> None:
        for _ in range(SETS):
            client.set("benchmark", b"x" * 100)

    return SETS / timed_s(loop)


def enqueue_one_by_one(queue: Queue, amount: int) -> None:
    """A call for each task."""
    for _ in range(amount):
        queue.enqueue("work", work.PAYLOAD, side_effect="idempotent")


async def work_concurrently(queue: AsyncQueue, amount: int, workers: int) -> None:
    """Coroutines that complete one task and claim the next in one call."""
    left = amount

    async def worker() -> None:
        nonlocal left
        leases = await queue.claim(1)
        while leases:
            left -= 1
            _, leases = await queue.complete_many([(lease, None) for lease in leases], claim=1)

    await asyncio.gather(*(worker() for _ in range(workers)))
    assert left == 0


class Throughput:
    """Runs the ways of working one after the other.

    Args:
        server: Where.
        tasks: How many tasks for each way.
    """

    def __init__(self, server: BenchmarkServer, tasks: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._server = server
        self._client = server.client()
        self._tasks = tasks

    def measure(self, way: str, run: Callable[[Queue, int], object], *, filled: bool, share: int = 1) -> None:
        """One row.

        Args:
            way: Its name.
            run: The work on so many tasks.
            filled: Whether the tasks are there before.
            share: The part of the tasks that it is done with; slow ways take fewer.
        """
        amount = self._tasks // share
        self._client.flushall()
        with self._server.queue() as queue:
            work.fill(queue, 2)
            work.claim_and_complete(queue, 2, 1)
            if filled:
                work.fill(queue, amount)
            self._time(way, lambda: run(queue, amount), amount)

    def _time(self, way: str, run: Callable[[], object], amount: int) -> None:
        before = sets_per_s(self._client)
        with measured(self._client) as cost:
            seconds = timed_s(run)
        plain = (before + sets_per_s(self._client)) / 2
        self.rows.append(
            {
                "way": way,
                "tasks / s": amount / seconds,
                "/ SET loop": amount / seconds / plain,
                "server CPU us / task": cost.cpu_us / amount,
                "script us / task": cost.script_us / amount,
                "SET / s": plain,
            }
        )

    def concurrently(self, workers: int) -> None:
        """The row of asyncio."""
        self._client.flushall()
        with self._server.queue() as queue:
            work.fill(queue, self._tasks)

        async def run() -> None:
            async with self._server.async_queue() as queue:
                await work_concurrently(queue, self._tasks, workers)

        self._time(f"complete + next claim, asyncio, {workers} at a time", lambda: asyncio.run(run()), self._tasks)

    def renew(self) -> None:
        """Renewals, 100 in a call."""
        self._client.flushall()
        with self._server.queue() as queue:
            work.fill(queue, 1_000)
            leases = queue.claim(1_000)

            def run() -> None:
                for first in range(0, self._tasks, 100):
                    queue.renew_many(leases[first % 1_000 : first % 1_000 + 100])

            self._time("renew 100 per call", run, self._tasks)

    def reap(self, amount: int, limit: int) -> None:
        """Recovers leases that all expired; also answers how long the longest call took the server."""
        self._client.flushall()
        with self._server.queue() as queue:
            lease_s = max(5, amount / 5_000)
            work.fill(queue, amount, lease_duration=lease_s)
            claimed = sum(len(queue.claim(1_000)) for _ in range(0, amount, 1_000))
            assert claimed == amount
            time.sleep(lease_s + 0.2)
            self._client.config_set("slowlog-max-len", 100_000)
            self._client.config_set("slowlog-log-slower-than", 300)
            self._client.slowlog_reset()

            def run() -> None:
                while queue.reap(limit).more:
                    pass

            self._time(f"reap {amount:,} expired, {limit} per call", run, amount)
            entries: Any = self._client.slowlog_get(100_000)
            self.rows[-1]["longest call ms"] = max((entry["duration"] for entry in entries), default=0) / 1_000
            assert queue.stats().states["ready"] == amount


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--expired", type=int, default=100_000)
    options = parser.parse_args()
    with BenchmarkServer(options) as server:
        bench = Throughput(server, options.tasks)
        for way, run, filled, share in (
            ("enqueue one by one", enqueue_one_by_one, False, 4),
            ("enqueue 500 per call", work.fill, False, 1),
            ("claim, complete one by one", partial(work.claim_and_complete, batch=1), True, 4),
            ("complete + next claim one by one", partial(work.complete_with_next_claim, batch=1), True, 4),
            ("claim 100, complete 100", partial(work.claim_and_complete, batch=100), True, 1),
            ("complete 100 + next claim 100", partial(work.complete_with_next_claim, batch=100), True, 1),
        ):
            bench.measure(way, run, filled=filled, share=share)
        bench.concurrently(50)
        bench.renew()
        for limit in (100, 500):
            bench.reap(options.expired, limit)
        rows = [{"longest call ms": None, **row} for row in bench.rows]
        order = [*(name for name in rows[0] if name != "longest call ms"), "longest call ms"]
        show(
            f"{options.tasks:,} tasks, {server.description()}",
            [{name: row[name] for name in order} for row in rows],
            as_json=options.json,
        )


if __name__ == "__main__":
    main()
