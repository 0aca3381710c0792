"""Times of the server's clock as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(at_ms: int) -> str:
    """A time in UTC, such as `2030-01-31 09:00:00 UTC`; what no calendar holds is shown as milliseconds."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
