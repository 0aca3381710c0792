"""A lease that another process of the same worker takes up from its handle goes on where the first one was."""

from __future__ import annotations

from typing import Any

import pytest
from virtual_clock import VirtualClock

pytestmark = pytest.mark.contract


def test_an_attached_lease_at_its_cap_is_capped(queue: Any, other: Any, clock: VirtualClock) -> None:
    queue.enqueue("work", side_effect="idempotent", lease_duration=10, max_runtime=15)
    (lease,) = queue.claim()
    assert not lease.capped
    clock.advance_ms(8_000)
    assert lease.renew().capped
    assert lease.capped
    assert other.attach(lease.handle()).capped


def test_reports_of_progress_count_on(queue: Any, other: Any, clock: VirtualClock) -> None:
    """The server takes the newest by its number, so one that began anew would be taken for a late copy."""
    task = queue.enqueue("work", side_effect="idempotent")
    (lease,) = queue.claim()
    assert other.attach(lease.handle()).progress(1, 10) is None
    for done in range(2, 6):
        lease = queue.attach(lease.handle())
        lease.progress(done, 10)
        assert queue.detail(task.id).progress["done"] == done
    other.attach(lease.handle()).progress(9, 10, "by another")
    assert queue.detail(task.id).progress["note"] == "by another"
    clock.advance_ms(60_001)
    (later,) = queue.claim()
    queue.attach(later.handle()).progress(1)
    assert queue.detail(task.id).progress["done"] == 1
