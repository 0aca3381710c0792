"""Who this process is to a queue, and the numbers of its claims."""

from __future__ import annotations

import os
import re
import socket
import threading

from redislease import limits, validation
from redislease.commands.claim import register
from redislease.errors import NotReplicated
from redislease.flow import Flow, Run
from redislease.models import Owner


def default_worker_name() -> str:
    """The host's name and the process id, in the characters that a worker name may have."""
    host = re.sub(r"[^A-Za-z0-9._@-]", "-", socket.gethostname().split(".", 1)[0]) or "worker"
    pid = str(os.getpid())
    return f"{host[: limits.WORKER_NAME_CHARS - len(pid) - 1]}-{pid}"


def registered(name: str, retry_for_s: float | None = None) -> Flow[Owner]:
    """Registers an identity. No replica need confirm it: one that a failover loses is unknown then, and made anew."""
    try:
        owner: Owner = yield Run(register(name), retry_for_s)
    except NotReplicated as unconfirmed:
        if not isinstance(unconfirmed.answer, Owner):
            raise
        return unconfirmed.answer
    return owner


class Identities:
    """The owners that one queue object claims as. A forked child is somebody else.

    Args:
        name: What the identity starts with; the host and process by default.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = validation.worker_name(name) if name is not None else None
        self._lock = threading.Lock()
        self._default: Owner | None = None
        self._pid = os.getpid()
        self._last_numbers: dict[str, int] = {}

    @property
    def current(self) -> Owner | None:
        """The identity of this process, if it has one already."""
        return self._default if self._pid == os.getpid() else None

    def default(self) -> Flow[Owner]:
        """The identity of this process, registered on first use."""
        known = self.current
        if known is not None:
            return known
        owner = yield from registered(self._name or default_worker_name())
        with self._lock:
            if self.current is None:
                self._default = owner
                self._pid = os.getpid()
            ours = self._default
        assert ours is not None
        return ours

    def forget(self, owner: Owner) -> None:
        """Drops an identity that the server no longer knows."""
        with self._lock:
            if self._default == owner:
                self._default = None

    def next_number(self, owner: Owner) -> int:
        """The number of the owner's next claim: one that the server has drawn since counts, if it is higher."""
        with self._lock:
            number = max(self._last_numbers.get(owner.name, 0) + 1, owner.request_number)
            self._last_numbers[owner.name] = number
            return number
