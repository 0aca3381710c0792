"""The explorer bites: a fault put into the scripts is found, and the trace that it prints shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from explore.mutations import MUTATIONS, Mutation
from explore.search import Search, Violation
from explore.trace import as_test, replay

STATES = 6_000
"""As many as `test_explore.py` looks at: what that would miss is missed here."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_is_found(mutation: Mutation, tmp_path: Path) -> None:
    mutated = mutation.copy_to(tmp_path / "lua")
    violation = Search(mutation.scope, directory=mutated).run(max_states=STATES).violation
    assert violation is not None, "the explorer did not notice"
    with pytest.raises(AssertionError, match=r"after \["):
        replay(mutation.scope, violation.steps, directory=mutated)
    _run_printed_test(violation)


def _run_printed_test(violation: Violation) -> None:
    """The printed test is about the shipped scripts, and those pass it."""
    names: dict[str, Any] = {}
    exec(compile(as_test(violation), "printed", "exec"), names)
    names["test_found_by_the_explorer"]()
