#!/usr/bin/env python3
"""Writes the manifest on standard output, as `sha256sum` does; refuses while a file is not done."""

import base64
import os
import sys

from redislease import Queue

UNFINISHED = ("ready", "leased", "scheduled", "reconciling", "dead", "cancelled")
PAGE = 1_000


def main() -> None:
    """Reads the results of the queue that `REDISLEASE_QUEUE` and `REDISLEASE_URL` name."""
    with Queue(os.environ.get("REDISLEASE_QUEUE", "manifest")) as queue:
        states = queue.stats().states
        if missing := {state: states[state] for state in UNFINISHED if states[state]}:
            sys.exit(f"not done yet: {', '.join(f'{count} {state}' for state, count in missing.items())}")
        found: dict[bytes, str] = {}
        for offset in range(0, states["completed"], PAGE):
            for task in queue.tasks("completed", limit=PAGE, offset=offset):
                detail = queue.detail(task.id)
                found[base64.b64decode(detail.payload["path"])] = detail.result["sha256"]
    for path, sha256 in sorted(found.items()):
        sys.stdout.buffer.write(line(path, sha256))


def line(path: bytes, sha256: str) -> bytes:
    """One line of the manifest: a name with a newline or a backslash is escaped, and a backslash leads the line."""
    name = path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return (b"\\" if name != path else b"") + sha256.encode() + b"  " + name + b"\n"


if __name__ == "__main__":
    main()
