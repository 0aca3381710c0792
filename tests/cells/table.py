"""The table of what must be true, read from `expected.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Cell(NamedTuple):
    """One cell: where a worker ends and how, and what must be seen then."""

    kind: str
    ending: str
    point: str
    state: str
    second: str
    first: str
    happened: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.ending}-{self.point}"


def _cells() -> list[Cell]:
    found: list[Cell] = []
    kind = ending = ""
    for line in Path(__file__).with_name("expected.txt").read_text(encoding="utf-8").splitlines():
        if "|" in line:
            found.append(Cell(kind, ending, *(column.strip() for column in line.split("|"))))
        elif line and not line.startswith("#"):
            kind, ending = line.split(": ")
    return found


CELLS = _cells()
