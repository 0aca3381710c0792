"""Tests by the server's own clock, on one server: what they are about does not depend on the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from program import one_server
from proxy import Proxy
from servers import Engine
from sharing import Link
from working import assert_whole

from redislease import Queue
from redislease.scripts import shipped


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    """One server for what does not depend on the engine."""
    with one_server() as engine:
        yield engine


@pytest.fixture
def queue(server: Engine, queue_name: str) -> Iterator[Queue]:
    """A queue by the server's clock, whose keys are checked behind the test."""
    with Queue(queue_name, redis_url=server.url) as opened:
        yield opened
        assert_whole(server, opened)


@pytest.fixture
def link(server: Engine) -> Iterator[Link]:
    """A proxy in front of the server."""
    assert server.server
    with server.sync_client() as client:
        for name in shipped().names():
            client.script_load(shipped()[name].source)
    proxy = Proxy(server.server.socket_path)
    yield Link(proxy)
    proxy.close()


@pytest.fixture
def linked(link: Link, queue: Queue) -> Iterator[Queue]:
    """The same queue behind the proxy, for the worker."""
    with Queue(queue.name, redis_url=link.proxy.url) as opened:
        yield opened
