"""Everything that is printed passes here: documents for programs, and text in which data cannot act on a terminal."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click


def visible(text: object) -> str:
    """Text on one line in which nothing acts: control, format and direction characters show as `\\x1b` and the like."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in str(text)
    )


def document(value: Any) -> str:
    """A value as JSON on one line, in plain ASCII: valid under any locale, and inert on a terminal."""
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return dict(value)  # a model of pydantic answers its fields


_PIECE = 8_192


def write(text: str) -> None:
    """Prints text on standard output.

    In pieces: of a large one, an unbuffered stream loses what a closed pipe did not take, and tells nobody.
    """
    whole = text + "\n"
    for first in range(0, len(whole), _PIECE):
        click.echo(whole[first : first + _PIECE], nl=False)


def write_lines(lines: Iterable[str]) -> None:
    """Prints lines on standard output, if there are any."""
    if text := "\n".join(lines):
        write(text)


def complain(text: str) -> None:
    """Prints one line on standard error."""
    click.echo(f"redislease: {visible(text)}", err=True)


def moment(at_ms: int | None) -> str:
    """A time of the server's clock in the local time zone; '' for none."""
    if at_ms is None:
        return ""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


def duration(length_ms: float) -> str:
    """A length of time in the unit that fits."""
    try:
        seconds = abs(length_ms) / 1000
    except OverflowError:
        return "ages"
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def when(at_ms: int | None, now_ms: int) -> str:
    """A time with its distance from the server's present."""
    if at_ms is None:
        return ""
    distance = duration(now_ms - at_ms)
    return f"{moment(at_ms)} ({distance} ago)" if at_ms <= now_ms else f"{moment(at_ms)} (in {distance})"


def counted(amount: int, one: str, many: str = "") -> str:
    """`1 task`, `2 tasks`."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"
