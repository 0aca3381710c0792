"""JSON Lines of the command line: each line has an answer, and a broken one stops no other."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from fuzzing import JSON, PATIENT, TEXTS, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from redislease import InvalidInput, Queue, RedisLeaseError
from redislease.cli import inputs, leases, output
from redislease.cli.batches import Batch
from redislease.cli.errors import describe, exit_code, message
from redislease.cli.producing import Enqueueing
from redislease.cli.session import Session
from redislease.connection.memory import forget_memory_server

pytestmark = PATIENT

SERVER = "fuzz-lines"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    opened = Session()
    opened.queue_name, opened.url = "lines", f"memory://{SERVER}"
    with Queue("lines", redis_url=opened.url):
        yield opened
        opened.close()
    forget_memory_server(SERVER)


@given(data=st.one_of(st.binary(max_size=60), st.lists(JSON, max_size=3).map(lambda found: _as_lines(found))))
@fuzzed(2.0)
def test_lines(data: bytes) -> None:
    found = list(inputs.lines(io.BytesIO(data)))
    assert sum(line.size for line in found) <= len(data)
    for line in found:
        assert isinstance(line.value, dict | RedisLeaseError)
    portions = list(inputs.chunks(io.BytesIO(data), 2))
    assert [line.number for portion in portions for line in portion] == [line.number for line in found]


def _as_lines(values: list[Any]) -> bytes:
    lines = []
    for value in values:
        try:
            lines.append(json.dumps(value).encode("utf-8", "surrogatepass"))
        except ValueError:
            lines.append(b"9" * 5_000)
    return b"\n".join(lines)


FIELDS = (
    "handle",
    "id",
    "owner",
    "generation",
    "token",
    "fencing_token",
    "lease_ms",
    "lease",
    "done",
    "total",
    "note",
    "result",
    "result_ref",
    "error",
    "fatal",
    "delay",
    "not_done",
    "interrupted",
    "backoff",
    "failures",
    "payload",
    "name",
    "side_effect",
    "records_effects",
    "idempotency_key",
    "task_id",
    "priority",
    "at",
    "lease_duration",
    "max_attempts",
    "max_expirations",
    "max_runtime",
    "max_same_error",
    "retry",
    "credential",
)
PRODUCED: dict[str, Any] = {"name": "n", "side_effect": "idempotent"}
PROOF: dict[str, Any] = {"id": "t", "owner": "w-1", "generation": 1, "token": 1, "done": 1, "error": "no"}
TELLING = st.one_of(
    JSON,
    st.sampled_from(
        (
            1e999,
            -1e999,
            1e308,
            0.1,
            -0.0,
            60,
            "2030-01-31T09:00:00+01:00",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
            "2030-01-31T09:00:00",
            "1:2:3:0.5",
            "1:2:3:4:5",
            "1e999",
            "nan",
            "::",
            {"base_s": 1},
            {"base_s": "x"},
            {"nothing": 1},
            "idempotent",
            "read_only",
            True,
            [],
            {},
            "k" * 128,
            "k" * 129,
        )
    ),
)
LINE = st.dictionaries(st.one_of(st.sampled_from(FIELDS), TEXTS), TELLING, max_size=5)


@pytest.mark.parametrize(
    "kind", [Enqueueing, leases.Renewals, leases.Reports, leases.Completions, leases.Failures, leases.Returns]
)
@given(line=LINE, plausible=st.sampled_from((True, True, False)))
@fuzzed()
def test_a_line_of_every_verb(kind: type[Any], session: Session, line: dict[str, Any], plausible: bool) -> None:
    base = (
        PRODUCED
        if kind is Enqueueing
        else {name: PROOF[name] for name in PROOF if name in leases._OF_CLAIM or name in kind.fields}
    )
    batch: Batch[Any] = kind(session, {})
    value = {**base, **line} if plausible else line
    found = inputs.Line(1, 1, value)
    (outcome,) = batch.outcomes([found])
    told = outcome if isinstance(outcome, dict) else describe(outcome)
    # Whatever was wrong with it, it can be told, on any terminal.
    assert output.document(told).isascii()
    if not isinstance(outcome, dict):
        assert isinstance(outcome, RedisLeaseError)
        assert exit_code(outcome)
        output.visible(message(outcome)).encode()


@given(text=st.one_of(TEXTS, st.binary(max_size=20), st.builds(json.dumps, st.floats())))
@fuzzed()
def test_strict_json(text: str | bytes) -> None:
    with suppress(InvalidInput):
        value = inputs.json_value(text, "the line")
        assert not (isinstance(value, float) and math.isnan(value))
