"""Hears at once that a lease was taken away, instead of at the next heartbeat."""

from __future__ import annotations

import threading
import time

from redislease import limits
from redislease.errors import RedisLeaseError
from redislease.flow import Block, Flow
from redislease.lease import Lease
from redislease.queue import Queue

PAUSE_S = 1.0


class Listener:
    """Sleeps on the bells of the owners of running leases, and renews those leases when one rings.

    A cancel, a revoke and a recovery ring them. A bell that is not heard costs a few seconds: the heartbeat tells too.

    Args:
        queue: Of the leases.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._changed = threading.Condition()
        self._leases: set[Lease] = set()
        self._thread: threading.Thread | None = None

    def add(self, lease: Lease) -> None:
        """Listens for a lease."""
        with self._changed:
            self._leases.add(lease)
            if self._thread is None:
                # A daemon: it may sleep for some seconds when everything else has ended.
                self._thread = threading.Thread(target=self._listen, name="redislease-listener", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, lease: Lease) -> None:
        """Stops to listen for it."""
        with self._changed:
            self._leases.discard(lease)

    def _listen(self) -> None:
        while True:
            with self._changed:
                while not self._leases:
                    self._changed.wait()
                bells = sorted({self._queue.keys.signal(lease.owner) for lease in self._leases})
            try:
                if self._queue._drive(_ring(bells)):
                    self._ask()
            except (RedisLeaseError, OSError, ValueError):
                # The heartbeat complains about a server that is away; here it is only a reason to be slower.
                time.sleep(PAUSE_S)

    def _ask(self) -> None:
        with self._changed:
            leases = list(self._leases)
        if leases:
            self._queue.renew_many(leases)


def _ring(bells: list[str]) -> Flow[str | None]:
    rung: str | None = yield Block(bells, limits.BLOCK_S_MAX)
    return rung
