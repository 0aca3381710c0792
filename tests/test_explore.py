"""The shipped scripts through every interleaving, in short: nothing that the design forbids can be reached."""

from __future__ import annotations

from functools import cache

import pytest
from explore.normal import PIECES, Normal, digest
from explore.scopes import SCOPES
from explore.search import Search
from explore.store import Store
from explore.trace import as_test
from explore.view import State

NAMES = ("full", "holding", "operating", "faults", "restarts", "effects")
SHORT = 6_000
"""So many states are enough to find every mutation of `test_explore_mutations.py`; the slow run looks further."""


@pytest.mark.parametrize("states", [SHORT, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_forbidden_can_be_reached(name: str, states: int) -> None:
    result = Search(SCOPES[name]).run(max_states=states)
    assert result.violation is None, as_test(result.violation)
    assert result.states >= states or result.complete


def test_a_search_is_reproducible() -> None:
    first, second, other = (Search(SCOPES["full"], seed=seed).run(max_states=250) for seed in (3, 3, 4))
    assert (first.digest, first.transitions, first.layers) == (second.digest, second.transitions, second.layers)
    assert first.digest != other.digest


ALL = "+".join(PIECES)
MERGINGS = [(name, ALL) for name in ("holding", "operating", "restarts", "effects")]
MERGINGS += [("restarts", piece) for piece in PIECES]


@pytest.mark.parametrize(("name", "without"), MERGINGS, ids=str)
def test_merging_loses_nothing(name: str, without: str) -> None:
    """Without a kind of merging, the search meets more states, but none whose normal form is new or missing."""
    merged, states = reached(name, "")
    apart, more_states = reached(name, without)
    assert merged == apart
    assert more_states >= states
    assert more_states > states or without != ALL


@cache
def reached(name: str, without: str) -> tuple[set[bytes], int]:
    """The normal forms of all states up to a depth, and as how many states the search met them."""
    normal = Normal(SCOPES[name])
    found: set[bytes] = set()

    def observe(state: State) -> None:
        found.add(digest(normal(state)))

    pieces = frozenset(without.split("+")) - {""}
    result = Search(SCOPES[name], without=pieces, observe=observe).run(max_states=100_000, max_depth=3)
    assert result.violation is None
    assert result.depth == 3
    return found, result.states


def test_remembered_calls_are_those_that_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is answered from memory and the same call run again have one effect."""
    remembered = Search(SCOPES["full"]).run(max_states=300)
    monkeypatch.setattr(Store, "call", Store.call_anew)
    assert Search(SCOPES["full"]).run(max_states=300).digest == remembered.digest
