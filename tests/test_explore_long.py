"""The long form of the search, and the results of it that are committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from explore.__main__ import RESULTS, scripts_digest
from explore.scopes import SCOPES
from explore.search import Search
from explore.trace import as_test

COMMITTED = sorted(RESULTS.glob("*.json"))


def test_the_committed_results_are_what_was_asked_for() -> None:
    committed = [json.loads(path.read_text(encoding="utf-8")) for path in COMMITTED]
    assert max(one["states"] for one in committed) >= 1_000_000
    assert [one["scope"] for one in committed] == [path.stem for path in COMMITTED]
    assert all(one["violation"] is None for one in committed)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_so_many_states_hold_nothing_forbidden(path: Path) -> None:
    committed = json.loads(path.read_text(encoding="utf-8"))
    search = Search(SCOPES[committed["scope"]], seed=committed["seed"])
    result = search.run(max_states=committed["states"])
    assert result.violation is None, as_test(result.violation)
    assert result.states >= committed["states"] or result.complete
    if committed["scripts"] == scripts_digest():
        assert (result.states, result.digest) == (committed["states"], committed["digest"])
