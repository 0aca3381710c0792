"""What the reference knows of a task, of its effects and of a lease."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TERMINAL = ("completed", "cancelled", "dead")
NEVER_SWEPT = 2**53 - 1
HANDLER = "handler"


@dataclass(frozen=True)
class Held:
    """What proves a lease; may be stale, or made up."""

    id: str
    owner: str
    generation: int
    token: int


SPENT_KEPT = 8
"""So many earlier calls of an attempt at an effect are recognised when they come late."""
NO_TRY = "-"
"""In place of a nonce: no try of this lease is under way, and one of an earlier lease is in doubt."""


@dataclass
class ModelEffect:
    """An effect that was begun: by which attempt, in which call (after which others of it), for which request."""

    token: int
    generation: int
    nonce: str
    request: Any
    state: str = "open"
    outcome: Any = None
    left_open_by: int | None = None
    testimony: tuple[str, Any] | None = None
    spent: tuple[str, ...] = ()
    said_by: int = 0
    earlier: tuple[int, str] | None = None
    """Token and nonce of the lease that had begun it before."""

    @property
    def says_done(self) -> bool:
        """Whether there is testimony that it was done."""
        return self.testimony is not None and self.testimony[0] == "done"

    def over(self) -> tuple[str, ...]:
        """The nonces of the lease's tries that are over, the last first."""
        return self.spent if self.nonce == NO_TRY else (self.nonce, *self.spent)[:SPENT_KEPT]


@dataclass(frozen=True)
class Ending:
    """How the last lease ended. `verb` is the holder's own, or why it was taken away."""

    token: int
    verb: str
    status: str
    due_at: int | None = None
    open_effects: int = 0

    @property
    def by_holder(self) -> bool:
        """Whether the holder chose it."""
        return self.verb in ("complete", "fail", "release")


@dataclass(frozen=True)
class Options:
    """What a producer asks for, in the server's units."""

    name: str
    side_effect: str
    payload: Any = None
    records_effects: bool = False
    priority: int = 0
    key: str | None = None
    delay_ms: int | None = None
    lease_ms: int = 60_000
    max_attempts: int = 5
    max_expirations: int = 3
    max_runtime_ms: int | None = None
    max_same_error: int | None = None

    @property
    def identity(self) -> tuple[str, str, Any]:
        """What must be the same for two requests to be the same."""
        return self.name, self.side_effect, self.payload


@dataclass
class ModelTask:
    """One task. Times are milliseconds."""

    id: str
    nonce: str
    options: Options
    created_at: int
    status: str = ""
    since: int = 0
    due_at: int | None = None
    sequence: int | None = None
    owner: str | None = None
    generation: int = 0
    token: int | None = None
    expires_at: int | None = None
    deadline: int | None = None
    claimed_at: int | None = None
    renewed_at: int | None = None
    renewals: int = 0
    attempts: int = 0
    failures: int = 0
    expirations: int = 0
    releases: int = 0
    handler_open: bool = False
    effects: dict[str, ModelEffect] = field(default_factory=dict)
    ended: Ending | None = None
    decided: tuple[str, tuple[Any, ...]] | None = None
    unsettled_since: int | None = None
    same_error: tuple[str, int] = ("", 0)
    result: Any = None
    result_ref: str | None = None

    @property
    def open_effects(self) -> int:
        """Effects of unknown outcome, the implicit one included."""
        return sum(one.state == "open" for one in self.effects.values()) + self.handler_open

    @property
    def open_keys(self) -> list[str]:
        """The keys of those effects."""
        named = [key for key, one in self.effects.items() if one.state == "open"]
        return [*named, HANDLER] if self.handler_open else named

    @property
    def terminal(self) -> bool:
        """Whether no worker acts on it any more."""
        return self.status in TERMINAL

    @property
    def rank(self) -> tuple[int, int]:
        """Where it stands among those that are ready."""
        assert self.sequence is not None
        return -self.options.priority, self.sequence
