"""What a claim costs the server when a million tasks wait: `python -m benchmarks.depth`. The aim is at most 1.4 times.

Two queues on one server, a short and a deep one, are asked in turn, so that a noisy machine harms both.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import redis

from benchmarks import work
from benchmarks.counting import measured
from benchmarks.report import show
from benchmarks.server import BenchmarkServer, arguments
from redislease import Queue


def claim_us(queue: Queue, client: redis.Redis, claims: int) -> float:
    """Microseconds of server time that one claim of one task takes."""
    with measured(client) as cost:
        leases = [lease for _ in range(claims) for lease in queue.claim(1)]
    assert len(leases) == claims
    work.complete_all(queue, leases)
    return cost.script_us / claims


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--depth", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--claims", type=int, default=200, help="claims in a round")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with BenchmarkServer(options) as server, server.client() as client:
        queues = {1_000: server.queue("short"), options.depth: server.queue("deep")}
        for depth, queue in queues.items():
            work.fill(queue, depth)
        figures: dict[int, list[float]] = {depth: [] for depth in queues}
        for _ in range(options.rounds):
            for depth, queue in queues.items():
                figures[depth].append(claim_us(queue, client, options.claims))
                work.fill(queue, options.claims)
        base = median(figures[1_000])
        for depth, values in figures.items():
            rows.append({"ready tasks": depth, "us / claim": median(values), "ratio": median(values) / base})
        show(f"one claim, {server.description()}", rows, as_json=options.json)


if __name__ == "__main__":
    main()
