"""What an effect costs, and tasks with one effect each a second: `python -m benchmarks.effects`.

An effect is two records, one before it happens and one when its outcome is known. What happens in between is left out.
Over TCP, the server on one core and this process, prepared as `redislease worker` prepares its own, on the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis

from benchmarks import work
from benchmarks.counting import Cost, counting_client, measured
from benchmarks.report import medians, show
from benchmarks.server import BenchmarkServer, arguments, timed_s
from benchmarks.throughput import sets_per_s
from redislease import AsyncLease, Lease, Queue, Worker, ids
from redislease.commands import effects as commands
from redislease.handle import Handle
from redislease.worker.process import calm_collector

REQUEST = {"to": "ada@example.org", "text": "x" * 50}
OUTCOME = {"message": 12_345}


def one_effect(lease: Lease) -> None:
    """As a handler writes it: two round trips."""
    lease.run_effect("send", lambda effect: OUTCOME, request=REQUEST)


def effects_in_two_calls(queue: Queue, leases: Sequence[Lease]) -> None:
    """One effect of each lease: all intents in one call, all outcomes in another."""
    begun = [(Handle.decode(lease.handle()), ids.nonce()) for lease in leases]
    digest = commands.request_digest(REQUEST)
    queue.run(commands.intent([commands.Intent(handle, "send", nonce, "send", digest) for handle, nonce in begun]))
    outcome = commands.encode_outcome(OUTCOME)
    queue.run(commands.outcome([commands.Verdict(handle, "send", nonce, "done", outcome) for handle, nonce in begun]))


def one_by_one(queue: Queue, amount: int) -> None:
    """Claim, intent, outcome, complete: four round trips a task; three with the next claim in the completion."""
    leases = queue.claim(1)
    for left in range(amount, 0, -1):
        one_effect(leases[0])
        _, leases = queue.complete_many([(leases[0], None)], claim=min(1, left - 1))


def in_batches(batch: int) -> Callable[[Queue, int], None]:
    """Three round trips for a whole batch: intents, outcomes, completions with the next claim."""

    def run(queue: Queue, amount: int) -> None:
        leases = queue.claim(batch)
        done = len(leases)
        while leases:
            effects_in_two_calls(queue, leases)
            _, leases = queue.complete_many([(lease, None) for lease in leases], claim=min(batch, amount - done))
            done += len(leases)

    return run


def in_threads(threads: int, batch: int) -> Callable[[Queue, int], None]:
    """Several batches under way, so that the server works on one while the client prepares another."""

    def run(queue: Queue, amount: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            for future in [pool.submit(in_batches(batch), queue, amount // threads) for _ in range(threads)]:
                future.result()

    return run


def without_effects(queue: Queue, amount: int) -> None:
    """The same tasks without an effect, to compare with."""
    work.complete_with_next_claim(queue, amount, 100)


def in_a_worker(concurrency: int) -> Callable[[Queue, int], None]:
    """A real worker; its handlers' intents, outcomes and completions share round trips."""

    def run(queue: Queue, amount: int) -> None:
        left = amount

        async def work(lease: AsyncLease, text: str) -> None:
            nonlocal left
            await lease.run_effect("send", lambda effect: OUTCOME, request=REQUEST)
            left -= 1
            if not left:
                worker.stop()

        queue.add_task(work, side_effect="idempotent")
        worker = Worker(queue, concurrency=concurrency, signals=False)
        worker.run()

    return run


WAYS: dict[str, tuple[Callable[[Queue, int], None], int]] = {
    # name: the work, and the part of the tasks that it is done with
    "run_effect one by one": (one_by_one, 5),
    "10 intents, 10 outcomes, complete 10 + next claim": (in_batches(10), 1),
    "100 intents, 100 outcomes, complete 100 + next claim": (in_batches(100), 1),
    "the same, 2 batches under way": (in_threads(2, 100), 1),
    "worker, one run_effect per task, 100 at once": (in_a_worker(100), 1),
    "worker, one run_effect per task, 250 at once": (in_a_worker(250), 1),
    "no effect, complete 100 + next claim": (without_effects, 1),
}


def cost_of(queue: Queue, client: redis.Redis, batch: int, amount: int) -> Cost:
    """What intent and outcome of so many effects cost, without claim and completion."""
    work.fill(queue, amount + 1)
    leases = queue.claim(1_000)
    one_effect(leases.pop())
    with measured(client) as cost:
        for first in range(0, amount, batch):
            if batch == 1:
                one_effect(leases[first])
            else:
                effects_in_two_calls(queue, leases[first : first + batch])
    return cost


def cost_of_effects(server: BenchmarkServer, amount: int) -> list[dict[str, Any]]:
    """The cost of one effect, by itself and among others."""
    rows = []
    with server.client() as client:
        for way, batch in (("one by one", 1), ("100 per call", 100)):
            client.flushall()
            cost = cost_of(server.queue(client=counting_client(server.socket_path)), client, batch, amount)
            rows.append(
                {
                    "one effect": way,
                    "round trips": cost.round_trips / amount,
                    "script calls": cost.calls / amount,
                    "commands in scripts": cost.inner_commands / amount,
                    "script us": cost.script_us / amount,
                    "commands": ", ".join(
                        f"{name} {calls / amount:.2g}" for name, calls in sorted(cost.commands.items())
                    ),
                }
            )
    return rows


def throughput(server: BenchmarkServer, way: str, tasks: int, runs: int) -> list[dict[str, float]]:
    """The figures of several runs."""
    return [throughput_once(server, way, tasks) for _ in range(runs)]


def throughput_once(server: BenchmarkServer, way: str, tasks: int) -> dict[str, float]:
    """Tasks a second, as a ratio to a loop of SET just before and after."""
    run, share = WAYS[way]
    amount = tasks // share
    with server.client() as client, server.queue() as queue:
        client.flushall()
        work.fill(queue, 2)
        in_batches(2)(queue, 2)
        work.fill(queue, amount)
        before = sets_per_s(client)
        used_s = time.process_time()
        with measured(client) as cost:
            seconds = timed_s(lambda: run(queue, amount))
        used_s = time.process_time() - used_s
        plain = (before + sets_per_s(client)) / 2
        assert queue.stats().states["completed"] == amount + 2
    return {
        "tasks / s": amount / seconds,
        "/ SET loop": amount / seconds / plain,
        "server CPU us / task": cost.cpu_us / amount,
        "script us / task": cost.script_us / amount,
        "client CPU us / task": used_s / amount * 1e6,
        "script calls / task": cost.calls / amount,
        "SET / s": plain,
    }


def main() -> None:
    """Prints both tables."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    calm_collector()
    with BenchmarkServer(options, tcp=True) as server:
        show(f"one effect, {server.description()}", cost_of_effects(server, 900), as_json=options.json)
        rows = [{"way": way} | medians(throughput(server, way, options.tasks, options.runs)) for way in WAYS]
        title = f"{options.tasks:,} tasks with one effect, {server.description()}, medians of {options.runs}"
        show(title, rows, as_json=options.json)


if __name__ == "__main__":
    main()
