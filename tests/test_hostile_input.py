"""Whatever is passed in: a typed error before anything is sent, or what comes back equals what was given."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
import redis
from command_line import CommandLine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy import always_answering
from servers import Engine, first_program

from redislease import Backoff, Done, InvalidInput, PayloadInvalid, PayloadTooLarge, PermissionDenied, Queue, limits
from redislease.commands import hold

TEXTS = {
    "empty": "",
    "spaces": "   ",
    "braces": "a{b}c",
    "colons": "a:b:c",
    "quotes": "a\"b'c`d",
    "backslashes": "a\\b\\n\\u0000\\",
    "newline": "a\nb\r\nc",
    "tab": "a\tb",
    "nul": "a\0b",
    "escape": "\x1b[2J\x1b]0;title\x07",
    "c1": "a\x9b31mb",
    "delete": "a\x7fb",
    "line separators": "a\u2028b\u2029c\x85d",
    "emoji": "🦊👩‍👩‍👧‍👦",
    "right to left": "a\u202eb",
    "combining": "é\u0301" + "\u0300" * 20,
    "surrogate": "a\ud800b",
    "surrogate pair": "\ud83e\udd8a",
    "10 kB": "x" * 10_000,
    "10 kB of emoji": "🦊" * 2_500,
    "format": "%s %n {0} $(id) ; rm -rf /",
    "number": "1e5",
    "json": '","event":"forged","x":"',
    "spaces around": " a ",
}

NOT_DURATIONS: dict[str, Any] = {
    "negative": -1,
    "tiny negative": -1e-9,
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "true": True,
    "false": False,
    "text": "5",
    "bytes": b"5",
    "1e18": 1e18,
    "huge": 10**400,
    "huge float": 1.7e308,
    "decimal": Decimal(5),
    "list": [5],
    "complex": 5j,
    "timedelta": timedelta.max,
    "negative timedelta": timedelta(seconds=-1),
}


@cache
def elsewhere() -> Queue:
    """A queue of the same name on a server of its own."""
    return Queue("q", redis_url="memory://hostile-input", worker_name="w")


def lease_of(queue: Queue) -> Any:
    """A lease of this queue that its server knows nothing of."""
    enqueue(elsewhere())
    (lease,) = elsewhere().claim()
    lease._queue = queue
    return lease


def another(queue: Queue, name: Any = "q", prefix: Any = "redislease") -> Any:
    """Looks at another queue of the same server."""
    with Queue(name, client=queue._transport.clients.client, prefix=prefix) as opened:
        return opened.stats()


def enqueue(queue: Queue, **options: Any) -> Any:
    return queue.enqueue(**{"name": "work", "side_effect": "idempotent", **options})


DURATIONS: dict[str, Callable[[Queue, Any], Any]] = {
    "lease_duration": lambda queue, value: enqueue(queue, lease_duration=value),
    "delay": lambda queue, value: enqueue(queue, delay=value),
    "max_runtime": lambda queue, value: enqueue(queue, max_runtime=value),
    "backoff base": lambda queue, value: Backoff(base_s=value),
    "backoff cap": lambda queue, value: Backoff(cap_s=value),
    "wait": lambda queue, value: queue.claim(wait=value),
    "renew": lambda queue, value: lease_of(queue).renew(value),
    "fail": lambda queue, value: lease_of(queue).fail("x", delay=value),
    "release": lambda queue, value: lease_of(queue).release(value),
    "purge completed": lambda queue, value: queue.purge(completed=value),
    "purge cancelled": lambda queue, value: queue.purge(cancelled=value),
    "purge dead": lambda queue, value: queue.purge(dead=value),
    "purge evidence": lambda queue, value: queue.purge(evidence=value),
}

WORDS: dict[str, Callable[[Queue, Any], Any]] = {
    "queue name": lambda queue, value: another(queue, name=value),
    "prefix": lambda queue, value: another(queue, prefix=value),
    "worker name": lambda queue, value: queue.register(value),
    "owner": lambda queue, value: queue.register("w", owner=value),
    "task id": lambda queue, value: enqueue(queue, task_id=value),
    "id to look at": lambda queue, value: queue.get(value),
    "id to cancel": lambda queue, value: queue.cancel(value, by="ops"),
    "name": lambda queue, value: enqueue(queue, name=value),
    "idempotency key": lambda queue, value: enqueue(queue, idempotency_key=value),
    "credential": lambda queue, value: enqueue(queue, credential=value),
    "side effect": lambda queue, value: enqueue(queue, side_effect=value),
    "by": lambda queue, value: queue.cancel("t", by=value),
    "reason": lambda queue, value: queue.pause(by="ops", reason=value),
    "level": lambda queue, value: queue.pause(value, by="ops"),
    "decision": lambda queue, value: queue.resolve("t", value, token=1, by="ops"),
    "verdict": lambda queue, value: queue.resolve("t", "done", token=1, by="ops", effects={"e": value}),
    "decided effect": lambda queue, value: queue.resolve("t", "done", token=1, by="ops", effects={value: "done"}),
    "status": lambda queue, value: queue.tasks(value),
    "lane": lambda queue, value: queue.claim(lane=value),
    "note": lambda queue, value: lease_of(queue).progress(1, note=value),
    "error": lambda queue, value: lease_of(queue).fail(value),
    "result_ref": lambda queue, value: lease_of(queue).complete(result_ref=value),
    "effect": lambda queue, value: lease_of(queue).run_effect(value, lambda effect: None),
    "effect key": lambda queue, value: lease_of(queue).run_effect("e", lambda effect: None, key=value),
    "effect request": lambda queue, value: lease_of(queue).run_effect("e", lambda effect: None, request=value),
    "payload": lambda queue, value: enqueue(queue, payload={value: value}),
    "payload alone": lambda queue, value: enqueue(queue, payload=value),
    "result": lambda queue, value: lease_of(queue).complete({value: [value]}),
    "handle": lambda queue, value: queue.attach(value),
}


AS_KEYS = [WORDS[name] for name in ("decided effect", "payload", "result")]


@pytest.fixture(scope="module")
def nowhere() -> Iterator[Queue]:
    """A queue whose server takes nothing: what is not refused before it is sent ends in `PermissionDenied`."""
    with always_answering(b"-DENIED nobody is at home") as url, Queue("q", redis_url=url) as opened:
        yield opened


@pytest.mark.parametrize("value", NOT_DURATIONS.values(), ids=NOT_DURATIONS)
@pytest.mark.parametrize("where", DURATIONS.values(), ids=DURATIONS)
def test_what_is_not_a_duration_is_refused(nowhere: Queue, where: Callable[[Queue, Any], Any], value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        where(nowhere, value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", ["lease_duration", "max_runtime", "renew"])
def test_zero_is_not_for_ever(nowhere: Queue, name: str) -> None:
    for zero in (0, 0.0, -0.0, timedelta(0)):
        with pytest.raises(InvalidInput):
            DURATIONS[name](nowhere, zero)


OTHER_KINDS: dict[str, Any] = {
    "none": None,
    "number": 5,
    "float": 1.5,
    "bytes": b"bytes",
    "true": True,
    "list": ["a"],
    "dict": {"a": 1},
    "object": object(),
    "class": int,
}


@pytest.mark.parametrize("value", [*TEXTS.values(), *OTHER_KINDS.values()], ids=[*TEXTS, *OTHER_KINDS])
@pytest.mark.parametrize("where", WORDS.values(), ids=WORDS)
def test_every_text_is_taken_or_refused_with_a_reason(
    nowhere: Queue, where: Callable[[Queue, Any], Any], value: Any
) -> None:
    """Never another exception, never a message that a terminal would act on."""
    if isinstance(value, list | dict) and where in AS_KEYS:
        pytest.skip("cannot be a key in Python")
    try:
        where(nowhere, value)
    except PermissionDenied:
        return
    except InvalidInput as refused:
        message = str(refused)
        assert len(message) < 500, message
        assert all(character.isprintable() for character in message), message
        message.encode()
        return
    pytest.fail("nothing was refused and nothing was sent")


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

    from redislease import validation
    from redislease.commands.effects import effect_key

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


class Text(str):
    """A string that is not quite one."""


def test_keys_that_would_collide_are_refused(nowhere: Queue) -> None:
    for payload in ({1: 2, "1": 3}, {None: 1}, {True: 1}, {1.5: 1}, {(1, 2): 3}, {"a": {1: 2}}):
        with pytest.raises(PayloadInvalid):
            enqueue(nowhere, payload=payload)
        with pytest.raises(PayloadInvalid):
            lease_of(nowhere).complete(payload)
    with pytest.raises(PermissionDenied):
        enqueue(nowhere, payload={Text("a"): Text("b")})


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


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**63, 1e308, -0.0, 5e-324], ids=repr)
def test_progress_takes_any_number(plain: Queue, value: Any) -> None:
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


@pytest.mark.parametrize("number", [True, "1", 1.5, None, -1, 2**53, 10**400, math.nan], ids=repr)
def test_odd_numbers_are_refused(nowhere: Queue, number: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: enqueue(nowhere, priority=number if number != -1 else -101),
        lambda: nowhere.claim(number),
        lambda: nowhere.reap(number),
        lambda: nowhere.purge(limit=number),
        lambda: nowhere.tasks("ready", limit=number),
        lambda: nowhere.tasks("ready", offset=number),
        lambda: nowhere.check("ready", offset=number),
        lambda: nowhere.complete_many([], claim=number),
    ]
    if number is not None:
        calls += [
            lambda: enqueue(nowhere, max_attempts=number),
            lambda: enqueue(nowhere, max_expirations=number),
            lambda: enqueue(nowhere, max_same_error=number),
            lambda: nowhere.revoke("t", token=number, by="ops"),
            lambda: nowhere.requeue("t", token=number, by="ops"),
        ]
    for position, call in enumerate(calls):
        with pytest.raises(InvalidInput):
            call()
            pytest.fail(f"call {position} took {number!r}")


def test_a_handle_from_elsewhere_is_refused_before_anything_is_sent(nowhere: Queue) -> None:
    for handle in ('["other","t","w-1",1,1,60000]', '["q","a:b","w-1",1,1,60000]', '["q","t","w-1",1,1e3,60000]'):
        with pytest.raises(InvalidInput):
            nowhere.attach(handle)
    with pytest.raises(InvalidInput):
        nowhere.run(hold.renew([]))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_100_000_lines_of_which_every_tenth_is_broken(
    real_engine: Engine, queue_name: str, redis_client: redis.Redis
) -> None:
    """As one process from pipe to pipe: which lines, and what happened to the others."""
    if real_engine.name != first_program():
        pytest.skip("the program is the same on every engine")
    broken = [
        b"\xff\xfe",
        b"{",
        b'{"payload":[1]}',
        b'{"payload":{"a":NaN}}',
        b'{"name":"\\ud800"}',
        b"\0",
        b"null",
        b"",
    ]
    lines = [
        broken[number // 10 % len(broken)] if number % 10 == 0 else b'{"payload":{"n":%d}}' % number
        for number in range(1, 100_001)
    ]
    cli = CommandLine(real_engine.url, queue_name)
    program = cli.start(
        *("enqueue", "job", "--side-effect", "read_only", "--jsonl", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = program.communicate(b"\n".join(lines) + b"\n", timeout=500)
    answers = {answer["line"]: answer for answer in map(json.loads, out.splitlines())}
    refused = {line for line, answer in answers.items() if "error" in answer}
    assert program.returncode == 2
    assert {line for line in answers if line % 10} == {line for line in range(1, 100_001) if line % 10}
    assert refused == {line for line in answers if line % 10 == 0}
    assert len(err.splitlines()) == len(refused) + 1
    with Queue(queue_name, redis_url=real_engine.url) as queue:
        assert queue.stats().states["ready"] == 90_000
        assert queue.detail(answers[99_999]["id"]).payload == {"n": 99_999}
