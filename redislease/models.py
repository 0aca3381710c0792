"""What calls answer. All times are milliseconds of the server's clock, unless a name says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from redislease import ids, limits
from redislease.errors import ServerError


class SideEffect(StrEnum):
    """What a task may do to the outside world; it decides what recovery may do."""

    READ_ONLY = "read_only"
    """Nothing: it can be repeated at will."""
    IDEMPOTENT = "idempotent"
    """Something that the receiver recognises by the idempotency key: it can be repeated under the same key."""
    NON_IDEMPOTENT = "non_idempotent"
    """Something that must not happen twice: in doubt, a person decides."""


class Status(StrEnum):
    """The state of a task."""

    SCHEDULED = "scheduled"
    READY = "ready"
    APPROVED = "approved"
    LEASED = "leased"
    BLOCKED = "blocked"
    AWAITING_APPROVAL = "awaiting_approval"
    RECONCILING = "reconciling"
    DEAD = "dead"
    COMPLETED = "completed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether no worker will act on the task again by itself."""
        return self in (Status.DEAD, Status.COMPLETED, Status.CANCELLED)


class Answer(BaseModel):
    """The base of everything that is answered: immutable, and `model_dump_json()` is what `--json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Task(Answer):
    """A task as the server holds it."""

    id: str
    queue: str
    status: Status
    name: str
    side_effect: SideEffect
    records_effects: bool = False
    idempotency_key: str
    priority: int = 0
    created_at: int
    available_at: int | None = None
    lease_ms: int = limits.LEASE_MS
    lease_owner: str | None = None
    lease_expires_at: int | None = None
    runtime_deadline: int | None = None
    claim_generation: int = 0
    fencing_token: int | None = None
    claimed_at: int | None = None
    renewed_at: int | None = None
    renewals: int = 0
    attempts: int = 0
    failures: int = 0
    expirations: int = 0
    releases: int = 0
    open_effects: int = 0
    unstarted: bool = False
    max_attempts: int = limits.MAX_ATTEMPTS
    max_expirations: int = limits.MAX_EXPIRATIONS
    max_runtime_ms: int | None = None
    max_same_error: int | None = None
    credential: str | None = None
    last_error: str | None = None
    result_ref: str | None = None
    ended: str | None = None
    decided: str | None = None
    decided_by: str | None = None
    created: bool = True

    @classmethod
    def from_hash(cls, queue: str, task_id: str, fields: Mapping[str, str], *, available_at: int | None = None) -> Task:
        """A task from its hash; fields of later versions are left out."""
        known: dict[str, Any] = {name: value for name, value in fields.items() if name in cls.model_fields}
        known.setdefault("idempotency_key", ids.own_key(task_id, fields.get("nonce", "")))
        # Until it is renewed, a lease was confirmed last by its claim.
        known.setdefault("renewed_at", fields.get("claimed_at"))
        flags = {name: fields.get(name) == "1" for name in ("records_effects", "unstarted")}
        known |= {**flags, "queue": queue, "id": task_id}
        try:
            return cls.model_validate({**known, "available_at": available_at, "created": False})
        except ValidationError as problem:
            where = ", ".join(str(one["loc"][0]) for one in problem.errors())
            raise ServerError(f"the hash of task {task_id} cannot be read: {where}") from problem


class TaskDetail(Answer):
    """A task with what is stored beside its hash."""

    task: Task
    payload: dict[str, Any]
    result: Any = None
    progress: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """One item of `enqueue_many` that is in the queue.

    Attributes:
        id: The task; an existing one when it was recognised.
        created: False when the task was there before.
        status: Its state now.
        now: The server's time.
    """

    id: str
    created: bool
    status: str
    now: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """One item of `enqueue_many` that was refused.

    Attributes:
        id: The task that it collides with.
        reason: `task_conflict`, `key_conflict` or `exhausted`.
    """

    id: str
    reason: str


class Grant(NamedTuple):
    """A lease as a claim answers it, before anybody wraps it.

    `unstarted`: its holder has to say when its handler begins, because one more expiration would be the task's last.
    """

    id: str
    name: str
    side_effect: str
    generation: int
    token: int
    expires_at: int
    remaining_ms: int
    lease_ms: int
    runtime_deadline: int | None
    attempts: int
    failures: int
    priority: int
    idempotency_key: str
    retry: str
    created_at: int
    records_effects: bool
    unstarted: bool
    payload: bytes


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim answers.

    Attributes:
        grants: The leases.
        more: Whether more is waiting right now.
        paused: Whether the queue is paused.
        next_due_at: When the next task becomes due or the next lease ends, if nothing is waiting.
        now: The server's time.
    """

    grants: list[Grant]
    more: bool
    paused: bool
    next_due_at: int | None
    now: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What the end of a lease answers.

    Attributes:
        status: The task's state after it.
        due_at: When it becomes ready again, if it is scheduled.
        open_effects: Effects of unknown outcome, for a task that does not come back by itself in time.
        replay: Whether the same call had been made before.
    """

    status: str
    due_at: int | None = None
    open_effects: int = 0
    replay: bool = False


@dataclass(frozen=True, slots=True)
class Renewed:
    """What a renewal answers.

    Attributes:
        expires_at: When the lease ends now.
        remaining_ms: How long that is, by the server's clock.
        capped: Whether it cannot be extended further (`max_runtime`).
    """

    expires_at: int
    remaining_ms: int
    capped: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """Why one lease of a batch was refused; the same that `LeaseLost` says."""

    reason: str
    status: str | None
    current_generation: int | None


class Owner(Answer):
    """A registered identity; `request_number` is the first that it may claim with."""

    name: str
    request_number: int


class Decided(Answer):
    """What an operator's decision answers; `fence` fences every older holder out of a protected resource."""

    status: str
    fence: int


@dataclass(frozen=True, slots=True)
class Done:
    """An operator's finding about an effect: it happened, with this outcome."""

    outcome: Any = None


class Paused(Answer):
    """The pause state of a queue: `level` is `claims`, `effects` or '' when it is running."""

    level: str
    epoch: int


class Recovery(Answer):
    """One lease that ended by itself."""

    id: str
    cause: str
    status: str
    generation: int
    owner: str
    side_effect: str


class Reaped(Answer):
    """What a sweep did."""

    recovered: list[Recovery]
    promoted: int
    more: bool
    next_due_at: int | None
    now: int
    fence: int


class Purged(Answer):
    """What a purge deleted."""

    completed: int
    cancelled: int
    dead: int
    workers: int
    more: bool


class Problem(Answer):
    """One disagreement between an index and a hash."""

    id: str
    problem: str


class Checked(Answer):
    """What `check` found in one stretch of an index."""

    looked_at: int
    total: int
    problems: list[Problem]


class Stats(Answer):
    """A queue at a glance."""

    queue: str
    now: int
    states: dict[str, int]
    unsettled: int
    orphans: int
    workers: int
    expired: int
    overdue: int
    head_age_ms: int | None
    next_due_at: int | None
    next_expiry_at: int | None
    oldest_reconciling_at: int | None
    layout: str | None
    fence: int
    pause: str
    epoch: int
    paused_by: str | None
    paused_reason: str | None
    paused_at: int | None
    counters: dict[str, int]
