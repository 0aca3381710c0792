"""Runs no-op tasks in this process and prints its resident memory in KiB after each stretch: URL QUEUE TASKS..."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

from redislease import Queue
from redislease.worker import Worker

URL, NAME, *STRETCHES = sys.argv[1:]


def resident_kib() -> int:
    """The memory of this process."""
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError


def run(queue: Queue, worker: Worker, amount: int) -> None:
    """Lets a worker do some tasks; they are sent in small parts, so that this process holds none of them."""
    before = queue.stats().counters["completed"]
    for first in range(0, amount, 500):
        queue.enqueue_many([{"name": "nothing", "payload": {"data": "x" * 100}, "side_effect": "read_only"}] * 500)
        while queue.stats().counters["completed"] < before + first - 2_000:
            threading.Event().wait(0.005)
    while queue.stats().counters["completed"] < before + amount:
        threading.Event().wait(0.02)


with Queue(NAME, redis_url=URL) as queue:

    @queue.task(side_effect="read_only")
    async def nothing(data: str) -> None:
        pass

    worker = Worker(queue, signals=False)
    thread = threading.Thread(target=worker.run)
    thread.start()
    for stretch in STRETCHES:
        run(queue, worker, int(stretch))
        print(resident_kib())
    worker.stop()
    thread.join()
