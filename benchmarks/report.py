"""Prints figures, for people as a table and for programs as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Row = Mapping[str, Any]


def show(title: str, rows: Sequence[Row], *, as_json: bool) -> None:
    """Prints rows that share their columns.

    Args:
        title: What was measured, and on what.
        rows: Column names and values.
        as_json: One JSON object instead of a table.
    """
    if as_json:
        print(json.dumps({"title": title, "rows": list(rows)}))
        return
    columns = list(rows[0])
    cells = [[_text(row[column]) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[index]) for line in cells)) for index, column in enumerate(columns)]
    print(title)
    for line in (columns, *cells):
        first, *rest = (
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join([first, *rest]))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """The median of each column."""
    return {name: median(row[name] for row in rows) for name in rows[0]}
