"""Kills what a dead `redislease exec` leaves behind, run as a program with nothing but the standard library.

A lease holder that dies takes its commands with it, or they would go on without authority. The kernel can do that for a
direct child on Linux; this works for the whole process group. The watchdog is told through a pipe before a command is
started, after it was started and when it has ended, and when the pipe closes it kills the groups that are left. One
whose start was announced and not confirmed is looked for by the mark in its environment; that needs `/proc`, so
elsewhere a command escapes whose parent was killed in the instant in which it was started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from types import TracebackType

VARIABLE = "REDISLEASE_EXEC"
"""Holds the mark of a command, in its environment."""

LOOK_S = 2.0
"""How long a command is looked for whose start was not confirmed: it may be about to appear."""


class Watchdog:
    """The parent's side; a watchdog that was killed itself is replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, int | None] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Watchdog:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process:
            process.communicate()

    def expect(self) -> str:
        """Announces a command that is about to be started; answers the mark for its environment."""
        mark = uuid.uuid4().hex
        self._note(mark, None)
        return mark

    def confirm(self, mark: str, group: int) -> None:
        """Tells the process group of a command that was started."""
        self._note(mark, group)

    def forget(self, mark: str) -> None:
        """Takes a command off the list: it has ended, or could not be started."""
        with self._lock:
            del self._groups[mark]
            self._tell(f"{mark} -\n")

    def _note(self, mark: str, group: int | None) -> None:
        with self._lock:
            self._groups[mark] = group
            self._tell(_line(mark, group))

    def _tell(self, line: str) -> None:
        try:
            self._write(line)
        except BrokenPipeError:
            self._start()
            self._write("".join(_line(*noted) for noted in self._groups.items()))

    def _write(self, text: str) -> None:
        if self._process and self._process.stdin:
            self._process.stdin.write(text.encode())

    def _start(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
        # In a session of its own, where neither a Ctrl-C nor the end of the terminal reaches it.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )


def _line(mark: str, group: int | None) -> str:
    return f"{mark} {'?' if group is None else group}\n"


def watch() -> None:
    """The watchdog's own side."""
    groups: dict[str, str] = {}
    for line in sys.stdin:
        mark, _, group = line.strip().partition(" ")
        if group == "-":
            groups.pop(mark, None)
        else:
            groups[mark] = group
    for group in groups.values():
        if group != "?":
            _kill(int(group))
    unconfirmed = {mark for mark, group in groups.items() if group == "?"}
    deadline = time.monotonic() + LOOK_S
    while unconfirmed and time.monotonic() < deadline:
        unconfirmed -= {mark for mark in unconfirmed if _find_and_kill(mark)}
        time.sleep(0.02)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _find_and_kill(mark: str) -> bool:
    wanted = f"{VARIABLE}={mark}".encode()
    found = False
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                _kill(os.getpgid(int(entry.name)))
                found = True
        except OSError:
            continue
    return found


if __name__ == "__main__":
    watch()
