"""Whatever stands in the keys: what is readable is shown, and the rest ends in a typed error, not in a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from command_line import CommandLine
from fuzzing import JSON, NUMBERS, PATIENT, TEXTS, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from redislease import Queue, RedisLeaseError, ServerError, effect_records
from redislease.connection.memory import forget_memory_server
from redislease.flows.durations import durations

pytestmark = PATIENT

SERVER = "fuzz-stored"
URL = f"memory://{SERVER}"


@pytest.fixture(scope="module")
def queue() -> Iterator[Queue]:
    with Queue("stored", redis_url=URL, worker_name="w") as opened:
        yield opened
    forget_memory_server(SERVER)


@pytest.fixture(scope="module")
def cli() -> CommandLine:
    return CommandLine(URL, "stored")


def raw(queue: Queue) -> Any:
    """The plain client of a queue's server."""
    return queue._transport.clients.client


def fresh(queue: Queue) -> str:
    """A queue with one task that somebody has held, with an effect, evidence, progress and a decision."""
    raw(queue).flushall()
    queue.enqueue("work", {"n": 1}, side_effect="non_idempotent", records_effects=True, task_id="t")
    (lease,) = queue.claim()
    lease.progress(1, 2, "half")
    effect = lease.effect("mail")
    effect.__enter__()
    lease.fail("no", retry=False)
    queue.resolve("t", "dead", by="ann", reason="why")
    return "t"


def tried(act: Callable[[], Any]) -> Any:
    """What an action returns, or the library's own error."""
    try:
        return act()
    except RedisLeaseError as refused:
        return refused


def looks(queue: Queue) -> None:
    """Everything that looks at the task and the queue ends in an answer or in an error of the library."""
    for look in (queue.get, queue.detail, queue.effects, queue.evidence, queue.result):
        tried(lambda look=look: look("t"))  # type: ignore[misc]
    for status in ("dead", "unsettled", "scheduled", "ready", "completed"):
        tried(lambda status=status: queue.tasks(status))  # type: ignore[misc]
    for ask in (queue.audit, queue.workers, queue.stats):
        tried(ask)
    tried(lambda: queue._drive(durations(queue._context)))
    tried(lambda: queue.resolve("t", "dead", by="ann", accept_late=True))


VERBS = (
    ("evidence", "t"),
    ("why", "t"),
    ("show", "t"),
    ("audit",),
    ("tasks", "dead"),
    ("tasks", "scheduled"),
    ("workers",),
    ("stats",),
    ("stats", "--durations"),
    ("reconcile", "list"),
)


def nobody_sees_a_traceback(cli: CommandLine, amount: int = 10) -> None:
    """The first verbs that look each end with one of their exit codes."""
    for verb in VERBS[:amount]:
        result = cli(*verb)
        assert result.code in (0, 1, 2, 4, 5), (verb, result.err)
        assert "Traceback" not in result.err, (verb, result.err)
        assert "a fault in redislease itself" not in result.err, (verb, result.err)


# Evidence and audit

EVENT = st.fixed_dictionaries(
    {"event": st.one_of(JSON, st.just("failed"))},
    optional={
        "at": st.one_of(JSON, NUMBERS),
        "to": JSON,
        "from": JSON,
        "claimed_at": NUMBERS,
        "longest_gap_ms": NUMBERS,
    },
)


def as_line(value: Any) -> bytes:
    """A value as JSON, if it can be written."""
    try:
        return json.dumps(value).encode("utf-8", "surrogatepass")
    except ValueError:
        return b"{"


LINES = st.one_of(
    st.binary(max_size=30),
    JSON.map(as_line),
    EVENT.map(as_line),
    st.sampled_from((b"", b"null", b"[" * 5_000, b"{}", b"NaN")),
)


@given(lines=st.lists(LINES, min_size=1, max_size=3), first=st.booleans())
@fuzzed(0.25)
def test_foreign_lines_hide_nothing(queue: Queue, cli: CommandLine, lines: list[bytes], first: bool) -> None:
    fresh(queue)
    whole, decisions = queue.evidence("t"), queue.audit()
    for key in (queue.keys.evidence("t"), queue.keys.audit):
        if first and key == queue.keys.audit:
            raw(queue).lpush(key, *lines)
        else:
            raw(queue).rpush(key, *lines)
    assert [line for line in queue.evidence("t") if line in whole] == whole
    assert len(queue.evidence("t")) == len(whole) + len(lines)
    assert [line for line in queue.audit() if line in decisions] == decisions
    for told in (*queue.evidence("t"), *queue.audit()):
        assert isinstance(told["event"], str)
    assert queue.get("t").status == "dead"
    for verb in (("evidence", "t"), ("why", "t"), ("audit",), ("evidence", "t", "--json"), ("audit", "--jsonl")):
        result = cli.expect(0, *verb)
        assert result.out


