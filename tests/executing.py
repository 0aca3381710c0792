"""`redislease exec` with real processes, as its tests run it."""

from __future__ import annotations

import subprocess
from typing import Any

from program import Mark, redislease, run
from servers import Engine, wait_until

from redislease import Queue, Task


class Exec:
    """Runs `redislease exec` on the queue of the test."""

    def __init__(self, mark: Mark, server: Engine, queue: Queue) -> None:
        self.mark = mark
        self._options = ["--queue", queue.name, "--url", server.url]
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """To its end."""
        return run(self.mark, "exec", *self._options, *arguments, timeout_s=timeout_s)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """In the background."""
        program = subprocess.Popen(
            redislease("exec", *self._options, *arguments),
            env=self.mark.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(program)
        return program

    def close(self) -> None:
        """Ends what still runs."""
        for program in self._started:
            program.kill()
            with program:
                program.wait()


def sh(script: str, *arguments: str) -> list[str]:
    """A shell script as a command."""
    return ["--", "/bin/sh", "-c", script, "sh", *arguments]


def wait_for_sleepers(mark: Mark, amount: int) -> None:
    """Waits until so many `sleep 1000` run: the heart of the commands here."""

    def sleepers() -> bool:
        return sum(line.startswith("sleep 1000") for line in mark.processes().values()) == amount

    wait_until(sleepers, 30, what=f"{amount} commands")


def add(queue: Queue, payload: Any = None, **options: Any) -> Task:
    """A task that may be repeated."""
    return queue.enqueue("work", payload, **{"side_effect": "idempotent", **options})
