"""What the server keeps of an effect, as `Queue.effects` answers it (format: `lua/lib/effects.lua`)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from redislease.errors import UNREADABLE, ServerError, reading
from redislease.models import Answer

HANDLER = "handler"
"""The implicit effect of a `non_idempotent` task that records none."""

UNREADABLE_STATE = "unreadable"
"""The state of an effect of which the record is none of ours."""


def receiver_key(queue: str, idempotency_key: str, effect: str) -> str:
    """What a receiver is sent as `Idempotency-Key`: the same for every attempt of a task at an effect.

    Args:
        queue: The queue's name.
        idempotency_key: The task's own; see `ids.own_key` for one that was given none.
        effect: The effect's key.
    """
    return "/".join(quote(part, safe=":") for part in (queue, idempotency_key, effect))


class Testimony(Answer):
    """What a worker said about its effect after it had lost the lease. It decides nothing by itself.

    Attributes:
        verdict: `done` or `not_done`.
        at: When it said so, in milliseconds of the server's clock.
        outcome: The outcome, for `done`.
        not_stored: Type, length and SHA-256 of an outcome that was too large or not JSON.
        reason: Why not, for `not_done`.
    """

    verdict: str
    at: int
    outcome: Any = None
    not_stored: dict[str, Any] | None = None
    reason: str | None = None


class EffectRecord(Answer):
    """One effect of a task as the server holds it.

    Attributes:
        key: What makes it the same effect in every attempt; `handler` is the implicit one of a task that records none.
        name: What it is called.
        state: `open`, `done`, `not_done`, or `unreadable` for a record that somebody else has written: nothing is known
            of it but its key, and the numbers here are 0.
        generation: The attempt that opened it last.
        token: The fencing token of the lease that wrote it last: that attempt's, unless a later one has tried and says
            that its own try did not happen.
        digest: Of what was asked for; none once it was closed as not done.
        opened_at: When, in milliseconds of the server's clock.
        closed_at: When its outcome was recorded or decided.
        left_open_by: The earlier attempt that had opened it and left it so, if that attempt is not the one above.
        outcome: The outcome, for `done`.
        not_stored: Type, length and SHA-256 of an outcome that was too large or not JSON.
        reason: Why not, for `not_done`.
        testimony: What its worker said of it too late.
    """

    key: str
    name: str
    state: str
    generation: int
    token: int
    opened_at: int
    digest: str | None = None
    closed_at: int | None = None
    left_open_by: int | None = None
    outcome: Any = None
    not_stored: dict[str, Any] | None = None
    reason: str | None = None
    testimony: Testimony | None = None


_STATES = ("open", "done", "not_done")
_LATE = re.compile(rb"(?P<verdict>done|not_done) (?P<at>[0-9]{1,16}) (?P<token>[0-9]{1,16}) (?P<outcome>.*)")


@dataclass(frozen=True, slots=True)
class Kept:
    """A verdict with its outcome in the stored form."""

    verdict: str
    outcome: bytes


def _found(verdict: str, stored: bytes) -> dict[str, Any]:
    """An outcome from its stored form: `{"value":…}`, `{"not_stored":…}`, or the reason of a `not_done`."""
    if not stored:
        return {}
    try:
        kept = json.loads(stored)
        if verdict == "not_done":
            return {"reason": str(kept) if kept else None}
        return {"outcome": kept.get("value"), "not_stored": kept.get("not_stored")}
    except UNREADABLE:
        return {"not_stored": {"type": UNREADABLE_STATE, "length": len(stored)}}


def _is_unreadable(found: dict[str, Any]) -> bool:
    return (found.get("not_stored") or {}).get("type") == UNREADABLE_STATE


def _testimony(line: bytes) -> Testimony | None:
    if not line:
        return None
    said = _LATE.fullmatch(line)
    if said is None:
        return None
    verdict = said["verdict"].decode()
    return Testimony(verdict=verdict, at=int(said["at"]), **_found(verdict, said["outcome"]))


def read(key: str, stored: bytes) -> EffectRecord:
    """A record from its stored form.

    Raises:
        ServerError: It is not one.
    """
    with reading(f"the record of effect {key!r}"):
        return _read(key, stored)


def _read(key: str, stored: bytes) -> EffectRecord:
    head, name, outcome, late = stored.split(b"\n")
    state, token, generation, _nonce, digest, opened_at, closed_at, left_open_by = head.decode().split(" ")
    if state not in _STATES:
        raise ValueError(state)
    return EffectRecord(
        key=key,
        name=name.decode("utf-8", "replace"),
        state=state,
        generation=int(generation),
        token=int(token),
        opened_at=int(opened_at),
        digest=None if digest == "-" else digest,
        closed_at=int(closed_at) or None,
        left_open_by=int(left_open_by.split(",")[0]) or None,
        **_found(state, outcome),
        testimony=_testimony(late),
    )


def read_any(key: str, stored: bytes) -> EffectRecord:
    """A record from its stored form; one that cannot be read hides no other."""
    try:
        return read(key, stored)
    except ServerError:
        return EffectRecord(key=key, name=key, state=UNREADABLE_STATE, generation=0, token=0, opened_at=0)


def is_under_way(stored: bytes) -> bool:
    """Whether a try of it has begun, of which the outcome is not known; an older one, in doubt again, is none."""
    words = stored.split(b" ", 4)
    return words[0] == b"open" and not (len(words) > 3 and words[3].startswith(b"-"))


def late_verdict(stored: bytes) -> Kept | None:
    """The testimony that answers an effect that is still open, as a verdict; None when there is none that can be read.

    It must come from the lease whose try the record is about, or from the one before if its try was never decided.
    """
    parts = stored.split(b"\n")
    said = _LATE.fullmatch(parts[3]) if len(parts) == 4 and parts[0].startswith(b"open ") else None
    if said is None or _is_unreadable(_found(said["verdict"].decode(), said["outcome"])):
        return None
    with reading("the record of an effect"):
        _, token, _, nonces, *_, last = parts[0].split(b" ")
        left_open_by, *earlier = last.split(b",")
        no_try = nonces.startswith(b"-")
        of_this_try = said["token"] == token and not no_try
        of_the_one_before = said["token"] in earlier[:1] and (no_try or left_open_by != b"0")
        return Kept(said["verdict"].decode(), said["outcome"]) if of_this_try or of_the_one_before else None


def implicit(generation: int, token: int, claimed_at: int) -> EffectRecord:
    """The implicit effect while it is open: nothing is kept of it but that."""
    return EffectRecord(
        key=HANDLER, name=HANDLER, state="open", generation=generation, token=token, opened_at=claimed_at
    )
