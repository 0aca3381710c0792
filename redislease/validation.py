"""Checks of everything that callers pass in. Each answers the value in the form that the scripts want, or raises
`InvalidInput` before anything is sent."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Any

from redislease import limits
from redislease.errors import InvalidInput, PayloadTooLarge

_QUEUE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_WORKER_NAME = re.compile(r"[A-Za-z0-9._@-]{1,40}")
_OWNER = re.compile(r"[A-Za-z0-9._@-]{1,40}-[1-9][0-9]{0,15}")
_TASK_ID = re.compile(r"(?!-)[^\s{}:\x00-\x1f\x7f-\x9f]{1,128}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def shown(value: Any) -> str:
    """A value as an error names it: short, and without anything that a terminal would act on."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of many thousand digits, a loop, somebody's own __repr__
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def text(value: Any, what: str, *, max_bytes: int, empty: bool = False, one_line: bool = True) -> str:
    """A string of at most `max_bytes` in UTF-8; control characters only where `one_line` is false."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be a string, not {shown(value)}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} has a lone surrogate: {shown(value)}") from None
    if not value and not empty:
        raise InvalidInput(f"{what} must not be empty")
    if size > max_bytes:
        raise InvalidInput(f"{what} has {size} bytes; the limit is {max_bytes}")
    if one_line and _CONTROL.search(value):
        raise InvalidInput(f"{what} has a control character: {shown(value)}")
    return str(value)


def _matching(value: Any, what: str, pattern: re.Pattern[str], rule: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidInput(f"{what} must be {rule}, not {shown(value)}")
    return text(value, what, max_bytes=4 * limits.TASK_ID_CHARS)


def queue_name(value: Any) -> str:
    """A queue's name: 1 to 64 of `A-Z a-z 0-9 . _ -`."""
    return _matching(value, "the queue name", _QUEUE_NAME, "1 to 64 of A-Z a-z 0-9 . _ -")


def prefix(value: Any) -> str:
    """A key prefix: 1 to 64 of `A-Z a-z 0-9 . _ : -`."""
    return _matching(value, "the prefix", _PREFIX, "1 to 64 of A-Z a-z 0-9 . _ : -")


def worker_name(value: Any) -> str:
    """A worker's name: 1 to 40 of `A-Z a-z 0-9 . _ @ -`."""
    return _matching(value, "the worker name", _WORKER_NAME, "1 to 40 of A-Z a-z 0-9 . _ @ -")


def owner(value: Any) -> str:
    """A registered identity: `NAME-N`."""
    return _matching(value, "the owner", _OWNER, "NAME-N, as register answered it")


def task_id(value: Any) -> str:
    """A task id: 1 to 128 characters without braces, colons, whitespace and control characters, and no `-` first.

    A command would take an id with a `-` in front for one of its options.
    """
    rule = "1 to 128 characters without braces, colons, whitespace and control characters, and not begin with -"
    return _matching(value, "the task id", _TASK_ID, rule)


def task_name(value: Any) -> str:
    """A task's name: 1 to 128 bytes without control characters."""
    return text(value, "the task name", max_bytes=limits.NAME_BYTES)


def idempotency_key(value: Any) -> str:
    """An idempotency key: 1 to 128 bytes without control characters, the first of which is no colon."""
    key = text(value, "the idempotency key", max_bytes=limits.IDEMPOTENCY_KEY_BYTES)
    if key.startswith(":"):
        raise InvalidInput("an idempotency key begins with a colon only where a task was given none")
    return key


def by(value: Any) -> str:
    """Who decides: 1 to 64 bytes."""
    return text(value, "by", max_bytes=limits.BY_BYTES)


def note(value: Any, what: str = "the reason", *, empty: bool = False) -> str:
    """A reason or note: at most 1 KiB; several lines are fine."""
    return text(value, what, max_bytes=limits.NOTE_BYTES, empty=empty, one_line=False)


def integer(value: Any, what: str, *, low: int, high: int) -> int:
    """A whole number in a range; booleans, floats and strings are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} must be a whole number, not {shown(value)}")
    if not low <= value <= high:
        raise InvalidInput(f"{what} must be from {low} to {high}, not {shown(value)}")
    return int(value)


def duration_ms(value: Any, what: str, *, low_ms: int, high_ms: int) -> int:
    """A duration in milliseconds from seconds or a `timedelta`.

    Booleans, strings, NaN, infinite and out-of-range values are refused; a fraction of a millisecond is rounded up.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{what} must be seconds as a number or a timedelta, not {shown(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{what} must be finite, not {shown(value)}")
    if not low_ms <= value * 1000 <= high_ms:
        raise InvalidInput(f"{what} must be from {low_ms / 1000:g} s to {high_ms / 1000:g} s, not {shown(value)}")
    # Rounded first, so that 0.1 s is 100 ms and not 101.
    return math.ceil(round(value * 1000, 6))


def lease_ms(value: Any) -> int:
    """A lease's length: 0.1 s to 12 h, in milliseconds."""
    return duration_ms(value, "lease_duration", low_ms=limits.LEASE_MS_MIN, high_ms=limits.LEASE_MS_MAX)


def delay_ms(value: Any) -> int:
    """A delay: 0 s to 10 years, in milliseconds."""
    return duration_ms(value, "delay", low_ms=0, high_ms=limits.DELAY_MS_MAX)


def at_ms(value: Any) -> int:
    """A date that the caller chose, with a time zone, as milliseconds since 1970."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"at must be a datetime, not {shown(value)}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput("at must have a time zone")
    return integer(math.ceil(round(value.timestamp() * 1000, 3)), "at", low=0, high=limits.AT_MS_MAX)


def retention_ms(value: Any, what: str) -> int:
    """A retention: 0 s to 10 years, in milliseconds."""
    return duration_ms(value, what, low_ms=0, high_ms=limits.RETENTION_MS_MAX)


def progress(done: Any, total: Any) -> None:
    """How far some work is: `done` of `total`, each 0 or more; without a total only a count."""
    for value, what in ((done, "done"), (total, "total")):
        if value is None and what == "total":
            return
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{what} must be a number, not {shown(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(f"{what} must be finite, not {shown(value)}")
        if value < 0:
            raise InvalidInput(f"{what} must not be negative, not {shown(value)}")
    if done > total:
        raise InvalidInput(f"done must not be more than total: {shown(done)} of {shown(total)}")


def error_text(value: Any) -> str:
    """An error as text, cut to 8 KiB; surrogates are replaced, since an error must never be refused."""
    if isinstance(value, BaseException):
        value = f"{type(value).__name__}: {value}"
    if not isinstance(value, str):
        raise InvalidInput(f"error must be a string or an exception, not {shown(value)}")
    return cut(value, limits.ERROR_BYTES)


def cut(value: str, max_bytes: int) -> str:
    """The beginning of a text, at most `max_bytes` long in UTF-8 and never in the middle of a character."""
    return value.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")


def size(value: bytes, what: str, max_bytes: int) -> bytes:
    """Bytes of at most `max_bytes`.

    Raises:
        PayloadTooLarge: They are more.
    """
    if len(value) > max_bytes:
        raise PayloadTooLarge(f"{what} has {len(value)} bytes; the limit is {max_bytes}")
    return value
