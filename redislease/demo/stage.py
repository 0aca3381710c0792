"""Where the demonstration takes place: a server, a queue, a protected resource and the workers; all gone afterwards."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType

from redislease.connection.clients import open_clients
from redislease.connection.ephemeral import EphemeralServer
from redislease.connection.urls import redacted
from redislease.demo.process import WorkerProcess
from redislease.demo.resource import Ledger
from redislease.errors import RedisLeaseError
from redislease.keys import STATES, QueueKeys, queues_key
from redislease.queue import Queue

SHORTEST_LEASE_S = 0.6
LONGEST_LEASE_S = 3.0

OWN_KEYS = (
    "meta", "unsettled", "orphans", "payloads", "results", "progress", "audit", "workers", "wake", "wake:approved",
    "blocked_credentials",
)  # fmt: skip
TASK_KEYS = ("task", "effects", "evidence", "proposal", "approval")


class Stage:
    """A fresh queue on a server of its own, or on the user's, and a directory of its own.

    Args:
        url: The user's server; a private one by default.
        patience_s: Seconds to try a server that cannot be reached.

    Attributes:
        url: The server.
        engine: What it is.
        queue: The director's view of the queue.
        ledger: The protected resource.
        lease_s: How long leases last here: on a machine that is slow to start a worker, longer.
    """

    def __init__(self, url: str | None = None, *, patience_s: float = 5.0) -> None:
        self._given_url = url
        self._patience_s = patience_s
        self._exits = ExitStack()
        self._workers: list[WorkerProcess] = []
        self._task_ids: list[str] = []
        self.lease_s = SHORTEST_LEASE_S

    def __enter__(self) -> Stage:
        try:
            self._set_up()
        except BaseException:
            self._tear_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tear_down()

    def _tear_down(self) -> None:
        with _uninterrupted():
            self._exits.close()

    def _set_up(self) -> None:
        with _uninterrupted():
            self._directory = Path(tempfile.mkdtemp(prefix="redislease-demo-"))
            self._exits.callback(shutil.rmtree, self._directory, ignore_errors=True)
        self.ledger = Ledger(self._directory / "ledger")
        self.ledger.create()
        if self._given_url is None:
            server = EphemeralServer()
            self._exits.callback(server.stop)  # before it starts: an interruption may come right after it has
            server.start()
            self.url, self.engine = server.url, server.description
        else:
            self.url, self.engine = self._given_url, f"the server at {redacted(self._given_url)}"
        name = f"redislease-demo-{uuid.uuid4().hex[:12]}"
        self.queue = self._exits.enter_context(Queue(name, redis_url=self.url, retry_for_s=self._patience_s))
        # Asks the server whether it is there before processes are started.
        self.queue.stats()
        if self._given_url is not None:
            self._exits.callback(self._remove_keys)
        self._exits.callback(self._end_workers)

    def start(self, *roles: str) -> list[WorkerProcess]:
        """Starts workers and waits until they are ready."""
        began_s = time.monotonic()
        for role in roles:
            self._workers.append(WorkerProcess(role, self.queue.name, self.url, self._directory))
        for worker in self._workers:
            worker.hear("ready")
        self.lease_s = min(max((time.monotonic() - began_s) / 2, SHORTEST_LEASE_S), LONGEST_LEASE_S)
        return self._workers

    def enqueue(self, name: str, *, side_effect: str) -> str:
        """Stores a task and answers its id."""
        task = self.queue.enqueue(name, side_effect=side_effect, lease_duration=self.lease_s)
        self._task_ids.append(task.id)
        return task.id

    def _end_workers(self) -> None:
        for worker in self._workers:
            worker.close()

    def _remove_keys(self) -> None:
        """Deletes the queue's keys by their names, which costs a busy server nothing, as a scan would."""
        keys = self.queue.keys
        with suppress(RedisLeaseError):
            owners = [worker["owner"] for worker in self.queue.workers(limit=100)]
            names = [keys.base + name for name in (*STATES, *OWN_KEYS)]
            names += [f"{keys.base}{kind}:{task_id}" for kind in TASK_KEYS for task_id in self._task_ids]
            names += [name for owner in owners for name in (keys.worker(owner), keys.signal(owner))]
            _delete(self.url, names, keys)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Lets signals wait, so that nothing is left half removed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _delete(url: str, names: list[str], keys: QueueKeys) -> None:
    clients = open_clients(url)
    try:
        clients.client.delete(*names)
        clients.client.srem(queues_key(keys.prefix), keys.queue)
    finally:
        clients.close()
