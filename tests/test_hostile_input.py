"""Whatever is passed in: a typed error before anything is sent, or what comes back equals what was given."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
import redis
from command_line import CommandLine
from proxy import always_answering
from servers import Engine, first_program

from redislease import Backoff, InvalidInput, PayloadInvalid, PermissionDenied, Queue
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


@pytest.mark.parametrize(
    "number", [True, "1", 1.5, None, -1, 2**53, 10**400, math.nan], ids=lambda value: repr(value)[:20]
)
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
