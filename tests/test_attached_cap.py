"""A lease that cannot be extended further knows it, also in the process that takes it up from its handle."""

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
