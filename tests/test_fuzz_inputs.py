"""Script headers, URLs and handles: whatever they hold, a typed error or a value."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from fuzzing import JSON, NUMBERS, PATIENT, TEXTS, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from redislease import ConfigurationError, InvalidInput, limits
from redislease.connection.urls import parse_url, redacted
from redislease.handle import Handle
from redislease.scripts import Header, Script, parse_header, shipped

pytestmark = PATIENT

# Headers

SIGNATURE = st.sampled_from(
    (
        "KEYS[1] meta",
        "KEYS[2] never  why",
        "ARGV[1] durable",
        "ARGV[2...] id owner",
        "Returns ok now",
        "Uses guard moves",
        "        more",
        "KEYS[٣] meta",
        "ARGV[" + "9" * 5_000 + "] id",
        "Uses ../x",
        "Uses",
        "KEYS[]",
        "Returns",
        "plain",
    )
)


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
        (
            "redis",
            "rediss",
            "unix",
            "memory",
            "embedded",
            "redis+sentinel",
            "://",
            ":///",
            "/",
            "@",
            ":",
            "?",
            "&",
            "=",
            "#",
            "%",
            "%00",
            "%zz",
            "[",
            "]",
            "[::1]",
            "localhost",
            ":6379",
            ":99999",
            "/0",
            "/x",
            "/-1",
            "db=1",
            "db=x",
            "protocol=3",
            "protocol=9",
            "username=u",
            "ssl_cert_reqs=none",
            "client_name=n",
            "\\",
            " ",
            "\t",
            "é",
            "．",
        )
    ),
)
SECRET = "s3cr3t-Pa55"


@given(parts=st.lists(URL_PARTS, max_size=9))
@fuzzed(3.0)
def test_urls(parts: list[str]) -> None:
    with suppress(ConfigurationError):
        parse_url("".join(parts))


@given(
    before=st.lists(URL_PARTS, max_size=3),
    after=st.lists(URL_PARTS, max_size=4),
    where=st.sampled_from((0, 1, 2, 3)),
    scheme=st.sampled_from(
        ("redis://", "rediss://", "unix://", "memory://", "embedded://", "redis+cluster://", "http://")
    ),
)
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
    st.text(
        st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="{}:"), min_size=1, max_size=20
    ),
    OWNERS,
    COUNTS,
    COUNTS,
    st.integers(limits.LEASE_MS_MIN, limits.LEASE_MS_MAX),
)


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
