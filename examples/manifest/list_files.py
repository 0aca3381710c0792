#!/usr/bin/env python3
"""Prints a task for each file below a directory, as lines for `redislease enqueue --jsonl -`."""

import base64
import hashlib
import json
import os
import stat
import sys
from pathlib import Path
from typing import NoReturn


def main() -> None:
    """Lists the regular files; links are not followed."""
    root = Path(sys.argv[1])
    for directory, _, names in os.walk(root, onerror=fail):
        for path in (Path(directory, name) for name in names):
            if stat.S_ISREG(path.lstat().st_mode):
                # Names are bytes; those that are no UTF-8 survive as what Python calls surrogates.
                print(task(os.fsencode(path.relative_to(root))))


def task(path: bytes) -> str:
    """The task of one file. Its key makes sure that a second run adds nothing."""
    return json.dumps(
        {
            "name": "hash",
            "side_effect": "read_only",
            "idempotency_key": hashlib.sha256(path).hexdigest(),
            "payload": {"path": base64.b64encode(path).decode()},
        }
    )


def fail(error: OSError) -> NoReturn:
    """Ends it: a directory that cannot be read would be missing in the manifest."""
    raise error


if __name__ == "__main__":
    main()
