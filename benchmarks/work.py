"""The tasks that the benchmarks work on, and the loops that work on them."""

from __future__ import annotations

from collections.abc import Sequence

from redislease import EnqueueRequest, Lease, Queue

PAYLOAD = {"text": "x" * 89}
"""100 bytes of JSON."""


def request(side_effect: str = "idempotent", lease_duration: float | None = None) -> EnqueueRequest:
    """A task with a payload of 100 bytes."""
    return EnqueueRequest(name="work", payload=PAYLOAD, side_effect=side_effect, lease_duration=lease_duration)


def fill(queue: Queue, amount: int, *, side_effect: str = "idempotent", lease_duration: float | None = None) -> None:
    """Stores tasks, 500 in a call."""
    one = request(side_effect, lease_duration)
    for first in range(0, amount, 10_000):
        queue.enqueue_many([one] * min(10_000, amount - first))


def complete_all(queue: Queue, leases: Sequence[Lease]) -> None:
    """Completes a batch in one call."""
    queue.complete_many([(lease, None) for lease in leases])


def claim_and_complete(queue: Queue, amount: int, batch: int) -> None:
    """Claims and completes batches, in two calls each; one by one with a batch of 1."""
    for _ in range(0, amount, batch):
        leases = queue.claim(batch)
        if batch == 1:
            leases[0].complete()
        else:
            complete_all(queue, leases)


def complete_with_next_claim(queue: Queue, amount: int, batch: int) -> None:
    """Claims and completes batches, one call each."""
    leases = queue.claim(batch)
    done = len(leases)
    while leases:
        _, leases = queue.complete_many([(lease, None) for lease in leases], claim=min(batch, amount - done))
        done += len(leases)
