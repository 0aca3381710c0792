"""Runs the program in processes that can be found again, however they were started: by a mark in their environment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from servers import PROGRAMS, Engine, missing, start_engine

VARIABLE = "REDISLEASE_TEST_MARK"


class Mark:
    """A mark that children inherit.

    Args:
        directory: Their temporary directory, which must be empty in the end.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._value = f"{VARIABLE}={uuid.uuid4().hex}"

    @property
    def environment(self) -> dict[str, str]:
        """An environment with the mark, without settings of the user's."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("REDISLEASE_")}
        name, _, value = self._value.partition("=")
        return {**kept, name: value, "TMPDIR": str(self.directory)}

    def processes(self) -> dict[int, str]:
        """The command lines of all processes that carry the mark, by process id; those of zombies are empty."""
        return {pid: _command(pid) for pid in _pids() if self._value.encode() in _environment(pid).split(b"\0")}

    def wait_gone(self, timeout_s: float = 15.0) -> None:
        """Waits until no process carries the mark.

        Raises:
            AssertionError: One still does.
        """
        deadline = time.monotonic() + timeout_s
        while left := self.processes():
            assert time.monotonic() < deadline, f"still running: {left}"
            time.sleep(0.02)

    def kill_rest(self) -> None:
        """Ends what is left, so that a failing test leaves nothing either."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, 9)


@contextmanager
def marked(directory: Path) -> Iterator[Mark]:
    """A mark whose processes are ended behind the block."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc")
    mark = Mark(directory)
    try:
        yield mark
    finally:
        mark.kill_rest()


@contextmanager
def one_server() -> Iterator[Engine]:
    """One server program, whichever is there first: for what does not depend on the engine."""
    name = next((name for name, program in PROGRAMS.items() if program.find()), None)
    if name is None:
        missing("a server program")
    assert name
    engine = start_engine(name)
    try:
        yield engine
    finally:
        engine.close()


def redislease(*arguments: str) -> list[str]:
    """The command line of the program."""
    return [sys.executable, "-m", "redislease.cli", *arguments]


def run(mark: Mark, *arguments: str, timeout_s: float = 100.0, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end."""
    settings = {"env": mark.environment, **options}
    return subprocess.run(
        redislease(*arguments), capture_output=True, text=True, timeout=timeout_s, check=False, **settings
    )


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
