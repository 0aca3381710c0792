"""What can be told about a worker while it works: the base of its log lines and its metrics."""

from __future__ import annotations

import logging
from typing import Any

from redislease.lease_core import LeaseCore

EVENTS = logging.getLogger("redislease.events")


class Observer:
    """Is told of every lease event. Methods are called from any thread, and must be quick and raise nothing."""

    def claimed(self, lease: LeaseCore) -> None:
        """A task was claimed."""

    def ended(self, lease: LeaseCore, verb: str, status: str) -> None:
        """The end of a lease was recorded.

        Args:
            lease: The lease.
            verb: `complete`, `fail` or `release`.
            status: The task's state after it.
        """

    def lost(self, lease: LeaseCore, reason: str) -> None:
        """A lease was lost, or the local deadline has passed."""

    def handled(self, lease: LeaseCore, seconds: float) -> None:
        """A handler has ended, however it did."""

    def renewed(self, queue: str, amount: int, smallest_left_s: float) -> None:
        """Leases were renewed; the one that was nearest to its end had so many seconds left."""


class EventLog(Observer):
    """One line for each lease event, as `event key=value …`; the values are also in the record's `redislease`."""

    def claimed(self, lease: LeaseCore) -> None:
        self._say("claimed", lease)

    def ended(self, lease: LeaseCore, verb: str, status: str) -> None:
        self._say("ended", lease, verb=verb, status=status)

    def lost(self, lease: LeaseCore, reason: str) -> None:
        self._say("lost", lease, reason=reason)

    @staticmethod
    def _say(event: str, lease: LeaseCore, **more: Any) -> None:
        values: dict[str, Any] = {
            "queue": lease._handle.queue,
            "task": lease.id,
            "name": lease._grant.name,
            "generation": lease.generation,
            "token": lease.fencing_token,
            "owner": lease.owner,
            **more,
        }
        line = " ".join(f"{name}={_shown(value)}" for name, value in values.items())
        EVENTS.info("%s %s", event, line, extra={"redislease": {"event": event, **values}})


def _shown(value: Any) -> str:
    """A value that stays one word: names are the application's, and may hold spaces."""
    text = str(value)
    return text if text.isprintable() and " " not in text and '"' not in text else repr(text)


class Observers(Observer):
    """Several observers as one; false when there are none.

    Args:
        observers: Whom to tell.
    """

    def __init__(self, observers: list[Observer]) -> None:
        self._observers = observers

    def __bool__(self) -> bool:
        return bool(self._observers)

    def claimed(self, lease: LeaseCore) -> None:
        for one in self._observers:
            one.claimed(lease)

    def ended(self, lease: LeaseCore, verb: str, status: str) -> None:
        for one in self._observers:
            one.ended(lease, verb, status)

    def lost(self, lease: LeaseCore, reason: str) -> None:
        for one in self._observers:
            one.lost(lease, reason)

    def handled(self, lease: LeaseCore, seconds: float) -> None:
        for one in self._observers:
            one.handled(lease, seconds)

    def renewed(self, queue: str, amount: int, smallest_left_s: float) -> None:
        for one in self._observers:
            one.renewed(queue, amount, smallest_left_s)
