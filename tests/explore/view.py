"""One state of the explored world, and how actions look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from .ghost import Ghost, Lease
from .texts import INDEXES, ORPHANS, TASK, Fields, Scores, fields, scores

Step = tuple[Any, ...]
"""An action and its parameters, as a trace prints it: words, numbers, and the steps that it is made around."""

START_MS = 1_800_000_000_000
LIMITED = ("back", "decide", "pause", "plant", "break", "lose")
"""Actions that a path may take only so often, by their place in `Ghost.spent`."""


class State(NamedTuple):
    """Keys, clock and callers at one moment.

    Attributes:
        texts: Every key with its value. Never changed; the next state has a copy.
        now: The server's time in milliseconds.
        ghost: What the callers know.
    """

    texts: dict[bytes, bytes]
    now: int
    ghost: Ghost


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A task that the world may hold.

    Attributes:
        id: Its id.
        side_effect: Its class.
        stored_with: Further fields of enqueue.
    """

    id: bytes
    side_effect: str
    stored_with: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def has_implicit_effect(self) -> bool:
        """Whether a claim opens the effect `handler`."""
        return self.side_effect == "non_idempotent" and not self.stored_with.get("records_effects")


@dataclass(frozen=True, slots=True)
class Scope:
    """What is explored.

    Attributes:
        name: How it is called.
        tasks: The tasks.
        actions: The actions, by name, in the order in which they are tried.
        limits: How often a path may take the limited actions; none if not named.
        roots: Where the exploration starts: each a path from the empty queue.
        workers: The workers.
        stores: How many times each task may be stored.
        remembered: How many leases of a task, and how many decisions, are remembered.
        losses: How many of the last writes a restart may lose.
    """

    name: str
    tasks: tuple[TaskKind, ...]
    actions: tuple[str, ...]
    limits: Mapping[str, int] = field(default_factory=dict)
    roots: tuple[tuple[Step, ...], ...] = ((),)
    workers: tuple[bytes, ...] = (b"w-1", b"w-2")
    stores: int = 2
    remembered: int = 3
    losses: int = 2

    def task(self, task_id: bytes) -> TaskKind:
        """The task of an id."""
        return next(kind for kind in self.tasks if kind.id == task_id)


class View:
    """A state, read.

    Args:
        scope: What is explored.
        state: The state.
    """

    def __init__(self, scope: Scope, state: State) -> None:
        self.scope = scope
        self.state = state
        self.texts = state.texts
        self.now = state.now
        self.ghost = state.ghost
        self._tasks: dict[bytes, Fields | None] = {}

    def task(self, task_id: bytes) -> Fields | None:
        """The hash of a task, or None."""
        if task_id not in self._tasks:
            text = self.texts.get(TASK + task_id)
            self._tasks[task_id] = fields(text) if text and text[:1] == b"h" else None
        return self._tasks[task_id]

    def index(self, status: bytes) -> Scores:
        """The members of a state's index."""
        text = self.texts.get(INDEXES[status])
        return scores(text) if text else {}

    def orphans(self) -> set[bytes]:
        """Ids that were set aside."""
        text = self.texts.get(ORPHANS)
        return set(scores(text)) if text else set()

    def hash(self, key: bytes) -> Fields:
        """Any hash; empty when there is none."""
        text = self.texts.get(key)
        return fields(text) if text else {}

    @cached_property
    def holders(self) -> list[Lease]:
        """Leases whose holders may act."""
        return [lease for lease in self.ghost.leases if lease.holds(self.now)]

    def spent(self, limited: str) -> int:
        """How often the path took a limited action."""
        return self.ghost.spent[LIMITED.index(limited)]

    def may(self, limited: str) -> bool:
        """Whether the path may take a limited action once more."""
        return self.spent(limited) < self.scope.limits.get(limited, 0)

    def spend(self, limited: str) -> Ghost:
        """The ghost after taking a limited action."""
        return self.ghost.spend(LIMITED.index(limited))
