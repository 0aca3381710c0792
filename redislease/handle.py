"""A lease as text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from redislease import limits, validation
from redislease.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Handle:
    """A lease as text, for another process of the same worker: `lease.handle()` and `queue.attach(handle)`."""

    queue: str
    id: str
    owner: str
    generation: int
    token: int
    lease_ms: int = limits.LEASE_MS

    def encode(self) -> str:
        """Compact JSON."""
        values = [self.queue, self.id, self.owner, self.generation, self.token, self.lease_ms]
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

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
