"""Keeps leases alive from a thread of its own, on a connection of its own.

A handler that blocks the event loop therefore keeps its lease. C code that holds the interpreter's lock does not let
this thread run either.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from redislease import limits, local_clock
from redislease.commands.call import Call
from redislease.commands.hold import renew
from redislease.errors import RedisLeaseError
from redislease.lease_core import LeaseCore
from redislease.models import Lost, Renewed

_LOG = logging.getLogger("redislease.heartbeat")

PATIENCE_MIN_S = 0.02
STOP_S = 5.0


class RenewingTransport(Protocol):
    """What the heartbeat needs of a transport."""

    def run(self, call: Call[list[Renewed | Lost]], *, retry_for_s: float | None = None) -> list[Renewed | Lost]:
        """Runs a call; see `Transport.run`."""
        ...

    def close(self) -> None:
        """Closes its connections."""
        ...


class Heartbeat:
    """Renews leases at every third of their length until they are removed or lost.

    Args:
        transport: Used by this thread alone.
        on_renewal: Told how many leases were renewed, and what the one nearest to its end had left, in seconds.
    """

    def __init__(self, transport: RenewingTransport, on_renewal: Callable[[int, float], None] | None = None) -> None:
        self._transport = transport
        self._on_renewal = on_renewal
        self._lock = threading.Lock()
        self._due_s: dict[LeaseCore, float] = {}
        self._wakes_at_s = 0.0
        self._changed = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def add(self, *leases: LeaseCore) -> None:
        """Starts to renew leases."""
        if not leases:
            return
        now_s = local_clock.elapsed_s()
        due: dict[LeaseCore, float] = {}
        for lease in leases:
            beat_s = lease.heartbeat_s
            due[lease] = min(now_s + beat_s, lease.deadline_s - 2 * beat_s)
        with self._lock:
            self._due_s.update(due)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="redislease-heartbeat", daemon=True)
                self._thread.start()
            elif min(due.values()) >= self._wakes_at_s:
                return  # a busy worker adds thousands a second; the thread is woken only for what it would miss
        self._changed.set()

    def renew_all_now(self) -> None:
        """Renews every lease at once, to learn what was lost."""
        with self._lock:
            self._due_s = dict.fromkeys(self._due_s, 0.0)
        self._changed.set()

    def remove(self, *leases: LeaseCore) -> None:
        """Stops to renew leases."""
        if not leases:
            return
        with self._lock:
            for lease in leases:
                self._due_s.pop(lease, None)

    def stop(self) -> None:
        """Ends the thread; leases are left to their deadline."""
        self._stopped = True
        self._changed.set()
        if self._thread is not None:
            self._thread.join(timeout=STOP_S)
        self._transport.close()

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._beat()
            except Exception:  # noqa: BLE001 - whatever it is, the other leases need this thread
                _LOG.exception("the heartbeat goes on after an unexpected error")
                self._changed.wait(0.1)

    def _beat(self) -> None:
        """Renews what is due, or sleeps until something is."""
        self._changed.clear()
        now_s = local_clock.elapsed_s()
        with self._lock:
            due = [lease for lease, due_s in self._due_s.items() if due_s <= now_s]
            everything = list(self._due_s)
            self._wakes_at_s = min(self._due_s.values(), default=now_s + 60)
            next_s = self._wakes_at_s
        for lease in everything:
            lease.note_deadline()
        due = [lease for lease in due if not self._forget_gone(lease)]
        if due:
            due.sort(key=lambda lease: lease.deadline_s)
            self._renew(due[: limits.RENEW_BATCH], everything)
        else:
            self._changed.wait(max(next_s - now_s, 0.005))

    def _renew(self, leases: Sequence[LeaseCore], everything: Sequence[LeaseCore]) -> None:
        sent_s = local_clock.elapsed_s()
        smallest_left_s = min(lease.deadline_s for lease in leases) - sent_s
        pause_s = min(lease.heartbeat_s for lease in leases) / 5
        answers: Sequence[Renewed | Lost] | None = None
        try:
            call = renew([(lease._handle, None) for lease in leases])
            answers = self._transport.run(call, retry_for_s=self._patience_s(leases, everything, sent_s))
        except RedisLeaseError as problem:
            _LOG.warning("renewal of %d leases failed and will be repeated: %s", len(leases), problem)
        except Exception:  # noqa: BLE001 - whatever it is, the leases will be tried again
            _LOG.exception("renewal of %d leases failed unexpectedly and will be repeated", len(leases))
        if answers is None:
            self._again(leases, pause_s)
            return
        for lease, answer in zip(leases, answers, strict=True):
            lease.note_renewal(answer, sent_s)
        self._schedule(leases, sent_s)
        renewed = sum(isinstance(answer, Renewed) for answer in answers)
        if self._on_renewal and renewed:
            self._on_renewal(renewed, max(smallest_left_s, 0.0))

    @staticmethod
    def _patience_s(leases: Sequence[LeaseCore], everything: Sequence[LeaseCore], now_s: float) -> float:
        """How long a renewal may take: not beyond the next beat, nor the next deadline, of which somebody must hear."""
        beat_s = min(lease.heartbeat_s for lease in leases)
        deadlines = [lease.deadline_s - now_s for lease in everything]
        ahead_s = min((left_s for left_s in deadlines if left_s > 0), default=beat_s)
        return max(min(beat_s, ahead_s), PATIENCE_MIN_S)

    def _schedule(self, leases: Iterable[LeaseCore], sent_s: float) -> None:
        with self._lock:
            for lease in leases:
                if lease in self._due_s:
                    next_s = lease.deadline_s if lease.capped else sent_s + lease.heartbeat_s
                    self._due_s[lease] = min(max(next_s, sent_s + PATIENCE_MIN_S), lease.deadline_s)
        for lease in leases:
            self._forget_gone(lease)

    def _forget_gone(self, lease: LeaseCore) -> bool:
        """Renews a lease no more that is lost for good."""
        if lease.gone:
            self.remove(lease)
            _LOG.warning("%r is lost: %s", lease, lease.lost_reason)
        return lease.gone

    def _again(self, leases: Iterable[LeaseCore], pause_s: float) -> None:
        due_s = local_clock.elapsed_s() + pause_s
        with self._lock:
            for lease in leases:
                if lease in self._due_s:
                    # The deadline itself is a moment at which somebody must be told.
                    until_deadline = lease.deadline_s if lease.deadline_s > due_s - pause_s else due_s
                    self._due_s[lease] = min(due_s, until_deadline)
