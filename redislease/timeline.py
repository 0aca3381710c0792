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
_BEGINNING = ("effect", "generation", "name", "digest", "again")


def line(stored: bytes) -> Event:
    """A line of a log; one that is none of ours is shown, and does not hide the others."""
    try:
        event = json.loads(stored)
    except (ValueError, RecursionError):
        event = None
    if isinstance(event, dict) and isinstance(event.get("event"), str) and _is_time(event.get("at")):
        return event
    return _unreadable(stored)


def of_task(stored: Iterable[bytes], effects: Mapping[bytes, bytes]) -> list[Event]:
    """What happened to a task, in the order in which it was written.

    The beginning of an effect is stored with its outcome, or is still in its record; here it stands where it happened.

    Args:
        stored: The lines of `evidence:ID`.
        effects: The fields of `effects:ID`; of those that are open the beginning is told.
    """
    events: list[Event] = []
    for each in stored:
        if each.startswith(HEAD):
            continue
        event = line(each)
        if event["event"] == "outcome" and _is_time(event.get("opened_at")):
            began = event.pop("opened_at")
            _put_where_it_happened(events, {"event": "intent", "at": began} | _beginning_of(event))
            events.append({name: value for name, value in event.items() if name not in ("name", "digest", "again")})
        elif event["event"] == "intent":
            _put_where_it_happened(events, event)
        else:
            events.append(event)
    for key, record in effects.items():
        if record.startswith(b"open "):
            _put_where_it_happened(events, _intent(_text(key), record))
    return events


def _unreadable(stored: bytes) -> Event:
    return {"event": "unreadable", "at": None, "line": validation.cut(_text(stored), limits.VALUE_BYTES)}


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _is_time(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _beginning_of(outcome: Event) -> Event:
    return {name: outcome[name] for name in _BEGINNING if name in outcome}


def _intent(key: str, stored: bytes) -> Event:
    try:
        record = effect_records.read(key, stored)
    except ServerError:
        return _unreadable(stored)
    return {
        "event": "intent",
        "at": record.opened_at,
        "effect": record.key,
        "generation": record.generation,
        "name": record.name,
        "digest": record.digest,
        "again": record.left_open_by is not None,
    }


def _put_where_it_happened(events: list[Event], intent: Event) -> None:
    """Puts it before the end of its own lease, and there behind what is not younger or of an earlier lease."""
    generation = intent.get("generation")
    if intent["at"] is None or type(generation) is not int:
        return events.append(intent)
    position = _end_of_lease(events, generation)
    while position and _comes_after(events[position - 1], intent["at"], generation):
        position -= 1
    events.insert(position, intent)


def _end_of_lease(events: list[Event], generation: int) -> int:
    for position, event in enumerate(events):
        if event.get("generation") == generation and event["event"] not in _OF_EFFECTS:
            return position
    return len(events)


def _comes_after(event: Event, at: int, generation: int) -> bool:
    other = event.get("generation")
    return (event["at"] or 0) > at and not (type(other) is int and other < generation)
