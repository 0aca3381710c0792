"""Claims that stand behind the bell, as tests look at them."""

from __future__ import annotations

import asyncio
import threading
import time

from servers import wait_until
from working import Running

from redislease.scripts import shipped
from redislease.worker.round_trip import RoundTrip


def standing(running: Running) -> RoundTrip | None:
    """The claim that the worker has at the server."""
    pumps = running.worker._pumps
    return pumps[0]._wake._standing if pumps else None


def wait_asleep(running: Running) -> None:
    """Waits until a claim stands, and has had the time to arrive."""
    wait_until(lambda: standing(running), what="a standing claim")
    time.sleep(0.02)


def is_claim(words: list[bytes]) -> bool:
    """Whether a command is a claim."""
    return words[:2] == [b"EVALSHA", shipped()["claim"].sha.encode()]


def free_places(running: Running) -> int:
    """Places that neither a handler nor a claim has."""
    return running.worker._pumps[0]._slots.free


async def happens(event: threading.Event) -> None:
    """Waits in a loop for what another thread says."""
    while not event.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
