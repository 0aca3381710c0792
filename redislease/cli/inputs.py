"""What comes in: JSON from the command line, and JSON Lines from a file or standard input."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from redislease import limits
from redislease.errors import InvalidInput, PayloadTooLarge, RedisLeaseError

LINE_BYTES = 8 * limits.PAYLOAD_BYTES
"""The longest line: a payload at its limit in which every character is written as an escape still fits."""


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in the same object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is too large")
    return value


def json_value(text: str | bytes, what: str) -> Any:
    """Strict JSON: no NaN, nothing beyond a double, no key twice, valid UTF-8.

    Raises:
        InvalidInput: It is not.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"{what} is not valid UTF-8 at byte {problem.start + 1}") from None
    except RecursionError:
        raise InvalidInput(f"{what} is nested too deeply") from None
    except ValueError as problem:
        raise InvalidInput(f"{what} is not JSON: {problem}") from None


def json_argument(text: str | None, what: str) -> Any:
    """JSON from an argument, or from standard input when the argument is `-`; None when there is none.

    Raises:
        InvalidInput: It is not JSON, or standard input is closed.
        PayloadTooLarge: Standard input holds more than any value may.
    """
    if text is None:
        return None
    if text != "-":
        return json_value(text, what)
    if sys.stdin is None:
        raise InvalidInput(f"{what} was to come from standard input, which is closed")
    data = sys.stdin.buffer.read(LINE_BYTES + 1)
    if len(data) > LINE_BYTES:
        raise PayloadTooLarge(f"{what} has more than {LINE_BYTES} bytes")
    return json_value(data, what)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a batch.

    Attributes:
        number: 1, 2, 3 …
        size: Bytes, the newline included.
        value: The object on it, or what is wrong with it.
    """

    number: int
    size: int
    value: dict[str, Any] | RedisLeaseError


def _read_line(source: IO[bytes]) -> tuple[bytes, int]:
    """The next line without more than `LINE_BYTES` of it in memory, and its true size."""
    line = source.readline(LINE_BYTES + 1)
    size = len(line)
    part = line
    while part and not part.endswith(b"\n") and size > LINE_BYTES:
        part = source.readline(LINE_BYTES)
        size += len(part)
    return line, size


def _object(line: bytes, size: int) -> dict[str, Any] | RedisLeaseError:
    if size > LINE_BYTES + 1:
        return PayloadTooLarge(f"the line has {size} bytes; the limit is {LINE_BYTES}")
    try:
        value = json_value(line, "the line")
    except InvalidInput as problem:
        return problem
    if not isinstance(value, dict):
        return InvalidInput("the line is not a JSON object")
    return value


def lines(source: IO[bytes]) -> Iterator[Line]:
    """The lines of a stream; empty ones are counted and left out."""
    number = 0
    while True:
        line, size = _read_line(source)
        if not size:
            return
        number += 1
        if line.strip():
            yield Line(number, size, _object(line, size))


def chunks(source: IO[bytes], amount: int) -> Iterator[list[Line]]:
    """The lines in portions of at most `amount`, and of about what one call to the server may carry."""
    portion: list[Line] = []
    size = 0
    for line in lines(source):
        portion.append(line)
        size += line.size
        if len(portion) >= amount or size >= limits.CALL_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
