"""How the fuzzing tests run, and what they throw."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

EXAMPLES = os.environ.get("REDISLEASE_FUZZ_EXAMPLES")
"""How many examples of each property, drawn anew each time; without it a few, and always the same."""


PATIENT = pytest.mark.timeout(0 if EXAMPLES else 600)
"""For files with such properties: a failure is made smaller for up to five minutes, and many examples take long."""


def fuzzed(share: float = 1.0) -> settings:
    """Settings for one property; `share` makes an expensive one run less often."""
    return settings(
        derandomize=not EXAMPLES,
        max_examples=max(1, round(int(EXAMPLES or 150) * share)),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


NUMBERS = st.one_of(
    st.integers(),
    st.integers(-2, 12),
    st.sampled_from((0, -1, 2**31, 2**53, 2**53 - 1, 2**63, 2**64, 10**400, -(10**400))),
)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(codec=None), max_size=8),
    st.sampled_from(("", " ", "\0", "\n", "\ud800", "\x1b[2J", "1", "-1", "1e5", "nan", "inf", "handler", "9" * 5_000)),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
"""What JSON can hold, and a little more: infinities and lone surrogates."""

WORDS = st.sampled_from(
    (
        b"",
        b"ok",
        b"lost",
        b"unknown",
        b"conflict",
        b"existing",
        b"0",
        b"1",
        b"2",
        b"4",
        b"17",
        b"-1",
        b"nan",
        b"inf",
        b"1e5",
        b"\xff",
        b"9" * 5_000,
        b"status",
        b"replay",
    )
)
VALUES = st.one_of(
    WORDS,
    WORDS,
    st.binary(max_size=6),
    NUMBERS,
    st.none(),
    st.booleans(),
    st.floats(),
    TEXTS,
    st.just([]),
    st.just([b"ok"]),
    st.just({}),
    st.just({b"a": 1}),
)
"""What a reply can hold, and what it never should."""
