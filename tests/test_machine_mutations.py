"""The machine bites: a fault put into the scripts is found within a few runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from both import Both
from explore.mutations import MUTATIONS, Mutation
from hypothesis import Phase, settings
from machine.world import Stage
from servers import start_engine
from test_machine import SHORT, run
from virtual_clock import virtual_library

RUNS = 5
QUICK = settings(SHORT, phases=(Phase.generate,))
"""Found is enough; nobody reads a smaller example."""

FOUND_SOON = (
    "token clause dropped",
    "expiry clause dropped",
    "renew lowers an expiry",
    "cancel does not raise the fence",
    "tasks in doubt are not listed",
    "a decision is taken twice",
    "a late result writes the hash",
)
NOT_HERE = (
    # These show only with keys that are broken on purpose, which is the explorer's business.
    "reap without a look at the expiry in the hash",
    "reap without a look at the status in the hash",
    "purge forgets unsettled",
    "a stray id is handed out",
    # Bells are not looked at.
    "nobody is woken",
    # Four steps in a row that seldom meet.
    "a try that was given up is begun again",
    # Its workers act at once, so nobody is asked when a handler begins.
    "what never began counts",
    "a start is not noted",
    "a mark outlives its lease",
)
OTHERS = tuple(one.name for one in MUTATIONS if one.name not in (*FOUND_SOON, *NOT_HERE))
BY_NAME = {one.name: one for one in MUTATIONS}


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The simplest stage, with one fault in its scripts."""
    mutation: Mutation = BY_NAME[request.param]
    engine, both = start_engine("fakeredis"), Both("sync")
    library = virtual_library(directory=mutation.copy_to(tmp_path / "lua"))
    with engine.sync_client() as client:
        yield Stage(engine, both, library, client)
    both.close()
    engine.close()


def is_found(stage: Stage, runs: int) -> bool:
    """Whether one of some runs fails, as the comparison with the reference does."""
    for number in range(runs):
        try:
            run(stage, number, QUICK)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("stage", FOUND_SOON, indirect=True)
def test_a_fault_is_found(stage: Stage) -> None:
    assert is_found(stage, RUNS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stage", OTHERS, indirect=True)
def test_other_faults_are_found(stage: Stage) -> None:
    assert is_found(stage, 10 * RUNS)
