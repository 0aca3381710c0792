"""The library against a reference of its design: random steps by two workers and an operator, on every engine."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
import redis
from both import Both
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from machine.machine import QueueMachine
from machine.world import Stage
from servers import Engine

from redislease.scripts import ScriptLibrary

QUIET: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "report_multiple_bugs": False,
    "phases": (Phase.generate, Phase.shrink),
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
}
SHORT = settings(derandomize=True, max_examples=10, stateful_step_count=60, **QUIET)
"""A few at a time, because later examples are mostly earlier ones with parts repeated, and those repeat refusals."""

LONG = settings(max_examples=10, stateful_step_count=300, **QUIET)
LONG_S = 600.0

SHRINKING_S = 600
"""A failure is made smaller for up to five minutes, and is worth it."""


@pytest.fixture
def stage(engine: Engine, both: Both, library: ScriptLibrary, redis_client: redis.Redis) -> Stage:
    return Stage(engine, both, library, redis_client)


def run(stage: Stage, number: int, how: settings) -> None:
    """Ten machines from a seed, another one on every stage."""
    drawn: Any = seed(f"{stage.engine.name} {stage.both.flavour} {number}")
    run_state_machine_as_test(drawn(lambda: QueueMachine(stage)), settings=how)


@pytest.mark.timeout(SHRINKING_S)
@pytest.mark.parametrize("number", range(2))
def test_the_queue_is_what_the_design_says(stage: Stage, number: int) -> None:
    run(stage, number, SHORT)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_the_queue_is_what_the_design_says_for_longer(stage: Stage) -> None:
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        number = random.getrandbits(32)
        print(f"seed {number}")
        run(stage, number, LONG)
