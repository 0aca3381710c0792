"""The outside world: a process of its own, which writes down in a file what really happened there.

It knows nothing of the queue. It has three doors: `page` is only read, `ledger` recognises an idempotency key that it
has seen, and `mail` does what it is told, as often as it is told.

Run as a program it serves a unix socket until its standard input closes, so that it ends with the tests.
"""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALL_S = 30.0


class _Door(socketserver.StreamRequestHandler):
    """One call: a line of JSON, and a receipt as the answer."""

    server: _Server

    def handle(self) -> None:
        answer = self.server.take(json.loads(self.rfile.readline()))
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, counted: Path) -> None:
        super().__init__(path, _Door)
        self._lock = threading.Lock()
        self._receipts: dict[str, int] = {}
        self._last = 0
        self._file = counted.open("a", encoding="utf-8")

    def take(self, call: Mapping[str, Any]) -> int:
        """Does what it is asked for, once it is written down."""
        with self._lock:
            key = call["headers"].get("Idempotency-Key") if call["door"] == "ledger" else None
            known = self._receipts.get(key) if key else None
            happened = call["door"] != "page" and known is None
            self._last += 1
            receipt = known or self._last
            if key:
                self._receipts[key] = receipt
            self._file.write(json.dumps({**call, "happened": happened, "receipt": receipt}) + "\n")
            self._file.flush()
            return receipt


@dataclass(frozen=True, slots=True)
class World:
    """How to reach the world, and how to look at what it wrote down.

    Attributes:
        path: Its socket.
        counted: Its file.
    """

    path: str
    counted: str

    def call(self, door: str, about: str, headers: Mapping[str, str] | None = None) -> int:
        """Asks for something, and returns the receipt."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(CALL_S)
            line.connect(self.path)
            line.sendall(json.dumps({"door": door, "about": about, "headers": dict(headers or {})}).encode() + b"\n")
            return int(line.makefile().readline())

    def all_calls(self) -> list[dict[str, Any]]:
        """Everything that was asked for, in the order in which it came."""
        return [json.loads(line) for line in Path(self.counted).read_text(encoding="utf-8").splitlines()]

    def calls(self, about: str) -> list[dict[str, Any]]:
        """All calls about a task."""
        return [call for call in self.all_calls() if call["about"] == about]

    def happened(self, about: str) -> list[int]:
        """The receipts of what really happened about a task."""
        return [call["receipt"] for call in self.calls(about) if call["happened"]]


class WorldProcess:
    """A world of its own.

    Args:
        directory: Where its socket and its file are.
    """

    def __init__(self, directory: Path) -> None:
        self.world = World(str(directory / "world"), str(directory / "counted"))
        command = [sys.executable, __file__, self.world.path, self.world.counted]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        assert self._process.stdout.readline() == "open\n"

    def close(self) -> None:
        """Ends it."""
        self._process.communicate()


if __name__ == "__main__":
    with _Server(sys.argv[1], Path(sys.argv[2])) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print("open", flush=True)
        sys.stdin.read()
