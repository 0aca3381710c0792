"""Every bad state of a server, as something that a test can put one into, and what a caller is then told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from proxy import always_answering
from servers import Engine, ServerProcess, first_program, free_port, wait_until
from verbs import VERBS

from redislease import (
    PermissionDenied,
    RedisLeaseError,
    ServerError,
    ServerLoading,
    ServerOutOfMemory,
    ServerReadOnly,
    ServerUnavailable,
)

PATIENCE_S = 0.05
"""How long calls to a server that does not answer are repeated; one that answers is asked once."""


@contextmanager
def absent(server: ServerProcess) -> Iterator[str]:
    """There is no socket."""
    yield "unix:///nowhere/s"


@contextmanager
def refusing(server: ServerProcess) -> Iterator[str]:
    """Nobody listens."""
    yield f"redis://127.0.0.1:{free_port()}/0"


@contextmanager
def silent(server: ServerProcess) -> Iterator[str]:
    """Somebody accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


@contextmanager
def stopped(server: ServerProcess) -> Iterator[str]:
    """The process does not run."""
    server.pause()
    try:
        yield server.url
    finally:
        server.resume()


@contextmanager
def configured(server: ServerProcess, **settings: Any) -> Iterator[redis.Redis]:
    """Settings of the server, for a while."""
    with server.sync_client() as client:
        before = {name: client.config_get(name)[name] for name in (key.replace("_", "-") for key in settings)}
        for name, value in settings.items():
            client.config_set(name.replace("_", "-"), value)
        try:
            yield client
        finally:
            for name, value in before.items():
                client.config_set(name, value)


@contextmanager
def wrong_password(server: ServerProcess) -> Iterator[str]:
    """The password has changed."""
    with configured(server, requirepass="right"):
        yield f"{server.url}?password=wr0ng"


@contextmanager
def no_password(server: ServerProcess) -> Iterator[str]:
    """A password is asked for and there is none."""
    with configured(server, requirepass="right"):
        yield server.url


@contextmanager
def replica(server: ServerProcess) -> Iterator[str]:
    """It became a replica, which takes no writes."""
    with server.sync_client() as client:
        client.replicaof("127.0.0.1", free_port())
        try:
            yield server.url
        finally:
            client.replicaof("NO", "ONE")


@contextmanager
def stale_replica(server: ServerProcess) -> Iterator[str]:
    """It became a replica that answers nothing while its primary is down."""
    with configured(server, replica_serve_stale_data="no"), replica(server) as url:
        yield url


@contextmanager
def too_few_replicas(server: ServerProcess) -> Iterator[str]:
    """It must not write alone."""
    with configured(server, min_replicas_to_write=1):
        yield server.url


@contextmanager
def full(server: ServerProcess) -> Iterator[str]:
    """It is at maxmemory."""
    with configured(server, maxmemory=1):
        yield server.url


@contextmanager
def cannot_save(server: ServerProcess) -> Iterator[str]:
    """Its snapshots fail, and it takes no writes until one succeeds."""
    in_the_way = Path(server.directory) / "dump.rdb"
    in_the_way.mkdir()
    with configured(server, save="3600 100000") as client:
        client.bgsave()
        wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", what="a failed snapshot")
        try:
            yield server.url
        finally:
            in_the_way.rmdir()
            client.save()
            in_the_way.unlink()


@contextmanager
def crowded(server: ServerProcess) -> Iterator[str]:
    """It takes no connection more."""
    with ExitStack() as stack, configured(server, maxclients=8):
        for _ in range(8):
            filler = stack.enter_context(socket.socket(socket.AF_UNIX))
            filler.connect(server.socket_path)
        time.sleep(0.05)
        yield server.url


def is_busy(client: redis.Redis) -> bool:
    """Whether it answers BUSY."""
    try:
        client.ping()
    except redis.ResponseError:
        return True
    return False


@contextmanager
def busy(server: ServerProcess) -> Iterator[str]:
    """A script does not end."""

    def loop() -> None:
        with server.sync_client(socket_timeout=60) as client, pytest.raises(redis.ResponseError):
            client.eval("while true do end", 0)

    with configured(server, lua_time_limit=5) as client:
        looping = threading.Thread(target=loop)
        looping.start()
        try:
            wait_until(lambda: is_busy(client), what="BUSY")
            yield server.url
        finally:
            client.script_kill()
            looping.join()


@contextmanager
def loading(server: ServerProcess) -> Iterator[str]:
    """It reads its data, and says so to everybody (`test_a_server_that_really_loads` meets a real one)."""
    with always_answering(b"-LOADING Redis is loading the dataset in memory") as url:
        yield url


@dataclass(frozen=True, slots=True)
class State:
    """A state of the server.

    Attributes:
        enter: Puts a server into it, and answers the URL to use.
        kind: What a call raises.
        said: What a person reads.
        reads: Whether reading works; None where that depends on the engine.
        works: The verbs that work nevertheless.
        patience_s: How long calls are repeated.
        everywhere: Whether the engine does not matter.
    """

    enter: Callable[[ServerProcess], AbstractContextManager[str]]
    kind: type[RedisLeaseError]
    said: str
    reads: bool | None = False
    works: frozenset[str] = frozenset()
    patience_s: float = 0.0
    everywhere: bool = False


WORKS_WHEN_FULL = frozenset(name for name, verb in VERBS.items() if verb.when_full == "works")

STATES: dict[str, State] = {
    state.enter.__name__: state
    for state in (
        State(absent, ServerUnavailable, "cannot reach", patience_s=PATIENCE_S, everywhere=True),
        State(refusing, ServerUnavailable, "cannot reach", patience_s=PATIENCE_S, everywhere=True),
        State(silent, ServerUnavailable, "did not answer in time", patience_s=PATIENCE_S, everywhere=True),
        State(stopped, ServerUnavailable, "did not answer in time", patience_s=PATIENCE_S, everywhere=True),
        State(wrong_password, PermissionDenied, "refuses the user name or the password"),
        State(no_password, PermissionDenied, "asks for a password"),
        State(replica, ServerReadOnly, "read-only replica", reads=True),
        State(stale_replica, ServerUnavailable, "primary is down"),
        State(too_few_replicas, ServerError, "too few healthy replicas", reads=True),
        State(full, ServerOutOfMemory, "maxmemory", reads=True, works=WORKS_WHEN_FULL),
        State(cannot_save, ServerError, "cannot save to disk", reads=None),
        State(crowded, ServerUnavailable, "no free connection|cannot reach"),
        State(busy, ServerUnavailable, "busy with a long script"),
        State(loading, ServerLoading, "still loading", everywhere=True),
    )
}


def needed_on(state: State, engine: Engine) -> State:
    """The state, or a skipped test where another engine has met it already."""
    if state.everywhere and engine.name != first_program():
        pytest.skip("the same on every engine")
    return state
