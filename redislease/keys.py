"""Every key name, once.

All keys of a queue share one hash tag, so that its scripts work on Cluster; Lua derives the same names from the prefix
of `meta` (`lua/lib/queue.lua`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

DEFAULT_PREFIX = "redislease"

STATES = (
    "scheduled",
    "ready",
    "approved",
    "leased",
    "blocked",
    "awaiting_approval",
    "reconciling",
    "dead",
    "completed",
    "cancelled",
)
"""The states of a task; each is also the name of its index."""


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """The key names of one queue.

    Args:
        queue: The queue's name, already validated.
        prefix: What stands before the hash tag.
    """

    queue: str
    prefix: str = DEFAULT_PREFIX
    base: str = field(init=False)
    meta: str = field(init=False)
    never: str = field(init=False)

    def __post_init__(self) -> None:
        base = f"{self.prefix}:{{{self.queue}}}:"
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "meta", base + "meta")
        object.__setattr__(self, "never", base + "never")

    def index(self, state: str) -> str:
        """The sorted set of the tasks in a state."""
        return self.base + state

    def task(self, task_id: str) -> str:
        """The hash of a task."""
        return f"{self.base}task:{task_id}"

    def evidence(self, task_id: str) -> str:
        """The list of a task's evidence."""
        return f"{self.base}evidence:{task_id}"

    def effects(self, task_id: str) -> str:
        """The hash of a task's effects."""
        return f"{self.base}effects:{task_id}"

    def idempotency(self, key: str) -> str:
        """The string that holds the task of an idempotency key."""
        return f"{self.base}idempotency:{key}"

    def worker(self, owner: str) -> str:
        """The hash of a registered owner."""
        return f"{self.base}worker:{owner}"

    def signal(self, owner: str) -> str:
        """The bell that tells an owner to look at its leases."""
        return f"{self.base}signal:{owner}"

    def wake(self, lane: str = "ready") -> str:
        """The bell that idle workers of a lane wait for."""
        return self.base + ("wake" if lane == "ready" else f"wake:{lane}")

    @property
    def payloads(self) -> str:
        """The hash of payloads by task id."""
        return self.base + "payloads"

    @property
    def results(self) -> str:
        """The hash of results by task id."""
        return self.base + "results"

    @property
    def progress(self) -> str:
        """The hash of the latest progress by task id."""
        return self.base + "progress"

    @property
    def workers(self) -> str:
        """The sorted set of owners by when they were last seen."""
        return self.base + "workers"

    @property
    def audit(self) -> str:
        """The list of operator decisions."""
        return self.base + "audit"


def queues_key(prefix: str = DEFAULT_PREFIX) -> str:
    """The set of queue names, outside every hash tag."""
    return f"{prefix}:queues"
