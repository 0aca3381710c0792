"""How many handlers may run, shared by the queues of a worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

SPLIT_FROM = 16
"""From this many places on, one claim asks for half of them, so that two calls can be under way at a time."""


class Slots:
    """Places for handlers. A claim reserves its places before it is sent, and frees those that it did not need.

    Args:
        total: How many there are.
        queues: How many queues share them.
        weights: For each queue, its share while several have work; without weights, an earlier queue goes first.
    """

    def __init__(self, total: int, queues: int, weights: Sequence[float] | None = None) -> None:
        self.total = total
        self._used = [0] * queues
        self._served = [0.0] * queues
        self._weights = weights
        self._hungry = [True] * queues
        self._on_change: list[Callable[[], None]] = []
        self._most = math.ceil(total / 2) if total >= SPLIT_FROM else total

    def on_change(self, call: Callable[[], None]) -> None:
        """What to call when places became free, or a queue has nothing more."""
        self._on_change.append(call)

    @property
    def free(self) -> int:
        """Places that nobody has."""
        return self.total - sum(self._used)

    @property
    def shared(self) -> bool:
        """Whether several queues have places here."""
        return len(self._used) > 1

    def say(self, queue: int, *, hungry: bool) -> None:
        """Whether a queue had more than it was given when it was last asked."""
        if self._hungry[queue] != hungry:
            self._hungry[queue] = hungry
            for call in self._on_change:
                call()

    def is_hungry(self, queue: int) -> bool:
        """Whether a queue is known to have more."""
        return self._hungry[queue]

    def claimable(self, queue: int) -> int:
        """How many tasks a queue may claim now."""
        free = self.free
        if free <= 0:
            return 0
        rivals = [number for number, hungry in enumerate(self._hungry) if hungry and number != queue]
        if not rivals:
            return min(free, self._most)
        if self._weights is None:
            return 0 if min(rivals) < queue else min(free, self._most)
        return min(self._share(queue, rivals, self._weights), free, self._most)

    def _share(self, queue: int, rivals: list[int], weights: Sequence[float]) -> int:
        """The part of the places that a queue's weight gives it; while they are scarce, who had least goes first."""
        together = [queue, *rivals]
        whole = sum(weights[number] for number in together)
        rooms = {
            number: max(0, math.ceil(self.total * weights[number] / whole) - self._used[number]) for number in together
        }
        if sum(rooms.values()) > self.free:
            first = min(
                (number for number in together if rooms[number]), key=lambda n: (self._served[n] / weights[n], n)
            )
            if first != queue:
                return 0
            return max(1, min(rooms[queue], self.free - sum(1 for number in rivals if rooms[number])))
        return rooms[queue]

    def reserve(self, queue: int, amount: int) -> None:
        """Takes places for a claim that will be sent."""
        self._used[queue] += amount

    def release(self, queue: int, amount: int = 1) -> None:
        """Frees places."""
        if amount:
            self._used[queue] -= amount
            for call in self._on_change:
                call()

    def serve(self, queue: int, amount: int) -> None:
        """Notes how many tasks a queue was given while others waited."""
        if any(hungry for number, hungry in enumerate(self._hungry) if number != queue):
            self._served[queue] += amount
