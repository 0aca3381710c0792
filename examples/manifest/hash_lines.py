#!/usr/bin/env python3
"""Turns leases into results: lines of `redislease claim --jsonl` in, lines for `redislease complete --jsonl -` out."""

import base64
import hashlib
import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Hashes the file of each lease; one that cannot be read is left to its lease, and reported."""
    root = Path(sys.argv[1])
    for line in sys.stdin:
        lease = json.loads(line)
        path = root / os.fsdecode(base64.b64decode(lease["payload"]["path"]))
        try:
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as problem:
            print(problem, file=sys.stderr)
            continue
        print(json.dumps({"handle": lease["handle"], "result": {"sha256": sha256}}))


if __name__ == "__main__":
    main()