# Effect records

RECORD = st.builds(
    lambda head, rest: b"\n".join((b" ".join(head), *rest)),
    st.lists(
        st.sampled_from((b"open", b"done", b"not_done", b"1", b"0", b"-", b"x", b"9" * 5_000)), min_size=6, max_size=9
    ),
    st.lists(
        st.sampled_from(
            (
                b"mail",
                b"",
                b'{"value":1}',
                b'{"not_stored":1}',
                b"[]",
                b"{",
                b"null",
                b'"why"',
                b"\xff",
                b"done 1 {}",
                b'done x {"value":1}',
                b"not_done 1",
                b"done 1 []",
                b'not_done 1 {"a":1}',
            )
        ),
        min_size=2,
        max_size=4,
    ),
)


@given(stored=st.one_of(st.binary(max_size=40), RECORD))
@fuzzed(2.0)
def test_effect_records(stored: bytes) -> None:
    with suppress(ServerError):
        assert effect_records.read("k", stored).key == "k"
    with suppress(ServerError):
        effect_records.late_verdict(stored)


def test_the_record_of_an_effect_is_read(queue: Queue) -> None:
    fresh(queue)
    stored = raw(queue).hget(queue.keys.effects("t"), "mail")
    assert effect_records.read("mail", stored).state == "open"


# Everything else

SCORES = st.one_of(st.floats(allow_nan=False), st.sampled_from((0.0, -1.0, 2.0**53 - 1, float("inf"), float("-inf"))))
TASK_FIELDS = (
    "status",
    "side_effect",
    "claim_generation",
    "fencing_token",
    "created_at",
    "lease_expires_at",
    "claimed_at",
    "open_effects",
    "handler_open",
    "priority",
    "decided",
    "ended",
    "failures",
    "retry",
    "lease_ms",
)
VALUES = st.one_of(
    st.binary(max_size=10),
    TEXTS.map(lambda text: text.encode("utf-8", "replace")),
    NUMBERS.map(lambda number: b"%d" % number),
    st.sampled_from((b"dead", b"leased", b"scheduled", b"reconciling", b"completed", b"ready", b"1.5", b"inf")),
)


@given(fields=st.dictionaries(st.sampled_from(TASK_FIELDS), VALUES, min_size=1, max_size=3), every=st.integers(0, 7))
@fuzzed(0.25)
def test_task_hashes(queue: Queue, cli: CommandLine, fields: dict[str, bytes], every: int) -> None:
    fresh(queue)
    raw(queue).hset(queue.keys.task("t"), mapping=fields)
    looks(queue)
    if every == 3:
        nobody_sees_a_traceback(cli)


@given(record=st.one_of(st.binary(max_size=30), RECORD), said=LINES, numbers=st.lists(VALUES, max_size=4))
@fuzzed(0.25)
def test_what_stands_beside(queue: Queue, cli: CommandLine, record: bytes, said: bytes, numbers: list[bytes]) -> None:
    fresh(queue)
    client, keys = raw(queue), queue.keys
    client.hset(keys.effects("t"), "mail", record)
    client.hset(keys.progress, "t", b" ".join((*numbers, said)))
    client.hset(keys.results, "t", said)
    client.hset(keys.payloads, "t", said)
    looks(queue)
    if len(numbers) == 3:
        nobody_sees_a_traceback(cli)


@given(score=SCORES)
@fuzzed(0.1)
def test_scores(queue: Queue, cli: CommandLine, score: float) -> None:
    fresh(queue)
    client, keys = raw(queue), queue.keys
    for name in ("dead", "unsettled", "scheduled", "completed", "workers"):
        client.zadd(keys.base + name, {"t": score})
    looks(queue)
    nobody_sees_a_traceback(cli)


@pytest.mark.parametrize(
    "name",
    [
        "task:t",
        "effects:t",
        "evidence:t",
        "payloads",
        "progress",
        "results",
        "meta",
        "audit",
        "dead",
        "unsettled",
        "scheduled",
        "workers",
    ],
)
@pytest.mark.parametrize("kind", ["string", "list", "zset", "set"])
def test_keys_of_another_type(queue: Queue, cli: CommandLine, name: str, kind: str) -> None:
    fresh(queue)
    client, key = raw(queue), queue.keys.base + name
    client.delete(key)
    if kind == "string":
        client.set(key, "x")
    elif kind == "list":
        client.rpush(key, "x", "y")
    elif kind == "zset":
        client.zadd(key, {"x": 1})
    else:
        client.sadd(key, "x")
    looks(queue)
    nobody_sees_a_traceback(cli, 4)
