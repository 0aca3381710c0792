"""The command line. `redislease --help` lists the verbs; each is loaded only when it is used."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The entry point of the program `redislease`."""
    try:
        from redislease.cli.program import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while the modules are still being loaded
        code = 130
    sys.exit(code)
