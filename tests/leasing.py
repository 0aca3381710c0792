"""Leases of tasks that record their effects, as the tests of effects take them."""

from __future__ import annotations

from typing import Any

from virtual_clock import VirtualClock


def leased(queue: Any, side_effect: str = "idempotent", **options: Any) -> Any:
    queue.enqueue("mail", {"n": 1}, side_effect=side_effect, **({"records_effects": True} | options))
    (lease,) = queue.claim()
    return lease


def again(queue: Any, clock: VirtualClock) -> Any:
    """The next attempt, after the lease has expired."""
    clock.advance_ms(60_001)
    leases = queue.claim()
    return leases[0] if leases else None
