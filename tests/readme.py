"""The commands of the README, read out of it, so that what the tests run is what people are told to type.

A command is the fenced block behind a line with a comment such as `<!-- test-command -->`. Needs nothing but Python:
`python3 tests/readme.py test-command` prints one before anything is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def command(name: str, readme: Path = README) -> str:
    """The block behind `<!-- NAME -->`.

    Raises:
        LookupError: There is not exactly one such comment, or no fenced block right behind it.
    """
    lines = readme.read_text(encoding="utf-8").splitlines()
    marks = [number for number, line in enumerate(lines) if f"<!-- {name} -->" in line]
    if len(marks) != 1:
        raise LookupError(f"{readme.name} has {len(marks)} comments <!-- {name} -->")
    block = lines[marks[0] + 1 :]
    while block and not block[0].strip():
        block.pop(0)
    if not block or not block[0].lstrip().startswith("```"):
        raise LookupError(f"{readme.name} has no fenced block behind <!-- {name} -->")
    indent = len(block[0]) - len(block[0].lstrip())
    end = next(number for number, line in enumerate(block) if number and line.strip() == "```")
    return "\n".join(line[indent:] for line in block[1:end]) + "\n"


if __name__ == "__main__":
    print(command(sys.argv[1]), end="")
