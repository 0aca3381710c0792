"""Fixtures of the tests of the program; they name this module as their plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from command_line import CommandLine
from servers import Engine

from redislease.queue import Queue
from redislease.scripts import ScriptLibrary


@pytest.fixture
def cli(engine: Engine, queue_name: str) -> CommandLine:
    """The program on each kind of server."""
    return CommandLine(engine.url, queue_name)


@pytest.fixture
def real_cli(real_engine: Engine, queue_name: str) -> CommandLine:
    """The program on each server that other processes reach too."""
    return CommandLine(real_engine.url, queue_name)


@pytest.fixture
def queue(engine: Engine, queue_name: str) -> Iterator[Queue]:
    """The library on the same queue."""
    with Queue(queue_name, redis_url=engine.url) as opened:
        yield opened


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch, library: ScriptLibrary) -> None:
    """Every queue that is opened runs by the clock of the test."""
    monkeypatch.setattr("redislease.queue_core.shipped", lambda: library)
