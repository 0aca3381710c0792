"""Tables for people: plain, without escapes unless on a terminal, and readable at 40 columns."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from redislease.cli.output import visible

_UNBOUNDED = 100_000
_NARROWEST = 24


def _console() -> Console:
    """A console for text that is printed later: as wide as the terminal, or as wide as it takes in a pipe."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal or os.environ.get("COLUMNS") else _UNBOUNDED
    return Console(
        file=io.StringIO(),
        width=max(width, _NARROWEST),
        force_terminal=terminal,
        color_system="auto" if terminal and not os.environ.get("NO_COLOR") else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def _render(console: Console, *parts: RenderableType) -> str:
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _cell(value: object) -> Text:
    return Text("" if value is None else visible(value), overflow="fold")


def _pairs(pairs: Sequence[tuple[str, object]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, ""):
            grid.add_row(Text(name), _cell(value))
    return grid


def pairs(values: Sequence[tuple[str, object]]) -> str:
    """Names and values, one below the other; those without a value are left out."""
    return _render(_console(), _pairs(values))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; where it is too wide for the terminal, each row as names and values."""
    console = _console()
    whole = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        whole.add_column(Text(column), overflow="fold")
    for row in rows:
        whole.add_row(*(_cell(value) for value in row))
    natural = Measurement.get(console, console.options.update(max_width=_UNBOUNDED), whole).maximum
    if natural <= console.width:
        return _render(console, whole)
    parts: list[RenderableType] = []
    for row in rows:
        parts += [_pairs(list(zip(columns, row, strict=True))), Text("")]
    return _render(console, *parts[:-1])


def paragraph(text: str) -> str:
    """Running text, broken at the terminal's width."""
    return _render(_console(), _cell(text))
