"""A worker inside a test: in a thread with a loop of its own, or as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from keyspace import Keyspace
from servers import Engine, wait_until

from redislease import Queue
from redislease.worker import Worker

END_S = 30.0


class Running:
    """A worker that runs in a thread until it is stopped."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as problem:  # noqa: BLE001 - the test wants to see it
            self.problem = problem

    def stop(self) -> None:
        """As a SIGTERM."""
        self.worker.stop()

    def join(self, timeout_s: float = END_S) -> None:
        """Waits for its end, and raises what it has raised."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the worker does not end"
        if self.problem is not None:
            raise self.problem


@contextmanager
def working(*queues: Any, **options: Any) -> Iterator[Running]:
    """A worker on some queues; it is stopped in order at the end of the block."""
    options = {"concurrency": 10, "grace": 5, "name": "w", **options}
    running = Running(Worker(list(queues), signals=False, **options))
    try:
        yield running
    finally:
        running.stop()
        running.join()


def statuses(queue: Queue, *ids: str) -> list[str]:
    """The states of some tasks."""
    return [str(queue.get(task_id).status) for task_id in ids]


def wait_status(queue: Queue, task_id: str, status: str, timeout_s: float = 10.0) -> Any:
    """Waits until a task is in a state, and returns it."""
    return wait_until(
        lambda: (found := queue.get(task_id)).status == status and found, timeout_s, what=f"{task_id} {status}"
    )


def assert_whole(engine: Engine, queue: Queue) -> None:
    """Every key of the queue is as it should be."""
    with engine.sync_client() as client:
        found = Keyspace(client, queue.keys).problems()
    assert not found, "\n".join(found)


def count(client: redis.Redis, key: str) -> int:
    """A counter that handlers of other processes increase."""
    return int(client.get(key) or 0)


class WorkerProcess:
    """`redislease worker` on a module of the tests.

    Args:
        target: `MODULE:OBJECT`.
        url: The server.
        queue: What `QUEUE` says, which the modules read.
        arguments: Options of the verb.
    """

    def __init__(self, target: str, url: str, queue: str, *arguments: str, **environment: str) -> None:
        here = str(Path(__file__).parent)
        variables = {**os.environ, "REDISLEASE_URL": url, "QUEUE": queue, "PYTHONPATH": here, **environment}
        command = [sys.executable, "-m", "redislease.cli", "worker", target, *arguments]
        self.process = subprocess.Popen(command, env=variables, cwd=here, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append(line)

    def send(self, kind: int) -> None:
        """Sends a signal."""
        os.kill(self.process.pid, kind)

    def end(self, kind: int = signal.SIGTERM, timeout_s: float = END_S) -> int:
        """Sends a signal and waits for the end; answers the exit code."""
        if self.process.poll() is None:
            self.send(kind)
        code = self.process.wait(timeout_s)
        self._reader.join(5)
        return code

    def kill(self) -> None:
        """Ends it as `kill -9` does, also when it is stopped."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._reader.join(5)
        if self.process.stderr:
            self.process.stderr.close()


@contextmanager
def processes() -> Iterator[list[WorkerProcess]]:
    """A list for worker processes, which are ended behind the block whatever happens."""
    started: list[WorkerProcess] = []
    try:
        yield started
    finally:
        for one in started:
            one.kill()


def elapsed_s(since: float) -> float:
    """Seconds since a reading of `time.monotonic`."""
    return time.monotonic() - since
