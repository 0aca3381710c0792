"""Keeps leases alive from a thread of its own, on a connection of its own.

A handler that blocks the event loop therefore keeps its lease. C code that holds the interpreter's lock does not let
this thread run either.
"""

from __future__ import annotations

import logging
import threading

from redislease import limits, local_clock
from redislease.commands.hold import renew
from redislease.connection.transport import Transport
from redislease.errors import RedisLeaseError
from redislease.lease_core import LeaseCore

_LOG = logging.getLogger("redislease.heartbeat")


class Heartbeat:
    """Renews leases at every third of their length until they are removed or lost.

    Args:
        transport: Used by this thread alone.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._due_s: dict[LeaseCore, float] = {}
        self._wakes_at_s = 0.0
        self._changed = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def add(self, lease: LeaseCore) -> None:
        """Starts to renew a lease."""
        due_s = local_clock.elapsed_s() + self._interval_s(lease)
        with self._lock:
            self._due_s[lease] = due_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="redislease-heartbeat", daemon=True)
                self._thread.start()
            elif due_s >= self._wakes_at_s:
                return  # a busy worker adds thousands a second; the thread is woken only for what it would miss
        self._changed.set()

    def renew_all_now(self) -> None:
        """Renews every lease at once, to learn what was lost."""
        with self._lock:
            self._due_s = dict.fromkeys(self._due_s, 0.0)
        self._changed.set()

    def remove(self, lease: LeaseCore) -> None:
        """Stops to renew a lease."""
        with self._lock:
            self._due_s.pop(lease, None)

    def stop(self) -> None:
        """Ends the thread; leases are left to their deadline."""
        self._stopped = True
        self._changed.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._transport.close()

    @staticmethod
    def _interval_s(lease: LeaseCore) -> float:
        return lease.task.lease_ms / 1000 / limits.HEARTBEATS_PER_LEASE

    def _run(self) -> None:
        while not self._stopped:
            self._changed.clear()
            now_s = local_clock.elapsed_s()
            with self._lock:
                due = [lease for lease, due_s in self._due_s.items() if due_s <= now_s][: limits.RENEW_BATCH]
                self._wakes_at_s = min(self._due_s.values(), default=now_s + 60)
                next_s = self._wakes_at_s
            for lease in due:
                lease.note_deadline()
            if due:
                self._renew(due)
            else:
                self._changed.wait(max(next_s - now_s, 0.005))

    def _renew(self, leases: list[LeaseCore]) -> None:
        sent_s = local_clock.elapsed_s()
        shortest_s = min(self._interval_s(lease) for lease in leases)
        try:
            call = renew([(lease._handle, None) for lease in leases])
            # Not beyond the first deadline: whoever works on that task must be told in time.
            until_deadline_s = min(lease.deadline_s for lease in leases) - sent_s
            answers = self._transport.run(call, retry_for_s=max(min(shortest_s, until_deadline_s), 0.05))
        except RedisLeaseError as problem:
            _LOG.warning("renewal of %d leases failed and will be repeated: %s", len(leases), problem)
            self._again(leases, shortest_s / 5)
            return
        except Exception:  # noqa: BLE001 - whatever it is, the other leases need this thread
            _LOG.exception("renewal of %d leases failed unexpectedly and will be repeated", len(leases))
            self._again(leases, shortest_s / 5)
            return
        for lease, answer in zip(leases, answers, strict=True):
            lease.note_renewal(answer, sent_s)
        self._schedule(leases, sent_s)

    def _schedule(self, leases: list[LeaseCore], sent_s: float) -> None:
        with self._lock:
            for lease in leases:
                if lease not in self._due_s:
                    continue
                if lease.lost_reason not in (None, "deadline"):
                    del self._due_s[lease]
                    _LOG.warning("%r is lost: %s", lease, lease.lost_reason)
                else:
                    self._due_s[lease] = min(sent_s + self._interval_s(lease), lease.deadline_s)

    def _again(self, leases: list[LeaseCore], pause_s: float) -> None:
        with self._lock:
            for lease in leases:
                if lease in self._due_s:
                    self._due_s[lease] = local_clock.elapsed_s() + pause_s
