"""Effects on the outside world. Scripts: `intent`, `outcome`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from redislease import encoding, limits, validation
from redislease.commands.call import Call, Reply
from redislease.commands.hold import FIRST_ANSWER, batch, each, held
from redislease.effect_records import HANDLER
from redislease.errors import InvalidInput
from redislease.handle import Handle
from redislease.models import Lost
from redislease.scripts import shipped


class Intent(NamedTuple):
    """An effect that is about to happen.

    Attributes:
        handle: The lease.
        key: What makes it the same effect in a later attempt.
        nonce: What makes a second call within one attempt another call.
        name: What it is called.
        digest: Of the request.
    """

    handle: Handle
    key: str
    nonce: str
    name: str
    digest: str


class Intended(NamedTuple):
    """What an intent answers.

    Attributes:
        word: `open`: go ahead · `done`: take the outcome · `reused`, `ambiguous`, `conflict`, `paused`, `read_only`,
            `too_many`: do not.
        outcome: The recorded outcome, stored form, for `done`.
        at: When the earlier attempt recorded it, in milliseconds of the server's clock.
        generation: Of the earlier attempt.
        again: Whether an earlier attempt had opened the same effect.
    """

    word: str
    outcome: bytes = b""
    at: int | None = None
    generation: int | None = None
    again: bool = False


class Verdict(NamedTuple):
    """What became of an effect: `done` with its stored outcome, or `not_done`."""

    handle: Handle
    key: str
    nonce: str
    verdict: str
    outcome: bytes = b""


class Recorded(NamedTuple):
    """What an outcome answers: `ok`, `unknown_effect`, or `closed` with the state that it has."""

    word: str
    detail: str = ""
    replay: bool = False


def effect_key(value: Any, what: str = "the effect") -> str:
    """A checked name or key: 1 to 128 bytes without control characters, and not the implicit effect's."""
    key = validation.text(value, what, max_bytes=limits.NAME_BYTES)
    if key == HANDLER:
        raise InvalidInput(f"{HANDLER!r} names the implicit effect; give this one another name")
    return key


def request_digest(request: Any) -> str:
    """The digest of a request: equal requests, whatever the order of their keys, have equal digests."""
    canonical = encoding.to_json(request, "request", max_bytes=limits.PAYLOAD_BYTES, in_order=True)
    return hashlib.sha256(canonical).hexdigest()[:32]


def encode_outcome(value: Any) -> bytes:
    """The stored form of an outcome, which is never refused.

    One over 16 KiB, or one that is not JSON, is stored as its type, length and digest.
    """
    return stored_outcome(value)[0]


def stored_outcome(value: Any) -> tuple[bytes, bytes | None]:
    """The stored form of an outcome, and the whole of it as JSON; None for what is not JSON."""
    try:
        whole = encoding.to_json(value, "outcome", max_bytes=limits.PAYLOAD_BYTES * 64)
    except Exception:  # noqa: BLE001 - it may do anything while it is written, and has happened all the same
        return _digest_only(value, _described(value).encode("utf-8", "replace")), None
    if len(whole) > limits.OUTCOME_BYTES:
        return _digest_only(value, whole), whole
    return b'{"value":' + whole + b"}", whole


def _described(value: Any) -> str:
    """The `repr` of a value; of one that has none (nested too deeply, an enormous number) its type."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - whatever it is, an outcome is never refused
        return f"<{type(value).__name__}>"


def _digest_only(value: Any, whole: bytes) -> bytes:
    kept = {"type": type(value).__name__, "length": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
    return json.dumps({"not_stored": kept}, separators=(",", ":")).encode()


def intent(intents: Sequence[Intent]) -> Call[list[Intended | Lost]]:
    """Records effects before they happen. Script: `intent`."""
    batch(len(intents), limits.SETTLE_BATCH)
    rows = [(*held(handle), key, nonce, name, digest) for handle, key, nonce, name, digest in intents]
    return Call("intent", shipped()["intent"].bind(rows), _parse_intents, answers=len(rows))


def _parse_intents(reply: Reply) -> list[Intended | Lost]:
    return each(reply[FIRST_ANSWER:], _read_intended)


def _read_intended(answer: str) -> Intended:
    word, *rest = answer.split(" ", 3)
    if word == "done":
        at, generation, stored = rest
        return Intended(word, stored.encode(), int(at), int(generation))
    if len(rest) == 2:
        return Intended(word, at=int(rest[0]), generation=int(rest[1]))
    return Intended(word, again=bool(rest))


def outcome(verdicts: Sequence[Verdict]) -> Call[list[Recorded | Lost]]:
    """Records what became of effects. Script: `outcome`."""
    batch(len(verdicts), limits.SETTLE_BATCH)
    rows = [(*held(handle), key, nonce, verdict, stored) for handle, key, nonce, verdict, stored in verdicts]
    return Call("outcome", shipped()["outcome"].bind(rows), _parse_outcomes, answers=len(rows))


def _parse_outcomes(reply: Reply) -> list[Recorded | Lost]:
    return each(reply[FIRST_ANSWER:], _read_recorded)


def _read_recorded(answer: str) -> Recorded:
    word, *rest = answer.split(" ")
    return Recorded(word, rest[0] if rest else "", replay=len(rest) == 2)
