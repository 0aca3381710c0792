"""The heartbeat by itself: no error ends it, and it waits for nothing longer than a deadline allows."""

from __future__ import annotations

import time
from typing import Any

import pytest
from servers import wait_until

from redislease import Queue, RedisLeaseError
from redislease.errors import (
    PermissionDenied,
    ServerError,
    ServerLoading,
    ServerOutOfMemory,
    ServerReadOnly,
    ServerUnavailable,
)
from redislease.heartbeat import Heartbeat
from redislease.models import Renewed

ERRORS: list[Exception] = [
    ServerUnavailable("away"),
    ServerLoading(),
    ServerReadOnly(),
    ServerOutOfMemory(),
    PermissionDenied(),
    ServerError("BUSY"),
    RedisLeaseError("?"),
    TimeoutError(),
    ConnectionResetError(),
    ValueError("not ours"),
    RecursionError(),
    MemoryError(),
]


class FailingOnce:
    """A transport that fails once with each kind of error, and then hands on."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.errors = list(ERRORS)
        self.answered = 0

    def run(self, call: Any, *, retry_for_s: float | None = None) -> list[Any]:
        """Fails, or renews."""
        if self.errors:
            raise self.errors.pop(0)
        answers: list[Any] = self._queue._transport.run(call, retry_for_s=retry_for_s)
        self.answered += 1
        return answers

    def close(self) -> None:
        """Nothing to close."""


@pytest.mark.filterwarnings("error")
def test_the_heartbeat_survives_every_kind_of_error(queue: Queue) -> None:
    queue.enqueue("work", side_effect="idempotent", lease_duration=3)
    (lease,) = queue.claim()
    transport = FailingOnce(queue)
    heartbeat = Heartbeat(transport)
    heartbeat.add(lease)
    try:
        for _ in ERRORS:
            heartbeat.renew_all_now()
            time.sleep(0.02)
        wait_until(lambda: transport.answered, 5)
        assert not transport.errors
        assert not lease.lost
    finally:
        heartbeat.stop()


def test_the_heartbeat_survives_what_it_calls(queue: Queue) -> None:
    """A callback that raises costs its own lease a message, and no other lease its renewal."""
    for _ in range(2):
        queue.enqueue("work", side_effect="idempotent", lease_duration=0.3)
    bad, good = queue.claim(2)

    def breaks(_: str) -> None:
        raise RuntimeError("callback")

    bad.on_lost = breaks
    heartbeat = Heartbeat(queue._transport)
    heartbeat.add(bad, good)
    queue.cancel(bad.id, by="me", reason="test")
    time.sleep(1.0)
    assert not good.lost
    heartbeat.remove(good, bad)
    good.complete()


def test_a_renewal_waits_no_longer_than_the_next_deadline(queue: Queue) -> None:
    """A server that does not answer for a long lease must not keep a short one from being told."""
    queue.enqueue("long", side_effect="idempotent", lease_duration=60)
    queue.enqueue("short", side_effect="idempotent", lease_duration=1)
    leases = queue.claim(2)
    patience: list[float] = []

    class Silent:
        def run(self, call: Any, *, retry_for_s: float | None = None) -> list[Renewed]:
            patience.append(retry_for_s or 0.0)
            raise ServerUnavailable("silent")

        def close(self) -> None:
            pass

    told: list[str] = []
    leases[1].on_lost = told.append
    heartbeat = Heartbeat(Silent())  # type: ignore[arg-type]
    heartbeat.add(*leases)
    heartbeat.renew_all_now()
    wait_until(lambda: told, 3)
    heartbeat.stop()
    assert max(patience) <= 1.0
    assert told[0] == "deadline"
