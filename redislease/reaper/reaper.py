"""The reaper: sleeps until something is over, and puts it where it belongs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from redislease import limits, validation
from redislease.errors import ConfigurationError, RedisLeaseError
from redislease.models import Recovery
from redislease.queue import Queue
from redislease.reaper.retention import Retention

LOG = logging.getLogger("redislease.reaper")

SLEEP_S_MIN = 0.05
SLEEP_S_MAX = 1.0
"""What becomes due or ends earlier than was foreseen is found after this long at the latest."""
PURGE_EVERY_S_MAX = 60.0
PURGE_EVERY_S_MIN = 1.0
LIST_EVERY_S = 10.0


@dataclass(slots=True)
class Watch:
    """One queue of a reaper, by the local clock.

    Attributes:
        queue: The queue.
        look_at_s: When to look at it next.
        purge_at_s: When to purge it next.
        troubled: Whether the last look failed.
    """

    queue: Queue
    look_at_s: float = 0.0
    purge_at_s: float = 0.0
    troubled: bool = False


class Reaper:
    """Recovers expired leases, promotes due tasks and deletes what has outlived its retention.

    Any number may run at once, for the same queues: every step is atomic, and none leads.

    Args:
        queues: The queues; or what lists them, which is asked again every ten seconds.
        retention: How long ended tasks are kept; None deletes nothing.
        limit: How many leases and due tasks one call handles, 1 to 1,000.
        on_recovery: Told of each recovery, with the queue's name.

    Raises:
        ConfigurationError: There is no queue.
    """

    def __init__(
        self,
        queues: Sequence[Queue] | Callable[[], Sequence[Queue]],
        *,
        retention: Retention | None = Retention(),  # noqa: B008 - immutable
        limit: int = limits.REAP,
        on_recovery: Callable[[str, Recovery], None] | None = None,
    ) -> None:
        if not callable(queues) and not queues:
            raise ConfigurationError("a reaper needs a queue")
        self._list = queues if callable(queues) else lambda: queues
        self._retention = retention
        self._limit = validation.integer(limit, "limit", low=1, high=limits.BATCH)
        self._on_recovery = on_recovery
        self._watches: dict[str, Watch] = {}
        self._list_at_s = 0.0
        self._announced = False
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ends `run` after the call that is under way; from any thread, or a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Works until `stop` is called; a server that cannot be reached is tried again."""
        self._list_queues()
        self._announce()
        while not self._stopped.is_set():
            self._stopped.wait(self.step())

    def _announce(self) -> None:
        """One line about what it looks after, and what it deletes."""
        self._announced = True
        kept = {} if self._retention is None else asdict(self._retention)
        names = list(self._watches)
        LOG.info(
            "started queues=%s limit=%d %s",
            ",".join(names) or "none",
            self._limit,
            " ".join(f"{state}={'never' if s is None else f'{s:.10g}'}" for state, s in kept.items()) or "purge=no",
            extra={
                "redislease": {"event": "started", "queues": names, "limit": self._limit, "retention": kept or None}
            },
        )

    def queues(self) -> list[Queue]:
        """The queues that it looks after now."""
        return [watch.queue for watch in list(self._watches.values())]

    def step(self) -> float:
        """Does what is due everywhere, once; answers how many seconds it can sleep."""
        self._list_queues()
        for watch in self._watches.values():
            if watch.look_at_s <= time.monotonic() and not self._stopped.is_set():
                self._look(watch)
        next_s = min((watch.look_at_s for watch in self._watches.values()), default=time.monotonic() + SLEEP_S_MAX)
        return min(max(next_s - time.monotonic(), SLEEP_S_MIN), SLEEP_S_MAX)

    def _list_queues(self) -> None:
        if self._watches and time.monotonic() < self._list_at_s:
            return
        self._list_at_s = time.monotonic() + LIST_EVERY_S
        try:
            for queue in self._list():
                if queue.name not in self._watches:
                    self._watches[queue.name] = Watch(queue)
                    if self._announced:
                        event = {"event": "queue_found", "queue": queue.name}
                        LOG.info("looks after queue=%s too", queue.name, extra={"redislease": event})
        except RedisLeaseError as problem:
            LOG.warning("the queues cannot be listed: %s", problem)

    def _look(self, watch: Watch) -> None:
        try:
            pause_s = self._reap(watch)
            if self._retention is not None and watch.purge_at_s <= time.monotonic():
                watch.purge_at_s = time.monotonic() + self._purge(watch.queue, self._retention)
        except ConfigurationError:
            raise
        except RedisLeaseError as problem:
            if not watch.troubled:
                LOG.warning("queue %s: %s", watch.queue.name, problem)
            watch.troubled = True
            pause_s = SLEEP_S_MAX
        else:
            if watch.troubled:
                LOG.warning("queue %s: the server answers again", watch.queue.name)
            watch.troubled = False
        watch.look_at_s = time.monotonic() + pause_s

    def _reap(self, watch: Watch) -> float:
        """One bounded sweep; answers how many seconds until the next."""
        queue = watch.queue
        reaped = queue.reap(self._limit)
        for one in reaped.recovered:
            LOG.info(
                "recovered queue=%s task=%s side_effect=%s cause=%s to=%s generation=%d owner=%s",
                *(queue.name, one.id, one.side_effect, one.cause, one.status, one.generation, one.owner),
                extra={"redislease": {"event": "recovered", "queue": queue.name, **one.model_dump()}},
            )
            if self._on_recovery:
                self._on_recovery(queue.name, one)
        if reaped.more:
            return 0.0
        if reaped.next_due_at is None:
            return SLEEP_S_MAX
        return min(max((reaped.next_due_at - reaped.now) / 1000, SLEEP_S_MIN), SLEEP_S_MAX)

    def _purge(self, queue: Queue, retention: Retention) -> float:
        """One bounded purge; answers how many seconds until the next."""
        purged = queue._drive(retention.purge())
        counts = {"completed": purged.completed, "cancelled": purged.cancelled, "dead": purged.dead}
        if any(counts.values()) or purged.workers:
            LOG.info(
                "purged queue=%s completed=%d cancelled=%d dead=%d workers=%d",
                *(queue.name, *counts.values(), purged.workers),
                extra={"redislease": {"event": "purged", "queue": queue.name, **counts, "workers": purged.workers}},
            )
        if purged.more:
            return 0.0
        deadline = queue._drive(retention.next_deadline(queue.keys))
        if deadline is None:
            return PURGE_EVERY_S_MAX
        left_s = (deadline - queue.stats().now) / 1000
        return min(max(left_s, PURGE_EVERY_S_MIN), PURGE_EVERY_S_MAX)
