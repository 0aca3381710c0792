"""What is taken comes back exactly as it was given: any JSON, any text, at the limits, and errors of any kind."""

from __future__ import annotations

import json
import math
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import Engine

from redislease import Done, InvalidInput, PayloadInvalid, PayloadTooLarge, Queue, limits, validation
from redislease.commands.effects import effect_key


@pytest.fixture(scope="module")
def plain(engine: Engine) -> Iterator[Queue]:
    """A queue on the server's own clock, shared by the examples of a test."""
    with Queue(f"t-{uuid.uuid4().hex[:12]}", redis_url=engine.url, worker_name="w") as opened:
        yield opened
        with engine.sync_client() as client:
            for line in client.lrange(opened.keys.audit, 0, -1):
                json.loads(line)


FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

# What hypothesis draws: any text that UTF-8 can hold, and a few characters that break things more often than others.
ANY_TEXT = st.text(max_size=40) | st.text(alphabet='"\\{}:\n\r\t\0\x1b\x7f\x9b\u2028🦊é', max_size=20)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.none() | st.booleans() | NUMBERS | ANY_TEXT
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4), max_leaves=20
)


def exactly(value: Any) -> Any:
    """A value in a form in which 1, 1.0, True and -0.0 differ, and the order of keys counts."""
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, dict):
        return ("dict", [(key, exactly(item)) for key, item in value.items()])
    if isinstance(value, list):
        return ("list", [exactly(item) for item in value])
    return (type(value).__name__, value)


SPECIAL = {
    "big": 2**60,
    "bigger": -(2**200),
    "float": 1.0,
    "minus zero": -0.0,
    "small": 5e-324,
    "list": [],
    "dict": {},
    "nested": [[], {}, [{}], {"": [[]]}],
    "": None,
    "\0": "\0\x1b",
    "true": [True, False, 1, 0],
}


def there_and_back(queue: Queue, payload: Any, result: Any, outcome: Any) -> None:
    task = queue.enqueue("work", payload, side_effect="non_idempotent", records_effects=True)
    (lease,) = queue.claim()
    assert lease.id == task.id
    assert exactly(lease.payload) == exactly(payload)
    assert exactly(lease.run_effect("e", lambda effect: outcome, request=payload)) == exactly(outcome)
    lease.complete(result)
    detail = queue.detail(task.id)
    assert exactly(detail.payload) == exactly(payload)
    assert exactly(detail.result) == exactly(result)
    for line in queue.evidence(task.id):
        assert line["event"] in ("intent", "outcome", "completed")


def test_special_values_come_back_exactly(plain: Queue) -> None:
    there_and_back(plain, SPECIAL, [SPECIAL, -0.0], SPECIAL)


@FEW
@given(payload=st.dictionaries(ANY_TEXT, JSON, max_size=5), result=JSON, outcome=JSON)
def test_any_json_comes_back_exactly(plain: Queue, payload: Any, result: Any, outcome: Any) -> None:
    there_and_back(plain, payload, result, outcome)


@FEW
@given(by=ANY_TEXT, reason=ANY_TEXT, name=ANY_TEXT, key=ANY_TEXT, error=ANY_TEXT, note=ANY_TEXT, effect=ANY_TEXT)
def test_any_text_comes_back_exactly(
    plain: Queue, by: str, reason: str, name: str, key: str, error: str, note: str, effect: str
) -> None:
    """Text that is refused is replaced by a plain one here; what is taken comes back as it was."""
    queue = plain

    def taken(check: Callable[[str], Any], value: str) -> str:
        try:
            check(value)
        except InvalidInput:
            return "plain"
        return value

    by, name, effect = taken(validation.by, by), taken(validation.task_name, name), taken(effect_key, effect)
    key = taken(validation.idempotency_key, key) + uuid.uuid4().hex
    if len(key.encode()) > limits.IDEMPOTENCY_KEY_BYTES:
        key = uuid.uuid4().hex
    task = queue.enqueue(name, side_effect="non_idempotent", records_effects=True, idempotency_key=key)
    (lease,) = queue.claim()
    assert (lease.task.name, lease.task.idempotency_key) == (name, key)
    lease.progress(1, note=note)
    assert queue.detail(task.id).progress["note"] == note  # type: ignore[index]
    lease.run_effect(effect, lambda _: None)
    assert [one.key for one in queue.effects(task.id)] == [effect]
    lease.fail(error, retry=False)
    stored = queue.get(task.id)
    assert (stored.name, stored.idempotency_key) == (name, key)
    queue.requeue(task.id, by=by, reason=reason)
    queue.cancel(task.id, by=by, reason=reason)
    lines = queue.evidence(task.id)
    assert [line["error"] for line in lines if line["event"] == "fatal"] == [error]
    assert [(line["by"], line["reason"]) for line in lines if line["event"] == "requeue"] == [(by, reason)]
    assert queue.get(task.id).decided_by == by
    assert (queue.audit()[-1]["by"], queue.audit()[-1]["reason"]) == (by, reason)


