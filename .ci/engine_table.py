"""Prints which engine ran how many tests, from the JUnit files of one or more pytest runs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from xml.etree import ElementTree

ENGINE = re.compile(r"[\[-](fakeredis|(?:redis|valkey)-\d+\.\d+)(?=[-\]])")
COLUMNS = ("passed", "failed", "skipped")


def outcome(case: ElementTree.Element) -> str:
    """What became of a test."""
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def main(paths: list[str]) -> None:
    """Prints the table."""
    table: dict[tuple[str, str], Counter[str]] = {}
    for path in paths:
        run = path.rpartition("/")[2].removesuffix(".xml")
        for case in ElementTree.parse(path).iter("testcase"):
            found = ENGINE.search(case.get("name", ""))
            table.setdefault((run, found[1] if found else "no server"), Counter())[outcome(case)] += 1
    lines = [("run", "engine", *COLUMNS)]
    lines += [(*key, *(str(counts[column]) for column in COLUMNS)) for key, counts in sorted(table.items())]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
