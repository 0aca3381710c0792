"""Reads flat replies. Every value arrives as bytes, whatever the connection's settings are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from redislease.commands.call import Reply
from redislease.errors import ServerError


def text(value: Any) -> str:
    """A value as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def texts(reply: Reply) -> list[str]:
    """A whole reply as text."""
    return [text(value) for value in reply]


def optional_int(value: Any) -> int | None:
    """An integer, or None for ''."""
    return int(value) if value else None


def groups(reply: Reply, first: int, width: int, count: int | None = None) -> Iterator[tuple[Any, ...]]:
    """The groups of `width` values from a position to the end.

    Raises:
        ServerError: The values are not whole groups, or not `count` of them.
    """
    found, rest = divmod(len(reply) - first, width) if width > 0 else (-1, 0)
    if found < 0 or rest or count not in (None, found):
        raise ServerError(f"a reply has {len(reply)} values, which is not {first} and groups of {width}")
    if not found:
        return iter(())  # a reply may then name any width
    values = iter(reply[first:])
    return zip(*[values] * width, strict=True)
