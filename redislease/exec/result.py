"""What a command's output means to its task."""

from __future__ import annotations

import base64
import json
import signal
from typing import Any

from redislease import limits
from redislease.errors import PayloadTooLarge

STDOUT_BYTES = limits.RESULT_BYTES
STDERR_BYTES = limits.ERROR_BYTES // 2


def result_of(stdout: bytes, *, overflow: bool) -> Any:
    """Standard output as a result: its value if it is JSON, else its text without the newlines at the end, as `$(...)`
    has it. Nothing is None.

    What JSON would change (doubled keys, NaN, infinities) is text. Bytes that are not UTF-8 lose nothing either: they
    become `{"base64": "..."}`, since a command that ended well has done its work, whatever it printed.

    Raises:
        PayloadTooLarge: It is too long.
    """
    if overflow:
        raise PayloadTooLarge(f"the command printed more than {STDOUT_BYTES} bytes on standard output")
    try:
        text = stdout.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(stdout).decode()}
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique, parse_float=_finite)
    except (ValueError, RecursionError):
        return text.rstrip("\n")


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(digits)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is doubled")
    return found


def error_of(returncode: int, stderr: bytes) -> str:
    """Why a command failed: its exit status and last line first, then the end of what it complained about."""
    status = f"exit status {returncode}" if returncode >= 0 else f"killed by {_signal_name(-returncode)}"
    lines = stderr.decode(errors="replace").strip().splitlines()
    if not lines:
        return status
    first = f"{status}: {lines[-1].strip()}"
    return first if len(lines) == 1 else "\n".join([first, "", *lines])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
