"""The keys of the explored queue, and their values as texts: what `keyspace.lua` writes, read and made in Python."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from redislease.keys import STATES, QueueKeys

QUEUE = "q"
BASE = QueueKeys(QUEUE).base.encode()
META = BASE + b"meta"
WAKE = BASE + b"wake"
AUDIT = BASE + b"audit"
UNSETTLED = BASE + b"unsettled"
STRAY = b"x"
ORPHANS = BASE + b"orphans"
EFFECTS = BASE + b"effects:"
EVIDENCE = BASE + b"evidence:"
SIGNAL = BASE + b"signal:"
WORKER = BASE + b"worker:"
TASK = BASE + b"task:"
INDEXES = {state.encode(): BASE + state.encode() for state in STATES}
KINDS = {
    **dict.fromkeys((state.decode() for state in INDEXES), "zset"),
    **dict.fromkeys(("unsettled", "orphans", "workers", "wake", "signal"), "zset"),
    **dict.fromkeys(("meta", "payloads", "results", "progress", "task", "worker", "effects"), "hash"),
    **dict.fromkeys(("audit", "evidence"), "list"),
    "idempotency": "string",
}
"""The type of every key, by the part of its name before a colon."""

Fields = dict[bytes, bytes]
Scores = dict[bytes, int]

_CACHED = 1 << 16


def items(text: bytes) -> list[bytes]:
    """The items of a value, without its kind and expiry."""
    return text.split(b"\0")[2:-1]


@lru_cache(_CACHED)
def fields(text: bytes) -> Fields:
    """A hash. Callers do not change it."""
    flat = items(text)
    return dict(zip(flat[::2], flat[1::2], strict=True))


@lru_cache(_CACHED)
def scores(text: bytes) -> Scores:
    """A sorted set. Callers do not change it."""
    flat = items(text)
    return {member: int(score) for member, score in zip(flat[::2], flat[1::2], strict=True)}


def expiry(text: bytes) -> int | None:
    """When a key expires, in milliseconds."""
    when = text.split(b"\0", 2)[1]
    return int(when) if when else None


def text_of(kind: str, *values: bytes, ttl: int | None = None) -> bytes:
    """The text of a value: a hash or sorted set as names and values in turn, a list, or a string."""
    return b"\0".join((kind[:1].encode(), b"" if ttl is None else b"%d" % ttl, *values, b""))


def zset_text(members: Scores) -> bytes:
    """The text of a sorted set."""
    return text_of("zset", *(part for member, score in members.items() for part in (member, b"%d" % score)))


def kind_of(text: bytes) -> str:
    """The type of a value, as Redis names it."""
    return {b"h": "hash", b"z": "zset", b"l": "list", b"s": "string"}[text[:1]]


LOG_HEAD = b'{"late":'
"""How a log begins that counts late calls."""

EMPTY_LOG = text_of("list", b"-")
"""The evidence of a task to which nothing has happened."""


class EffectRecord(NamedTuple):
    """A field of `effects:ID`, as the scripts write it."""

    state: bytes
    token: bytes
    generation: bytes
    nonce: bytes
    digest: bytes
    opened_at: bytes
    closed_at: bytes
    left_open_by: bytes
    name: bytes
    outcome: bytes
    late: bytes

    def text(self) -> bytes:
        """The field."""
        return b"\n".join((b" ".join(self[:8]), *self[8:]))

    def earlier(self) -> tuple[int, bytes] | tuple[()]:
        """Token and nonce of the lease that had begun it before."""
        _, *earlier = self.left_open_by.split(b",")
        return (int(earlier[0]), earlier[1]) if earlier else ()

    def said(self) -> bytes:
        """The verdict that came too late; `inherited` when another lease than the record's says that it was done."""
        if not self.late:
            return b""
        verdict, _, token, _ = self.late.split(b" ", 3)
        return verdict if token == self.token else b"inherited"

    def told(self) -> tuple[bytes, int, bytes, bytes, bytes, bytes, tuple[bytes, ...], bool, tuple[Any, ...]]:
        """What its callers know of it, in the order of `ghost.Effect` behind task and key."""
        nonce, *spent = self.nonce.split(b",")
        return (
            self.state,
            int(self.token),
            nonce,
            self.digest,
            self.outcome,
            self.said(),
            tuple(spent),
            self.left_open_by.split(b",")[0] != b"0",
            self.earlier(),
        )


def effect_record(text: bytes) -> EffectRecord:
    """The record that a field holds."""
    head, *further = text.split(b"\n")
    return EffectRecord(*head.split(b" "), *further)
