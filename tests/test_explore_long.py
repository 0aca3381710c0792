"""The long form of the search, and the result of it that is committed."""

from __future__ import annotations

import json

import pytest
from explore.__main__ import RESULT, scripts_digest
from explore.scopes import SCOPES
from explore.search import Search
from explore.trace import as_test


@pytest.mark.skipif(not RESULT.exists(), reason="no result has been committed yet")
def test_the_committed_result_is_what_was_asked_for() -> None:
    committed = json.loads(RESULT.read_text(encoding="utf-8"))
    assert committed["states"] >= 1_000_000
    assert committed["violation"] is None


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_a_million_states_hold_nothing_forbidden() -> None:
    committed = json.loads(RESULT.read_text(encoding="utf-8"))
    search = Search(SCOPES[committed["scope"]], seed=committed["seed"])
    result = search.run(max_states=committed["states"])
    assert result.violation is None, as_test(result.violation)
    assert result.states >= 1_000_000
    if committed["scripts"] == scripts_digest():
        assert (result.states, result.digest) == (committed["states"], committed["digest"])
