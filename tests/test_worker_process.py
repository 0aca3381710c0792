"""What a worker process does with its garbage collector; each test in a process of its own."""

from __future__ import annotations

import subprocess
import sys

FREEZE = "import gc; from redislease.worker.process import PACE, calm_collector; "


def answer_of(program: str) -> str:
    """What a program prints."""
    run = subprocess.run([sys.executable, "-c", FREEZE + program], check=True, capture_output=True, text=True)
    return run.stdout.strip()


def test_the_collector_looks_less_often_in_a_worker_process() -> None:
    assert answer_of("calm_collector(); print(gc.get_threshold() == PACE, gc.isenabled())") == "True True"


def test_an_application_keeps_a_pace_of_its_own() -> None:
    own = answer_of(
        "gc.set_threshold(900, 5, 5); gc.disable(); calm_collector(); print(*gc.get_threshold(), gc.isenabled())"
    )
    assert own == "900 5 5 False"
