"""Every command meets every bad state of a server: one line that says what it is, exit code 5, within the time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from command_line import CommandLine
from server_states import STATES, State, needed_on
from servers import Engine, ServerProcess

from redislease.handle import Handle

AT_MOST_S = 2.0
"""How long one command may take with everything around it."""


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[ServerProcess]:
    started = engine.start_extra()
    yield started
    started.close()


@pytest.fixture(params=STATES.values(), ids=STATES)
def state(engine: Engine, request: pytest.FixtureRequest) -> State:
    """Every state; those that do not depend on the engine once."""
    return needed_on(request.param, engine)


HELD = Handle("q", "t", "w-1", 1, 1_800_000_000_000_000).encode()
BY_HANDLE = ["--handle", HELD, "--queue", "q"]

CLI_WRITES: dict[str, list[str]] = {
    "enqueue": ["enqueue", "work", "--side-effect", "idempotent"],
    "enqueue --jsonl": ["enqueue", "--jsonl", "-", "--name", "work", "--side-effect", "idempotent"],
    "register": ["register"],
    "claim": ["claim"],
    "renew": ["renew", *BY_HANDLE],
    "progress": ["progress", *BY_HANDLE, "--done", "1"],
    "complete": ["complete", *BY_HANDLE],
    "fail": ["fail", *BY_HANDLE, "--error", "broken"],
    "release": ["release", *BY_HANDLE],
    "reconcile resolve": ["reconcile", "resolve", "t", "done", "--token", "1"],
    "requeue": ["requeue", "t", "--token", "1"],
    "cancel": ["cancel", "t"],
    "revoke": ["revoke", "t", "--token", "1"],
    "pause": ["pause"],
    "resume": ["resume"],
    "reap": ["reap"],
    "purge": ["purge"],
}
CLI_READS: dict[str, list[str]] = {
    "queues": ["queues", "--prefix", "nobody"],
    "stats": ["stats"],
    "tasks": ["tasks", "ready"],
    "show": ["show", "t"],
    "why": ["why", "t"],
    "evidence": ["evidence", "t"],
    "workers": ["workers"],
    "audit": ["audit"],
    "check": ["check"],
    "reconcile list": ["reconcile", "list"],
}
NOTHING_TO_WRITE = {
    # in an empty queue: that is what they say, and they ask the server for no write
    *CLI_READS,
    *("renew", "progress", "complete", "fail", "release", "cancel", "revoke", "requeue", "reconcile resolve"),
    *("reap", "purge"),
}


def test_every_command(server: ServerProcess, queue_name: str, state: State) -> None:
    """Exit code 5, one line that says what it is, nothing on standard output, within the time."""
    found: dict[str, tuple[Any, float]] = {}
    with state.enter(server) as url:
        cli = CommandLine(url, queue_name)
        for name, arguments in {**CLI_WRITES, **CLI_READS}.items():
            started = time.monotonic()
            result = cli(
                *arguments, "--timeout", str(state.patience_s), stdin=b"{}\n" if "--jsonl" in arguments else b""
            )
            found[name] = (result, time.monotonic() - started)
    for name, (result, took_s) in found.items():
        assert took_s < AT_MOST_S, f"{name} took {took_s:.1f} s: {result}"
        assert "Traceback" not in result.err
        if state.reads is not False and name in NOTHING_TO_WRITE and result.code != 5:
            continue
        if state.works and not name.startswith("enqueue"):
            assert result.code != 5, f"{name}: {result}"
            continue
        assert result.code == 5, f"{name}: {result}"
        lines = result.err.splitlines()
        assert len(lines) == (2 if name == "enqueue --jsonl" else 1), f"{name}: {result}"
        assert re.search(state.said, lines[-1])
        assert "wr0ng" not in result.err + result.out
        # Where JSON was asked for, the error is JSON too.
        assert [json.loads(line)["error"] for line in result.out.splitlines()] in ([], [state.kind.__name__])
