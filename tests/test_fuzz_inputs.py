"""Whatever people and programs pass in: a typed error, or a value that comes back as it was given."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from fuzzing import JSON, NUMBERS, TEXTS, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from redislease import Backoff, ConfigurationError, InvalidInput, RedisLeaseError, encoding, limits
from redislease.cli import inputs, leases, output
from redislease.cli.batches import Batch
from redislease.cli.errors import describe, exit_code, message
from redislease.cli.producing import Enqueueing
from redislease.cli.session import Session
from redislease.commands.effects import encode_outcome
from redislease.connection.memory import forget_memory_server
from redislease.connection.urls import parse_url, redacted
from redislease.handle import Handle
from redislease.scripts import Header, Script, parse_header, shipped

# Headers

SIGNATURE = st.sampled_from(
    ("KEYS[1] meta", "KEYS[2] never  why", "ARGV[1] durable", "ARGV[2...] id owner", "Returns ok now", "Uses guard moves",
     "        more", "KEYS[٣] meta", "ARGV[" + "9" * 5_000 + "] id", "Uses ../x", "Uses", "KEYS[]", "Returns", "plain")
)  # fmt: skip


@given(lines=st.lists(st.tuples(st.sampled_from(("-- ", "--", "", "-")), st.one_of(SIGNATURE, TEXTS)), max_size=8))
@fuzzed()
def test_headers(lines: list[tuple[str, str]]) -> None:
    with suppress(ConfigurationError):
        header = parse_header("\n".join(start + text for start, text in lines))
        assert isinstance(header, Header)
        assert all(name.replace("_", "").isalpha() for name in header.uses)


@given(text=st.one_of(TEXTS, st.sampled_from(("user_script:", "@user_script: ", '[string "x"]:'))), line=NUMBERS)
@fuzzed()
def test_error_lines_of_a_script(text: str, line: int) -> None:
    script: Script = shipped()["renew"]
    for number in (hex(line), "9" * 5_000, "٣", str(line % 10**6)):
        assert script.locate(f"{text}{number}").startswith(text)


# URLs

URL_PARTS = st.one_of(
    TEXTS,
    st.sampled_from(
        ("redis", "rediss", "unix", "memory", "embedded", "redis+sentinel", "://", ":///", "/", "@", ":", "?", "&", "=",
         "#", "%", "%00", "%zz", "[", "]", "[::1]", "localhost", ":6379", ":99999", "/0", "/x", "/-1", "db=1", "db=x",
         "protocol=3", "protocol=9", "username=u", "ssl_cert_reqs=none", "client_name=n", "\\", " ", "\t", "é", "．")
    ),
)  # fmt: skip
SECRET = "s3cr3t-Pa55"


@given(parts=st.lists(URL_PARTS, max_size=9))
@fuzzed(3.0)
def test_urls(parts: list[str]) -> None:
    with suppress(ConfigurationError):
        parse_url("".join(parts))


@given(
    before=st.lists(URL_PARTS, max_size=3), after=st.lists(URL_PARTS, max_size=4), where=st.sampled_from((0, 1, 2, 3)),
    scheme=st.sampled_from(("redis://", "rediss://", "unix://", "memory://", "embedded://", "redis+cluster://", "http://")),
)  # fmt: skip
@fuzzed(3.0)
def test_no_password_is_shown(before: list[str], after: list[str], where: int, scheme: str) -> None:
    secret = (f"user:{SECRET}@host", f":{SECRET}@", f"h/0?password={SECRET}", f"h?db=0&ssl_password={SECRET}")[where]
    if where < 2:
        # What stands before the last @ are credentials; after it there must be no other.
        url = scheme + secret + "".join(after).replace("@", "")
    else:
        url = scheme + "".join(before).replace("#", "").replace("?", "") + secret
    try:
        shown = parse_url(url).redacted
    except ConfigurationError as refused:
        shown = str(refused) + repr(refused.__cause__)
    assert SECRET not in shown
    assert SECRET not in redacted(url)


# Handles

OWNERS = st.builds("{}-{}".format, st.from_regex(r"[A-Za-z0-9._@-]{1,40}", fullmatch=True), st.integers(1, 10**15))
COUNTS = st.integers(1, 2**53 - 1)
HANDLES = st.builds(
    Handle,
    st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="{}:"), min_size=1, max_size=20),
    OWNERS,
    COUNTS,
    COUNTS,
    st.integers(limits.LEASE_MS_MIN, limits.LEASE_MS_MAX),
)  # fmt: skip


@given(handle=HANDLES)
@fuzzed()
def test_a_handle_comes_back(handle: Handle) -> None:
    assert Handle.decode(handle.encode()) == handle


@given(value=st.one_of(JSON, st.binary(max_size=20), st.lists(JSON, min_size=6, max_size=6), HANDLES))
@fuzzed(2.0)
def test_anything_as_a_handle(value: Any) -> None:
    encoded: list[Any] = [value]
    with suppress(ValueError, TypeError):
        encoded.append(json.dumps(value))
    for one in encoded:
        with suppress(InvalidInput):
            assert Handle.decode(Handle.decode(one).encode())


@given(handle=HANDLES, position=st.integers(0, 5), value=JSON)
@fuzzed()
def test_a_handle_with_another_value(handle: Handle, position: int, value: Any) -> None:
    values = json.loads(handle.encode())
    values[position] = value
    with suppress(ValueError), suppress(InvalidInput):
        Handle.decode(json.dumps(values))


# Payloads, results and outcomes


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
    JSON, st.binary(), st.complex_numbers(), st.datetimes(), st.timedeltas(), st.sets(st.integers()), st.decimals(),
    st.dictionaries(NUMBERS, TEXTS), st.just(10**5_000), st.just(object()), st.just({}.keys()), st.just(type), st.just(len),
)  # fmt: skip


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


# JSON Lines

SERVER = "fuzz-lines"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    opened = Session()
    opened.queue_name, opened.url = "lines", f"memory://{SERVER}"
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
    assert [line for portion in inputs.chunks(io.BytesIO(data), 2) for line in portion][: len(found)] is not None


def _as_lines(values: list[Any]) -> bytes:
    lines = []
    for value in values:
        try:
            lines.append(json.dumps(value).encode("utf-8", "surrogatepass"))
        except ValueError:
            lines.append(b"9" * 5_000)
    return b"\n".join(lines)


FIELDS = (
    "handle", "id", "owner", "generation", "token", "fencing_token", "lease_ms", "lease", "done", "total", "note", "result",
    "result_ref", "error", "fatal", "delay", "not_done", "interrupted", "backoff", "failures", "payload", "name",
    "side_effect", "records_effects", "idempotency_key", "task_id", "priority", "at", "lease_duration", "max_attempts",
    "max_expirations", "max_runtime", "max_same_error", "retry", "credential",
)  # fmt: skip
PLAUSIBLE: dict[str, Any] = {"id": "t", "owner": "w-1", "generation": 1, "token": 1, "done": 1, "error": "no",
                             "name": "n", "side_effect": "idempotent"}  # fmt: skip
TELLING = st.one_of(
    JSON,
    st.sampled_from(
        (1e999, -1e999, 1e308, 0.1, -0.0, 60, "2030-01-31T09:00:00+01:00", "0001-01-01T00:00:00+14:00",
         "9999-12-31T23:59:59-14:00", "2030-01-31T09:00:00", "1:2:3:0.5", "1:2:3:4:5", "1e999", "nan", "::", {"base_s": 1},
         {"base_s": "x"}, {"nothing": 1}, "idempotent", "read_only", True, [], {}, "k" * 128, "k" * 129)
    ),
)  # fmt: skip
LINE = st.dictionaries(st.one_of(st.sampled_from(FIELDS), TEXTS), TELLING, max_size=5)


@pytest.mark.parametrize(
    "kind", [Enqueueing, leases.Renewals, leases.Reports, leases.Completions, leases.Failures, leases.Returns]
)
@given(line=LINE, plausible=st.sampled_from((True, True, False)))
@fuzzed()
def test_a_line_of_every_verb(kind: type[Any], session: Session, line: dict[str, Any], plausible: bool) -> None:
    known = set(FIELDS) if kind is Enqueueing else leases._OF_CLAIM | set(getattr(kind, "fields", ()))
    base = {
        name: value for name, value in PLAUSIBLE.items() if name in known and name not in ("id",)[: kind is Enqueueing]
    }
    if kind is Enqueueing:
        base = {"name": "n", "side_effect": "idempotent"}
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