@FEW
@given(task_id=ANY_TEXT)
def test_any_task_id_is_refused_or_found(plain: Queue, task_id: str) -> None:
    try:
        plain.enqueue("work", {"id": task_id}, side_effect="read_only", task_id=task_id)
    except InvalidInput:
        return
    assert plain.detail(task_id).payload == {"id": task_id}
    plain.cancel(task_id, by="ops")


@FEW
@given(value=st.text(alphabet=st.characters(categories=["Cs", "Ll"]), min_size=1, max_size=5))
def test_lone_surrogates_are_refused_and_not_changed(plain: Queue, value: str) -> None:
    whole = not any("\ud800" <= character <= "\udfff" for character in value)
    for payload in ({"k": value}, {value: 1}, {"k": [{"n": value}]}):
        if whole:
            plain.enqueue("work", payload, side_effect="read_only", delay=3_600)
        else:
            with pytest.raises(PayloadInvalid):
                plain.enqueue("work", payload, side_effect="read_only")


@pytest.mark.parametrize("character", ["x", "ä", "🦊", '"', "\n", "\0"])
def test_one_mebibyte_and_one_byte(plain: Queue, character: str) -> None:
    """The limit counts what is stored, not what was given."""
    room = limits.PAYLOAD_BYTES - len(b'{"k":""}')
    one = len(json.dumps(character, ensure_ascii=False).encode()) - 2
    text = character * (room // one) + "x" * (room % one)
    assert len(json.dumps({"k": text}, ensure_ascii=False, separators=(",", ":")).encode()) == limits.PAYLOAD_BYTES
    task = plain.enqueue("work", {"k": text}, side_effect="idempotent")
    with pytest.raises(PayloadTooLarge):
        plain.enqueue("work", {"k": text + "x"}, side_effect="idempotent")
    (lease,) = plain.claim()
    assert lease.payload == {"k": text}
    with pytest.raises(PayloadTooLarge):
        lease.complete({"k": text + "x"})
    lease.complete({"k": text})
    assert plain.result(task.id) == {"k": text}


class Sulking(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    "error",
    ["x" * 5_000_000, "🦊" * 1_300_000, "\ud800" * 100_000, "\0" * 9_000, ValueError("y" * 5_000_000), "", Sulking()],
    ids=["5 MB", "5 MB of emoji", "surrogates", "nul", "exception", "empty", "sulking"],
)
def test_an_error_is_never_refused(plain: Queue, error: Any) -> None:
    task = plain.enqueue("work", side_effect="idempotent")
    (lease,) = plain.claim()
    lease.fail(error, retry=False)
    (line,) = [line for line in plain.evidence(task.id) if line["event"] == "fatal"]
    assert len(line["error"].encode()) <= limits.ERROR_BYTES
    assert len((plain.get(task.id).last_error or "").encode()) <= limits.VALUE_BYTES
    if isinstance(error, str):
        assert error.encode("utf-8", "replace").decode().startswith(line["error"])


@pytest.mark.parametrize("value", [10**400, 2**63, 1e308, 0, -0.0, 5e-324], ids=lambda value: repr(value)[:20])
def test_progress_takes_any_amount(plain: Queue, value: Any) -> None:
    task = plain.enqueue("work", side_effect="idempotent")
    (lease,) = plain.claim()
    lease.progress(value, value)
    progress = plain.detail(task.id).progress
    assert progress
    assert exactly(progress["done"]) == exactly(value)
    lease.complete()


@pytest.mark.parametrize("outcome", [math.nan, {1: 2}, object(), "\ud800", b"\xff", "x" * 20_000, Done("x")], ids=type)
def test_an_outcome_is_never_refused(plain: Queue, outcome: Any) -> None:
    task = plain.enqueue("work", side_effect="idempotent", records_effects=True)
    (lease,) = plain.claim()
    lease.run_effect("e", lambda effect: outcome)
    assert [one.state for one in plain.effects(task.id)] == ["done"]
    lease.complete()
