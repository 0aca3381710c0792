"""The application that worker processes of the tests run: `QUEUE` names its queue, `REDISLEASE_URL` the server."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import redis

from redislease import AsyncLease, Backoff, Lease, LeaseLost, Queue

queue = Queue(os.environ["QUEUE"])
LEASE_S = float(os.environ.get("LEASE_S", "1"))
notes: Any = redis.Redis(unix_socket_path=os.environ["REDISLEASE_URL"].removeprefix("unix://"))


def note(text: str) -> None:
    """Tells the test something, in order."""
    notes.rpush(f"notes:{queue.name}", text)


@queue.task(side_effect="idempotent", lease_duration=LEASE_S)
async def waits(lease: AsyncLease, seconds: float, later: float | None = None) -> str:
    note(f"begins {lease.generation}")
    try:
        await asyncio.sleep(seconds if later is None or lease.generation == 1 else later)
    except asyncio.CancelledError:
        note(f"cancelled {lease.generation}")
        raise
    note(f"ends {lease.generation}")
    return f"generation {lease.generation}"


@queue.task(side_effect="idempotent", lease_duration=LEASE_S)
def waits_in_thread(lease: Lease, seconds: float, later: float | None = None) -> str:
    note(f"begins {lease.generation}")
    ends = time.monotonic() + (seconds if later is None or lease.generation == 1 else later)
    while time.monotonic() < ends:
        try:
            lease.check()
        except LeaseLost:
            note(f"cancelled {lease.generation}")
            raise
        time.sleep(0.01)
    note(f"ends {lease.generation}")
    return f"generation {lease.generation}"


@queue.task(side_effect="non_idempotent", lease_duration=LEASE_S)
async def once(seconds: float) -> None:
    note("once")
    await asyncio.sleep(seconds)


@queue.task(side_effect="idempotent", lease_duration=LEASE_S, max_expirations=3)
def kills() -> None:
    note("kills")
    os._exit(7)


@queue.task(side_effect="idempotent", lease_duration=LEASE_S, max_expirations=3)
async def kills_at_once() -> None:
    note("kills")
    os._exit(7)


@queue.task(side_effect="idempotent", lease_duration=LEASE_S)
def hangs(seconds: float) -> None:
    note("hangs")
    time.sleep(seconds)


@queue.task(side_effect="idempotent", lease_duration=LEASE_S)
async def stubborn() -> None:
    note("stubborn")
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:  # noqa: BLE001 - that is what this handler is for
            note("swallows")


@queue.task(side_effect="read_only", retry=Backoff(0.05))
async def quick(number: int) -> int:
    return number
