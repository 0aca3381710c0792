"""`python -m tests.explore`: the long search, and its result as a file that a re-run can be compared with."""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from .scopes import SCOPES
from .search import Result, Search
from .store import explored_library
from .trace import as_test

RESULTS = Path(__file__).with_name("results")
"""Results that a re-run reproduces, one for each scope that was searched for long."""


def scripts_digest(directory: Path | None = None) -> str:
    """What stands for the text of all scripts."""
    library = explored_library(directory)
    return hashlib.sha256("".join(library[name].sha for name in library.names()).encode()).hexdigest()[:16]


def as_json(result: Result, command: str, directory: Path | None = None) -> dict[str, object]:
    """A result as it is committed."""
    values = asdict(result)
    violation = values.pop("violation")
    seconds = round(values.pop("seconds"))
    return {
        "command": command,
        **values,
        "seconds": seconds,
        "python": platform.python_version(),
        "scripts": scripts_digest(directory),
        "violation": violation,
    }


def main(arguments: list[str] | None = None) -> int:
    """Runs a search; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000, help="stop after so many distinct states")
    parser.add_argument("--depth", type=int, default=99, help="stop after so many steps")
    parser.add_argument("--seed", type=int, default=1, help="which states of the last layer are expanded")
    parser.add_argument("--scope", choices=sorted(SCOPES), default="full", help="what may happen")
    parser.add_argument("--lua", type=Path, help="other scripts than the shipped ones")
    parser.add_argument(
        "--output", type=Path, help="where to write the result, for example tests/explore/results/SCOPE.json"
    )
    asked = parser.parse_args(arguments)
    search = Search(SCOPES[asked.scope], seed=asked.seed, directory=asked.lua)

    def progress(result: Result) -> None:
        rate = result.states / max(result.seconds, 0.001)
        print(f"depth {result.depth}: {result.states:,} states, {result.transitions:,} steps, {rate:,.0f} states/s")
        sys.stdout.flush()

    result = search.run(max_states=asked.states, max_depth=asked.depth, progress=progress)
    command = f"python -m tests.explore --scope {asked.scope} --states {asked.states} --seed {asked.seed}"
    text = json.dumps(as_json(result, command, asked.lua), indent=2) + "\n"
    if asked.output:
        asked.output.write_text(text, encoding="utf-8")
    print(text)
    if result.violation:
        print(as_test(result.violation))
    return 1 if result.violation else 0


if __name__ == "__main__":
    sys.exit(main())
