"""Round trips and commands that one task costs: `python -m benchmarks.round_trips`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from benchmarks import work
from benchmarks.counting import Cost, counting_client, measured
from benchmarks.report import show
from benchmarks.server import BenchmarkServer, arguments
from redislease import Queue

Work = Callable[[Queue, int], object]


def enqueue_one_by_one(queue: Queue, amount: int) -> None:
    """A call for each task."""
    for _ in range(amount):
        queue.enqueue("work", work.PAYLOAD, side_effect="idempotent")


def renew_in_batches(queue: Queue, amount: int) -> None:
    """Claims everything in one call, then renews it."""
    leases = queue.claim(amount)
    for first in range(0, amount, 100):
        queue.renew_many(leases[first : first + 100])


WAYS: dict[str, tuple[bool, Work]] = {
    # name: whether the tasks are there already, and the work
    "enqueue one by one": (False, enqueue_one_by_one),
    "enqueue 500 per call": (False, lambda queue, amount: work.fill(queue, amount)),
    "claim, complete one by one": (True, lambda queue, amount: work.claim_and_complete(queue, amount, 1)),
    "complete + next claim one by one": (True, lambda queue, amount: work.complete_with_next_claim(queue, amount, 1)),
    "claim 100, complete 100": (True, lambda queue, amount: work.claim_and_complete(queue, amount, 100)),
    "complete 100 + next claim 100": (True, lambda queue, amount: work.complete_with_next_claim(queue, amount, 100)),
    "claim 1000, renew 100 per call": (True, renew_in_batches),
}


def cost_of(queue: Queue, client: redis.Redis, way: str, amount: int) -> Cost:
    """Runs one way of working and counts.

    Args:
        queue: On a counting client; warm, so that scripts and the identity are there already.
        client: Another client of the same server.
        way: A name in `WAYS`.
        amount: How many tasks.
    """
    filled, run = WAYS[way]
    if filled:
        work.fill(queue, amount)
    with measured(client) as cost:
        run(queue, amount)
    return cost


def warm_up(queue: Queue) -> None:
    """Loads the scripts and registers an identity."""
    work.fill(queue, 4)
    queue.renew_many(leases := queue.claim(2))
    work.complete_all(queue, leases)
    for lease in queue.claim(2):
        lease.complete()


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__)
    parser.add_argument("--tasks", type=int, default=1_000)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with BenchmarkServer(options) as server, server.client() as client:
        for way in WAYS:
            client.flushall()
            queue = server.queue(client=counting_client(server.socket_path))
            warm_up(queue)
            cost = cost_of(queue, client, way, options.tasks)
            rows.append(
                {
                    "way": way,
                    "round trips / task": cost.round_trips / options.tasks,
                    "script calls / task": cost.calls / options.tasks,
                    "commands in scripts / task": cost.inner_commands / options.tasks,
                    "script us / task": cost.script_us / options.tasks,
                }
                | ({"commands": cost.commands} if options.json else {})
            )
        show(f"{options.tasks:,} tasks, {server.description()}", rows, as_json=options.json)


if __name__ == "__main__":
    main()
