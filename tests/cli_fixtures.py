"""Fixtures of the tests of the program; they name this module as their plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from command_line import CommandLine
from keyspace import Keyspace
from servers import Engine

from redislease.keys import QueueKeys
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
def plain_queue(engine: Engine, queue_name: str, request: pytest.FixtureRequest) -> Iterator[Queue]:
    """The library on the same queue, by the server's clock; its keys are checked when the test is over."""
    with Queue(queue_name, redis_url=engine.url) as opened:
        yield opened
    if not request.node.get_closest_marker("broken_keys"):
        with engine.sync_client() as client:
            found = Keyspace(client, QueueKeys(queue_name)).problems()
        assert not found, "\n".join(found)


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch, library: ScriptLibrary) -> None:
    """Every queue that is opened runs by the clock of the test."""
    monkeypatch.setattr("redislease.queue_core.shipped", lambda: library)
