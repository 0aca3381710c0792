"""Fixtures of the tests of `redislease exec`; they name this module as their plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from executing import Exec
from program import Mark, marked, one_server
from servers import Engine

from redislease import Queue


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    """One server program for the module."""
    with one_server() as engine:
        yield engine


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Mark]:
    """The processes of the test; none of them outlives it."""
    with marked(tmp_path) as made:
        yield made
        made.wait_gone()


@pytest.fixture
def shared(server: Engine, queue_name: str) -> Iterator[Queue]:
    """A queue of the test's own."""
    with Queue(queue_name, redis_url=server.url) as made:
        yield made


@pytest.fixture
def execution(mark: Mark, server: Engine, shared: Queue) -> Iterator[Exec]:
    """Starts the program."""
    made = Exec(mark, server, shared)
    yield made
    made.close()
