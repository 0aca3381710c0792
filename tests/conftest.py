"""What every test may ask for."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from both import Both
from keyspace import Keyspace
from servers import Engine, chosen_engines, start_engine
from virtual_clock import VirtualClock, virtual_library

from redislease import AsyncQueue, Queue
from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary


def pytest_configure() -> None:
    """A run in the background of a shell inherits that SIGINT is ignored, and so would the programs that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", params=chosen_engines())
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Each server kind in turn, one server for a test process; tests keep apart by the names of their queues."""
    started = start_engine(request.param)
    yield started
    started.close()


@pytest.fixture(autouse=True)
def empty_server(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test finds the server of its engine empty; it is emptied when everything else of the test is over."""
    started: Engine | None = request.getfixturevalue("engine") if "engine" in request.fixturenames else None
    yield
    if started is not None:
        started.empty()


@pytest.fixture
def real_engine(engine: Engine) -> Engine:
    """Each kind that is a server program."""
    if not engine.is_real:
        pytest.skip("needs a server program")
    return engine


@pytest.fixture(params=["sync", "async"])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    """The two flavours of everything."""
    flavour = Both(request.param)
    yield flavour
    flavour.close()


@pytest.fixture
def redis_client(engine: Engine) -> Iterator[redis.Redis]:
    """A plain client that looks at what is really stored."""
    with engine.sync_client() as client:
        yield client


@pytest.fixture
def queue_name() -> str:
    """A queue that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def keys(queue_name: str) -> QueueKeys:
    """The keys of that queue."""
    return QueueKeys(queue_name)


@pytest.fixture(scope="session")
def library() -> ScriptLibrary:
    """The shipped scripts with the clock of the tests."""
    return virtual_library()


@pytest.fixture
def clock(redis_client: redis.Redis, keys: QueueKeys) -> VirtualClock:
    """The clock of the test's queue, set to a fixed time."""
    virtual = VirtualClock(redis_client, keys)
    virtual.set_ms()
    return virtual


@pytest.fixture
def queue(
    engine: Engine,
    both: Both,
    queue_name: str,
    library: ScriptLibrary,
    clock: VirtualClock,
    request: pytest.FixtureRequest,
) -> Iterator[Any]:
    """A queue of either flavour on a clock that the test sets; its keys are checked when the test is over.

    A test that breaks keys on purpose is marked `broken_keys`.
    """
    make = both.pick(Queue, AsyncQueue)
    opened = make(queue_name, redis_url=engine.url, scripts=library, worker_name="w")
    yield opened
    opened.close()
    if not request.node.get_closest_marker("broken_keys"):
        with engine.sync_client() as client:
            found = Keyspace(client, QueueKeys(queue_name)).problems()
        assert not found, "\n".join(found)


@pytest.fixture
def other(engine: Engine, both: Both, queue_name: str, library: ScriptLibrary, queue: Any) -> Iterator[Any]:
    """The same queue as another worker sees it."""
    opened = both.pick(Queue, AsyncQueue)(queue_name, redis_url=engine.url, scripts=library, worker_name="other")
    yield opened
    opened.close()
