"""What type checkers must make of tasks; each `reveal_type` is compared with the comment behind it."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import reveal_type

from pydantic import BaseModel

from redislease import AsyncLease, AsyncQueue, Lease, Queue


class Invoice(BaseModel):
    number: int


@dataclass
class Receipt:
    number: int


queue = Queue("typed", redis_url="memory://typed")
async_queue = AsyncQueue("typed", redis_url="memory://typed")


@queue.task(side_effect="idempotent")
async def with_async_lease(lease: AsyncLease, invoice: Invoice, *, note: str = "") -> Receipt:
    return Receipt(invoice.number)


@async_queue.task(side_effect="idempotent", lease_duration=5)
def with_lease(lease: Lease, number: int) -> Receipt:
    return Receipt(number)


@queue.task(side_effect="read_only", name="other")
async def without_lease(number: int, text: str = "") -> list[int]:
    return [number]


@queue.task(side_effect="read_only")
def plain(number: int) -> str:
    return str(number)


def elsewhere(lease: Lease, number: int) -> float:
    return float(number)


added = queue.add_task(elsewhere, side_effect="read_only")

reveal_type(with_async_lease)  # BoundTask[(invoice: Invoice, *, note: str = ...), Receipt]
reveal_type(with_lease)  # BoundTask[(number: int), Receipt]
reveal_type(without_lease)  # BoundTask[(number: int, text: str = ...), list[int]]
reveal_type(plain)  # BoundTask[(number: int), str]
reveal_type(added)  # BoundTask[(number: int), float]
reveal_type(plain.options(delay=3))  # BoundTask[(number: int), str]
reveal_type(with_async_lease.wait("id", 5))  # Receipt
waiting = reveal_type(without_lease.await_result("id"))  # CoroutineType[Any, Any, list[int]]


def calls() -> Awaitable[object]:
    """Right calls, and behind them wrong ones: each must be an error, or mypy calls the ignore unused."""
    with_async_lease.enqueue(Invoice(number=1), note="n")
    without_lease.enqueue(1, text="t")
    plain.options(idempotency_key="k").enqueue(1)
    with_async_lease.enqueue("text")  # type: ignore[arg-type]
    with_async_lease.enqueue(Invoice(number=1), nothing=1)  # type: ignore[call-arg]
    with_lease.enqueue()  # type: ignore[call-arg]
    plain.options(colour="red")  # type: ignore[call-arg]
    queue.task(lease_duration=5)  # type: ignore[call-arg]
    return without_lease.aenqueue(1)
