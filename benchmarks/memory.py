"""Bytes that a queued task costs: `python -m benchmarks.memory`.

The aim is at most 560 on Redis 7.0, for a payload of 100 bytes and a default id. Only `MEMORY USAGE` is comparable
between runs; `used_memory` counts the allocator's slack too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import redis

from benchmarks import work
from benchmarks.report import show
from benchmarks.server import BenchmarkServer, arguments
from redislease import EnqueueRequest, Queue


def bytes_by_kind(client: redis.Redis, queue: Queue) -> dict[str, int]:
    """Bytes of all keys of a queue, by the first part of their name; tasks are summed up."""
    names = list(client.scan_iter(match=queue.keys.base + "*", count=1_000))
    kinds: dict[str, int] = defaultdict(int)
    for first in range(0, len(names), 1_000):
        pipeline = client.pipeline(transaction=False)
        part = names[first : first + 1_000]
        for name in part:
            pipeline.memory_usage(name, samples=0)
        for name, size in zip(part, pipeline.execute(), strict=True):
            kinds[name.decode().removeprefix(queue.keys.base).partition(":")[0]] += size
    return dict(kinds)


def bytes_per_task(client: redis.Redis, queue: Queue, amount: int) -> float:
    """Bytes that each of `amount` queued tasks costs, the queue's own keys included."""
    work.fill(queue, amount)
    return sum(bytes_by_kind(client, queue).values()) / amount


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=20_000)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with BenchmarkServer(options) as server, server.client() as client, server.queue() as queue:
        for name, request in _requests().items():
            client.flushall()
            info: dict[str, Any] = client.info("memory")
            for first in range(0, options.tasks, 5_000):
                amount = min(5_000, options.tasks - first)
                queue.enqueue_many([request(first + number) for number in range(amount)])
            after: dict[str, Any] = client.info("memory")
            kinds = bytes_by_kind(client, queue)
            sample = queue.keys.task(queue.tasks("ready", limit=1)[0].id)
            rows.append(
                {
                    "task": name,
                    "bytes": sum(kinds.values()) / options.tasks,
                    "of it hash": kinds["task"] / options.tasks,
                    "payloads": kinds["payloads"] / options.tasks,
                    "index": kinds["ready"] / options.tasks,
                    "used_memory": (after["used_memory"] - info["used_memory"]) / options.tasks,
                    "encoding": client.object("encoding", sample).decode(),
                }
            )
        show(f"bytes per queued task, {options.tasks:,} tasks, {server.description()}", rows, as_json=options.json)


def _requests() -> dict[str, Any]:
    def made(**options: Any) -> Any:
        return lambda number: EnqueueRequest(
            name="work", payload=work.PAYLOAD, **({"side_effect": "idempotent"} | _numbered(options, number))
        )

    return {
        "default": made(),
        "non_idempotent": made(side_effect="non_idempotent", records_effects=True),
        "with an idempotency key": made(idempotency_key="invoice-{}"),
        "with an id of its own": made(task_id="invoice-{}"),
        "all options": made(priority=5, lease_duration=30, max_attempts=9, max_runtime=900, credential="smtp"),
        "an idempotency key over 64 bytes": made(idempotency_key="k" * 90 + "{}"),
    }


def _numbered(options: dict[str, Any], number: int) -> dict[str, Any]:
    return {name: value.format(number) if isinstance(value, str) else value for name, value in options.items()}


if __name__ == "__main__":
    main()
