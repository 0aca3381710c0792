"""Payloads, results and outcomes: a typed error, or what comes back equals what was given."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from fuzzing import JSON, NUMBERS, PATIENT, TEXTS, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from redislease import Backoff, InvalidInput, encoding
from redislease.commands.effects import encode_outcome

pytestmark = PATIENT


def same(first: Any, second: Any) -> bool:
    """Equal, and of the same types: 1 is not 1.0 and not True."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second) and (first != 0 or not isinstance(first, float) or str(first) == str(second))


ODD = st.one_of(
    JSON,
    st.binary(),
    st.complex_numbers(),
    st.datetimes(),
    st.timedeltas(),
    st.sets(st.integers()),
    st.decimals(),
    st.dictionaries(NUMBERS, TEXTS),
    st.just(10**5_000),
    st.just(object()),
    st.just({}.keys()),
    st.just(type),
    st.just(len),
)


@given(value=JSON)
@fuzzed(2.0)
def test_json_comes_back(value: Any) -> None:
    with suppress(InvalidInput):
        assert value is None or same(encoding.from_json(encoding.result_to_json(value), "result"), value)
    with suppress(InvalidInput):
        assert same(encoding.payload_from_json(encoding.payload_to_json({"x": value})), {"x": value})


@given(value=ODD)
@fuzzed()
def test_odd_values(value: Any) -> None:
    for one in (value, [value], {"x": value}):
        with suppress(InvalidInput):
            encoding.from_json(encoding.result_to_json(one), "result")
        with suppress(InvalidInput):
            encoding.payload_from_json(encoding.payload_to_json(one))


@given(stored=st.one_of(st.binary(), st.builds(json.dumps, JSON.filter(lambda one: one != "9")).map(str.encode)))
@fuzzed()
def test_any_bytes_as_a_payload(stored: bytes) -> None:
    with suppress(InvalidInput):
        assert isinstance(encoding.payload_from_json(stored), dict)


class Unspeakable:
    """It has no `repr`."""

    def __repr__(self) -> str:
        raise LookupError("no repr")


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def looped() -> list[Any]:
    """A list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


@given(value=ODD)
@fuzzed()
def test_an_outcome_is_never_refused(value: Any) -> None:
    assert set(json.loads(encode_outcome(value))) in ({"value"}, {"not_stored"})


@pytest.mark.parametrize(
    "value", [Unspeakable(), nested(100_000), looped(), 10**5_000], ids=["repr", "deep", "loop", "big"]
)
def test_an_outcome_without_a_repr_is_not_refused(value: Any) -> None:
    assert json.loads(encode_outcome(value))["not_stored"]["type"] == type(value).__name__


@pytest.mark.parametrize(
    "value", [Unspeakable(), nested(100_000), looped(), 10**5_000], ids=["repr", "deep", "loop", "big"]
)
def test_what_has_no_repr_is_refused_as_everything_else(value: Any) -> None:
    with pytest.raises(InvalidInput):
        encoding.payload_to_json({"x": value})
    with pytest.raises(InvalidInput):
        Backoff(factor=value)
    with pytest.raises(InvalidInput):
        Backoff(base_s=value)
