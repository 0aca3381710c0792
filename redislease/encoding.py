"""Payloads and results as strict JSON: what comes back equals what was given, or nothing is sent."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from redislease import limits, validation
from redislease.errors import PayloadInvalid

_AS_THEY_ARE = frozenset({type(None), bool, str, int})


def _writer(*, sort_keys: bool) -> Callable[[Any], str]:
    """Writes what `_plain` answers. `JSONEncoder.encode` makes a C encoder each time; this makes it once."""
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
    make, text = getattr(json.encoder, "c_make_encoder", None), json.encoder.encode_basestring
    if make is None:
        return encoder.encode
    # Without markers: what `_plain` answers is a tree, so that nothing needs to look for circles.
    parts = make(None, encoder.default, text, None, ":", ",", sort_keys, False, False)
    return lambda plain: "".join(parts(plain, 0))


_write = _writer(sort_keys=False)
_write_in_order = _writer(sort_keys=True)
_READER = json.JSONDecoder()


def _plain(value: Any, path: str) -> Any:
    """The value made of plain JSON types; refuses what JSON would change."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is dict:  # as most are, and what follows costs more than writing it
        return _plain_object(value, path)
    if isinstance(value, enum.Enum):
        return _plain(value.value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PayloadInvalid(f"{path} is {value}, which JSON cannot hold")
        return float(value)
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(round_trip=True), path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name), f"{path}.{f.name}") for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return _plain_object(value, path)
    if isinstance(value, set | frozenset):
        # In an order of its own: equal sets have equal texts, in every process.
        return sorted((_plain(item, path) for item in value), key=_write_in_order)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{position}]") for position, item in enumerate(value)]
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, TypeError) as problem:
        raise PayloadInvalid(f"{path} cannot be written as JSON: {type(value).__name__}") from problem


def _plain_object(value: Mapping[Any, Any], path: str) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str:
            if not isinstance(key, str):
                raise PayloadInvalid(f"{path} has the key {validation.shown(key)}; keys must be strings")
            key = str.__str__(key)  # of an enum, its value
        plain[key] = item if type(item) in _AS_THEY_ARE else _plain(item, f"{path}.{key}")
    return plain


def to_json(value: Any, what: str, *, max_bytes: int, in_order: bool = False) -> bytes:
    """A value as compact JSON in UTF-8.

    Args:
        value: Plain JSON types, pydantic models, dataclasses, and what pydantic writes as text (dates, UUIDs ...).
        what: What to call it in an error.
        max_bytes: The limit of the encoded form.
        in_order: Whether the keys of each object are put in order, so that equal values have equal texts.

    Raises:
        PayloadInvalid: NaN, infinities, keys that are not strings, lone surrogates, nesting without end, or a type that
            JSON has no form for.
        PayloadTooLarge: It is larger than the limit.
    """
    try:
        plain = _plain(value, what)
        encoded = (_write_in_order if in_order else _write)(plain).encode()
    except RecursionError:
        raise PayloadInvalid(f"{what} is nested too deeply") from None
    except UnicodeEncodeError:
        raise PayloadInvalid(f"{what} has a lone surrogate") from None
    except ValueError as problem:
        if isinstance(problem, PayloadInvalid):
            raise
        raise PayloadInvalid(f"{what} cannot be written as JSON: {problem}") from problem
    return validation.size(encoded, what, max_bytes)


def payload_to_json(value: Any) -> bytes:
    """A payload: one JSON object. None and the empty object are stored as nothing at all."""
    if value is None:
        return b""
    encoded = to_json(value, "payload", max_bytes=limits.PAYLOAD_BYTES)
    if not encoded.startswith(b"{"):
        raise PayloadInvalid(f"the payload must be a JSON object, not {type(value).__name__}")
    return b"" if encoded == b"{}" else encoded


def payload_from_json(stored: bytes) -> dict[str, Any]:
    """The object that `payload_to_json` stored.

    Raises:
        PayloadInvalid: The bytes are not a JSON object.
    """
    if not stored:
        return {}
    value = from_json(stored, "payload")
    if not isinstance(value, dict):
        raise PayloadInvalid("the stored payload is not a JSON object")
    return value


def result_to_json(value: Any) -> bytes:
    """A result: any JSON value. None is stored as nothing at all."""
    return b"" if value is None else to_json(value, "result", max_bytes=limits.RESULT_BYTES)


def read_back(encoded: bytes) -> Any:
    """What `to_json` has written, as anybody else will read it."""
    return _READER.raw_decode(encoded.decode())[0]


def from_json(stored: bytes, what: str) -> Any:
    """Any JSON value.

    Raises:
        PayloadInvalid: The bytes are not JSON.
    """
    try:
        return json.loads(stored)
    except (ValueError, RecursionError) as problem:
        raise PayloadInvalid(f"the stored {what} is not JSON") from problem
