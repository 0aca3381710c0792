"""Where every task must be after a call, by the rules of the design and not by the Lua that is checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .ghost import Ghost, Lease
from .texts import Fields

if TYPE_CHECKING:
    from .view import View

TERMINAL = frozenset((b"dead", b"completed", b"cancelled"))
RETENTION_FLOOR_MS = 60_000
NEVER_SWEPT = 2**53 - 1
COUNTS_AS = {
    "expired": b"expirations",
    "max_runtime": b"expirations",
    "failed": b"failures",
    "fatal": b"failures",
    "released": b"releases",
    "revoked": b"releases",
}
DEFAULTS = {b"max_attempts": 5, b"max_expirations": 3, b"lease_ms": 60_000}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a lease ends: the cause, whether a delay was given, and whether the implicit effect is settled with it."""

    cause: str
    delayed: bool = False
    closes_handler: bool = False


@dataclass(slots=True)
class Outcome:
    """What a call did, as its caller sees it, and what it may have done beyond that.

    Attributes:
        ghost: What the callers know afterwards.
        changed: The keys that changed, with their new texts.
        now: The time afterwards.
        ended: Leases that this call ended, by task.
        swept: It also promotes what is due and recovers what has expired.
        granted: New leases.
        moved: Where a decision took a task.
        stored: Where a new task was stored.
        purges: It deletes ended tasks after their retention.
        fresh: Tasks that take a new place in the order.
        refused: It must leave everything but evidence as it was.
        testimony: The task that a refused call may still tell something about.
        died: It ended with an error, which happens only around keys of the wrong type.
        outside: The keys were changed by something other than a script.
        problems: What was wrong with the reply.
    """

    ghost: Ghost
    changed: dict[bytes, bytes]
    now: int
    ended: dict[bytes, Ending] = field(default_factory=dict)
    swept: bool = False
    granted: list[Lease] = field(default_factory=list)
    moved: dict[bytes, bytes] = field(default_factory=dict)
    stored: dict[bytes, bytes] = field(default_factory=dict)
    purges: bool = False
    fresh: set[bytes] = field(default_factory=set)
    refused: bool = False
    testimony: bytes | None = None
    died: bool = False
    outside: bool = False
    problems: list[str] = field(default_factory=list)


def number(fields: Fields, name: bytes) -> int:
    """A numeric field, by the protocol's constant when it is not stored."""
    value = fields.get(name)
    return int(value) if value is not None else DEFAULTS.get(name, 0)


def expiry_cause(fields: Fields) -> str:
    """Why a lease ended that nobody ended."""
    deadline = fields.get(b"runtime_deadline")
    return "max_runtime" if deadline and int(fields[b"lease_expires_at"]) >= int(deadline) else "expired"


def destination(fields: Fields, ending: Ending, open_effects: int) -> bytes:
    """Section 6 of the design: where a task goes when its lease ends."""
    counts = COUNTS_AS.get(ending.cause)
    failures = number(fields, b"failures") + (counts == b"failures")
    expirations = number(fields, b"expirations") + (counts == b"expirations")
    if ending.cause in ("completed", "cancelled"):
        return ending.cause.encode()
    if fields[b"side_effect"] == b"non_idempotent" and open_effects:
        return b"reconciling"
    if ending.cause == "fatal" or failures >= number(fields, b"max_attempts"):
        return b"dead"
    if expirations >= number(fields, b"max_expirations"):
        return b"dead"
    if ending.cause == "failed" or ending.delayed:
        return b"scheduled"
    return b"ready"


def recovered(view: View, task: bytes) -> Ending | None:
    """How a sweep ends the lease of a task, if it has expired."""
    fields = view.task(task)
    if fields and fields[b"status"] == b"leased" and int(fields[b"lease_expires_at"]) < view.now:
        lease = view.ghost.live(task)
        return Ending("unstarted" if lease and lease.unstarted else expiry_cause(fields))
    return None


def on_last_expiration(fields: Fields, ending: Ending | None) -> bool:
    """Whether a task that ends so has one expiration left."""
    counted = ending is not None and COUNTS_AS.get(ending.cause) == b"expirations"
    return number(fields, b"expirations") + counted + 1 >= number(fields, b"max_expirations")


def is_due(view: View, task: bytes) -> bool:
    """Whether a sweep promotes a task."""
    return view.index(b"scheduled").get(task, NEVER_SWEPT) <= view.now


def outlived(view: View, task: bytes) -> bool:
    """Whether a purge without retentions deletes a task."""
    fields = view.task(task)
    if not fields or fields[b"status"] not in TERMINAL or number(fields, b"open_effects"):
        return False
    return view.index(fields[b"status"])[task] <= view.now - RETENTION_FLOOR_MS


def expected(view: View, outcome: Outcome, task: bytes) -> bytes | None:
    """The status that a task must have after a call; None when it must not exist."""
    fields = view.task(task)
    if fields is None:
        return outcome.stored.get(task)
    status = fields[b"status"]
    ending = outcome.ended.get(task)
    if ending is None and outcome.swept:
        ending = recovered(view, task)
    if ending is not None:
        open_effects = number(fields, b"open_effects")
        if ending.closes_handler and b"handler_open" in fields:
            open_effects -= 1
        status = destination(fields, ending, open_effects)
    elif outcome.swept and status == b"scheduled" and is_due(view, task):
        status = b"ready"
    if outcome.purges and outlived(view, task):
        return None
    status = outcome.moved.get(task, status)
    if any(lease.task == task for lease in outcome.granted):
        return b"leased" if status == b"ready" else b"not to be leased: " + status
    return status
