"""How many handlers may run, shared by the queues of a worker."""

from __future__ import annotations


class Slots:
    """Places for running handlers.

    Args:
        total: How many there are.
        weights: For each queue, its share while several have work; without weights, an earlier queue goes first.
    """

    def __init__(self, total: int, queues: int, weights: list[float] | None = None) -> None:
        self.total = total
        self.used = 0
        self._weights = weights
        self._hungry = [True] * queues

    @property
    def free(self) -> int:
        """Places that nobody has."""
        return self.total - self.used

    def say(self, queue: int, *, hungry: bool) -> None:
        """Whether a queue had more than it was given when it was last asked."""
        self._hungry[queue] = hungry

    def claimable(self, queue: int) -> int:
        """How many tasks a queue may claim now."""
        if self.free <= 0:
            return 0
        if self._weights is None:
            return 0 if any(self._hungry[:queue]) else self.free
        rivals = sum(weight for number, weight in enumerate(self._weights) if self._hungry[number] or number == queue)
        return max(1, int(self.free * self._weights[queue] / rivals))
