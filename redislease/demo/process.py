"""A worker of the demonstration as its director sees it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ANSWER_S = 30.0
STOP_S = 5.0


class WorkerSilent(Exception):
    """A worker did not do what it had to do next."""


class WorkerProcess:
    """A worker in a process of its own.

    It is in a process group of its own, where no Ctrl-C reaches it, and in this session: if this process is killed, the
    system wakes what is stopped in orphaned groups with SIGHUP, so that not even a stopped worker stays behind.

    Args:
        role: Which of `redislease.demo.worker`.
        queue: The queue's name.
        url: The server, handed over in the environment.
        directory: Where the ledger is, and the worker's log.
    """

    def __init__(self, role: str, queue: str, url: str, directory: Path) -> None:
        self.role = role
        self._log = directory / f"{role}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "redislease.demo.worker", role, queue, str(directory / "ledger")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "REDISLEASE_URL": url},
                process_group=0,
            )
        self._unread = b""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def hear(self, event: str, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """Waits for its next line, which must be about `event`.

        Raises:
            WorkerSilent: It ended, said something else, or nothing.
        """
        deadline = time.monotonic() + timeout_s
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            readable, _, _ = select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))
            if not readable:
                raise WorkerSilent(f"worker {self.role} did not say {event!r} within {timeout_s:g} s")
            chunk = os.read(descriptor, 65_536)
            if not chunk:
                raise WorkerSilent(f"worker {self.role} ended: {self._last_words()}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        if said["event"] != event:
            raise WorkerSilent(f"worker {self.role} said {said['event']!r} instead of {event!r}")
        return said

    def send_news(self) -> None:
        """Gives it what it waits for. A stopped process finds it when it runs again."""
        assert self._process.stdin
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerSilent(f"worker {self.role} ended: {self._last_words()}") from None

    def stop(self) -> str:
        """Stops it with SIGSTOP and answers its state as the system shows it: `T` when it really is stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        return self._state_after("T")

    def resume(self) -> str:
        """Lets it run again and answers its state."""
        os.kill(self.pid, signal.SIGCONT)
        return self._state_after("RSD")

    def kill(self) -> str:
        """Ends it as `kill -9` does and answers how it ended."""
        self._process.kill()
        return signal.Signals(-self._process.wait(ANSWER_S)).name

    def close(self) -> None:
        """Ends it if it still runs; a second call does nothing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _state_after(self, wanted: str) -> str:
        deadline = time.monotonic() + STOP_S
        while (state := process_state(self.pid)) not in wanted and time.monotonic() < deadline:
            time.sleep(0.002)
        return state

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it left no message"


def process_state(pid: int) -> str:
    """The state of a process as one letter: R, S, D running or waiting, T stopped, Z ended; '?' if nobody knows."""
    try:
        # The name before it, in parentheses, may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return found.stdout.strip()[:1] or "?"
