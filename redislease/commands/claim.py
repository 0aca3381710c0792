"""Identities and claims. Scripts: `register`, `claim`."""

from __future__ import annotations

from typing import Any

from redislease import ids, limits, validation
from redislease.commands.call import Call, Reply
from redislease.commands.replies import groups, optional_int, text
from redislease.errors import InvalidInput, QueueExhausted, ServerUnavailable, WorkerUnknown
from redislease.models import Claimed, Grant, Owner
from redislease.scripts import shipped

LANES = ("ready", "approved")


def register(name: str, *, owner: str = "") -> Call[Owner]:
    """Registers a new identity, or draws a request number for one that exists. Script: `register`.

    Raises:
        InvalidInput: The name is not acceptable.
        WorkerUnknown: `owner` is not registered.
        QueueExhausted: There are no identities left.
    """
    checked_owner = validation.owner(owner) if owner else ""
    args = shipped()["register"].bind(name=validation.worker_name(name), owner=checked_owner)
    return Call("register", args, _parse_register)


def _parse_register(reply: Reply) -> Owner:
    word = text(reply[0])
    if word == "unknown_worker":
        raise WorkerUnknown
    if word == "exhausted":
        raise _exhausted(reply)
    return Owner(name=text(reply[1]), request_number=int(reply[2]))


def _exhausted(reply: Reply) -> QueueExhausted:
    return QueueExhausted(f"the queue's {text(reply[1])} has reached its limit")


def lane(value: str) -> str:
    """The name of a lane.

    Raises:
        InvalidInput: There is no such lane.
    """
    if value not in LANES:
        raise InvalidInput(f"lane must be one of {', '.join(LANES)}, not {validation.shown(value)}")
    return value


def claim(
    owner: str, request_number: int, *, limit: int = 1, lane: str = "ready", started: bool = True
) -> Call[Claimed]:
    """Leases up to `limit` tasks. Script: `claim`.

    Args:
        owner: A registered identity.
        request_number: 1, 2, 3 … of this owner. The same number claims nothing new and answers what is still held.
        limit: At most this many, 0 to 1,000; 0 probes the path.
        lane: `ready` or `approved`.
        started: The holder acts at once, so the implicit effect of a task that records none opens here.

    Raises:
        WorkerUnknown: The owner is not registered.
    """
    return Call(
        "claim", shipped()["claim"].bind(**claim_args(owner, request_number, limit, lane, started)), parse_claim
    )


def claim_args(owner: str, request_number: int, limit: int, lane_name: str, started: bool) -> dict[str, str | int]:
    """The arguments of a claim, for `claim` itself and for `complete` with the next claim."""
    return {
        "owner": owner,
        "lane": lane(lane_name),
        "limit": validation.integer(limit, "limit", low=0, high=limits.BATCH),
        "request_number": request_number,
        "started": "1" if started else "0",
    }


def _grant(group: tuple[Any, ...], now: int) -> Grant:
    """One lease; positional, and each value read once, since a busy worker reads thousands a second."""
    task_id = group[0].decode("utf-8", "replace")
    expires_at = int(group[5])
    rare = _rare(group[8]) if group[8] else _NOTHING
    deadline = rare.get("runtime_deadline")
    return Grant(
        task_id,
        group[1].decode("utf-8", "replace"),
        group[2].decode("utf-8", "replace"),
        int(group[3]),
        int(group[4]),
        expires_at,
        expires_at - now,
        int(rare.get("lease_ms") or limits.LEASE_MS),
        int(deadline) if deadline else None,
        int(group[6]),
        int(rare.get("failures") or 0),
        int(rare.get("priority") or 0),
        rare.get("idempotency_key") or ids.own_key(task_id, rare.get("nonce", "")),
        rare.get("retry", ""),
        int(group[7]),
        "records_effects" in rare,
        "unstarted" in rare,
        group[9],
    )


_NOTHING: dict[str, str] = {}


def _rare(lines: bytes) -> dict[str, str]:
    """The fields that most tasks do not have: a line with name and value for each."""
    found = {}
    for line in lines.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition(" ")
        found[name] = value
    return found


def parse_claim(reply: Reply) -> Claimed:
    """Reads the answer of a claim.

    Raises:
        WorkerUnknown: The owner is not registered.
        QueueExhausted: The fence has reached its limit.
        ServerUnavailable: A claim was repeated after sixteen newer ones; what it held ends on its deadline.
    """
    word = text(reply[0])
    if word == "unknown_worker":
        raise WorkerUnknown
    if word == "stale_request":
        raise ServerUnavailable("the reply of a claim was lost and newer claims have replaced its record")
    if word == "exhausted":
        raise _exhausted(reply)
    now = int(reply[3])
    return Claimed(
        grants=[_grant(group, now) for group in groups(reply, 6, int(reply[5]), int(reply[4]))],
        more=text(reply[1]) == "1",
        paused=word == "paused",
        next_due_at=optional_int(reply[2]),
        now=now,
    )
