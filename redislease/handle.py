"""A lease as text."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from redislease import limits, validation
from redislease.errors import InvalidInput


class Handle(NamedTuple):
    """A lease as text, for another process of the same worker: `lease.handle()` and `queue.attach(handle)`.

    A tuple, because a busy worker makes thousands a second.
    """

    queue: str
    id: str
    owner: str
    generation: int
    token: int
    lease_ms: int = limits.LEASE_MS

    def encode(self) -> str:
        """Compact JSON."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def decode(cls, encoded: Any) -> Handle:
        """The opposite of `encode`.

        Raises:
            InvalidInput: It is not a handle.
        """
        try:
            queue, task_id, owner, generation, token, lease_ms = json.loads(encoded)
        except (ValueError, TypeError, RecursionError):
            raise InvalidInput("this is not a lease handle") from None
        return cls(
            validation.queue_name(queue),
            validation.task_id(task_id),
            validation.owner(owner),
            validation.integer(generation, "the generation", low=1, high=2**53 - 1),
            validation.integer(token, "the fencing token", low=1, high=2**53 - 1),
            validation.integer(lease_ms, "lease_ms", low=limits.LEASE_MS_MIN, high=limits.LEASE_MS_MAX),
        )
