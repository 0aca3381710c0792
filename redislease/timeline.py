"""Evidence and decisions as the events that they tell of (stored forms: `lua/lib/{evidence,effects}.lua`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from redislease import effect_records, limits, validation
from redislease.errors import ServerError

Event = dict[str, Any]

HEAD = b'{"late":'
"""How the head of a log begins, which counts its lines and is none."""

_OF_EFFECTS = ("intent", "outcome")
_TOKEN_DIGITS = 16
_BEGINNING = ("effect", "generation", "token", "name", "digest", "again")


def line(stored: bytes) -> Event:
    """A line of a log; one that is none of ours is shown, and does not hide the others."""
    try:
        event = json.loads(stored)
    except (ValueError, RecursionError):
        event = None
    if isinstance(event, dict) and isinstance(event.get("event"), str) and _is_time(event.get("at")):
        return event
    return unreadable(_text(stored))


def of_task(stored: Iterable[bytes], effects: Mapping[bytes, bytes]) -> list[Event]:
    """What happened to a task, in the order in which it was written.

    The beginning of an effect is stored with its outcome, or is still in its record; here it stands where it happened.
    What went beyond the budget of the log is told as a number, in a last event `not_kept`.

    Args:
        stored: The lines of `evidence:ID`.
        effects: The fields of `effects:ID`; of those that are open the beginning is told.
    """
    events: list[Event] = []
    ended: set[int | None] = set()
    head, lines = _without_head(list(stored))
    for each in lines:
        event = line(each)
        if event["event"] == "outcome" and _is_time(event.get("opened_at")):
            began = event.pop("opened_at")
            _put_where_it_happened(events, {"event": "intent", "at": began} | _beginning_of(event), ended)
            events.append({name: value for name, value in event.items() if name not in ("name", "digest", "again")})
        elif event["event"] == "intent":
            _put_where_it_happened(events, {"event": "intent", "at": event["at"]} | _beginning_of(event), ended)
        else:
            events.append(event)
            if _is_ending(event):
                ended.add(_token(event))
    for key, record in effects.items():
        if effect_records.is_under_way(record):
            _put_where_it_happened(events, _intent(_text(key), record), ended)
    if dropped := head.get("dropped"):
        events.append({"event": "not_kept", "at": None, "lines": dropped})
    return events


def unreadable(what: str) -> Event:
    """What stands in place of something that cannot be read."""
    return {"event": "unreadable", "at": None, "line": validation.cut(what, limits.VALUE_BYTES)}


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _without_head(stored: list[bytes]) -> tuple[Mapping[str, Any], list[bytes]]:
    """The counts of a log, and its lines."""
    if not stored or not stored[0].startswith(HEAD):
        return {}, stored
    try:
        head = json.loads(stored[0])
    except (ValueError, RecursionError):
        head = {}
    return head, stored[1:]


def _is_time(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _beginning_of(line: Event) -> Event:
    """How an effect began. One is called like its key, and begun for the first time, unless its line says otherwise."""
    told = {"name": line.get("effect"), "again": False} | line
    return {name: told[name] for name in _BEGINNING if name in told}


def _intent(key: str, stored: bytes) -> Event:
    try:
        record = effect_records.read(key, stored)
    except ServerError:
        return unreadable(_text(stored))
    return {
        "event": "intent",
        "at": record.opened_at,
        "effect": record.key,
        "generation": record.generation,
        "token": str(record.token),
        "name": record.name,
        "digest": record.digest,
        "again": record.left_open_by is not None,
    }


def _put_where_it_happened(events: list[Event], intent: Event, ended: set[int | None]) -> None:
    """Puts it before the end of its own lease, and there behind what is not younger or of an earlier lease.

    Within one millisecond it stands behind what was written before its outcome.

    Args:
        events: What was told so far.
        intent: The beginning of an effect.
        ended: The tokens of the leases whose end is among the events.
    """
    token = _token(intent)
    if intent["at"] is None or token is None:
        return events.append(intent)
    position = _end_of_lease(events, token) if token in ended else len(events)
    while position and _comes_after(events[position - 1], intent["at"], token):
        position -= 1
    events.insert(position, intent)


def _end_of_lease(events: list[Event], token: int) -> int:
    for position, event in enumerate(events):
        if _is_ending(event) and _token(event) == token:
            return position
    return len(events)


def _comes_after(event: Event, at: int, token: int) -> bool:
    other = _token(event)
    return (event["at"] or 0) > at and not (other is not None and other < token)


def _is_ending(event: Event) -> bool:
    """A late call names a token too, and ends nothing."""
    return "to" in event and event["event"] not in _OF_EFFECTS


def _token(event: Event) -> int | None:
    """The fencing token of an event, by which leases are told apart, also those of an earlier task of the same id."""
    token = event.get("token")
    return int(token) if isinstance(token, str) and token.isdecimal() and len(token) <= _TOKEN_DIGITS else None
