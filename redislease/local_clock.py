"""The machine's own clock, for local deadlines alone: never compared with a server's time."""

from __future__ import annotations

import time

# CLOCK_MONOTONIC stands still while a machine sleeps, and a lease does not.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_s() -> float:
    """Seconds since some moment in the past, suspended time included where the system can tell."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
