"""Values as strict JSON: what cannot be written as it is names the place where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from redislease import limits
from redislease.encoding import from_json, payload_from_json, payload_to_json, result_to_json
from redislease.errors import PayloadInvalid, PayloadTooLarge


class Colour(Enum):
    RED = "red"
    BROKEN = math.nan


class Level(IntEnum):
    HIGH = 3


class Text(str):
    pass


class Model(BaseModel):
    size: Any = 1


@dataclass
class Point:
    x: Any = 1
    rest: list[Any] = field(default_factory=list)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Text("a"), "a"),
        (Model(size=Point(2, [Colour.RED])), {"size": {"x": 2, "rest": ["red"]}}),
        (Point((1, 2)), {"x": [1, 2], "rest": []}),
        ({Text("key"): {"a"}}, {"key": ["a"]}),
        (frozenset([1]), [1]),
        (datetime(2030, 1, 31, tzinfo=UTC), "2030-01-31T00:00:00Z"),
        (date(2030, 1, 31), "2030-01-31"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (True, True),
        (-0.0, -0.0),
    ],
    ids=repr,
)
def test_what_has_a_form_in_json(value: Any, stored: Any) -> None:
    found = from_json(result_to_json(value), "result")
    assert (found, repr(found)) == (stored, repr(stored))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "result is nan, which JSON cannot hold"),
        ({"a": [1, {"b": -math.inf}]}, "result.a[1].b is -inf, which JSON cannot hold"),
        (Colour.BROKEN, "result is nan, which JSON cannot hold"),
        (Model(size=math.nan), "result.size is nan, which JSON cannot hold"),
        (Point(rest=[0, math.nan]), "result.rest[1] is nan, which JSON cannot hold"),
        ({"a": {1: 2}}, "result.a has the key 1; keys must be strings"),
        ({None: 2}, "result has the key None; keys must be strings"),
        ({"x": object()}, "result.x cannot be written as JSON: object"),
        ([b"\xff"], "result[0] cannot be written as JSON: bytes"),
        (lambda: 0, "result cannot be written as JSON: function"),
        (Point, "result cannot be written as JSON: type"),
        (["\ud800"], "result has a lone surrogate"),
        (10**5000, "result cannot be written as JSON: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_json_would_change_is_refused(value: Any, message: str) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        result_to_json(value)
    assert str(refused.value).startswith(message)


def test_nesting_without_end() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(PayloadInvalid, match="nested too deeply"):
        result_to_json(endless)
    with pytest.raises(PayloadInvalid, match="the stored result is not JSON"):
        from_json(b"[" * 100_000, "result")


@pytest.mark.parametrize("value", [[], "text", 1, Colour.RED, [("a", 1)]], ids=repr)
def test_a_payload_is_an_object(value: Any) -> None:
    with pytest.raises(PayloadInvalid, match=f"must be a JSON object, not {type(value).__name__}"):
        payload_to_json(value)


@pytest.mark.parametrize(("value", "stored"), [(None, b""), ({}, b""), (Model(), b'{"size":1}')], ids=repr)
def test_a_payload_as_it_is_stored(value: Any, stored: bytes) -> None:
    assert payload_to_json(value) == stored
    assert payload_from_json(stored) == (dict(value) if value else {})


@pytest.mark.parametrize("stored", [b"[]", b"1", b"{", b"\xff"], ids=repr)
def test_a_stored_payload_that_is_none(stored: bytes) -> None:
    with pytest.raises(PayloadInvalid, match="the stored payload is not"):
        payload_from_json(stored)


def test_the_limit_is_of_the_encoded_form() -> None:
    assert len(result_to_json("x" * (limits.RESULT_BYTES - 2))) == limits.RESULT_BYTES
    with pytest.raises(PayloadTooLarge, match=f"result has {limits.RESULT_BYTES + 1} bytes"):
        result_to_json("x" * (limits.RESULT_BYTES - 1))
