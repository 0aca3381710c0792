"""A server of one's own for a benchmark, kept on one core while the client stays on another.

Unpinned, the same round trip is half or twice as fast depending on where the scheduler puts the two processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import redis

from redislease import AsyncQueue, Queue
from redislease.scripts import ScriptLibrary

START_S = 10.0


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--server", default="redis-server", help="the server program (default: redis-server on PATH)")
    parser.add_argument("--lua", type=Path, help="another directory of scripts, to compare a change with")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


class BenchmarkServer:
    """A server on a unix socket in a temporary directory, without persistence; pins itself and this process.

    Args:
        options: What `arguments` has parsed.
        config: Further server options.
        tcp: Whether it is reached over TCP, as workers on other machines reach theirs; the socket is there too.
    """

    def __init__(self, options: argparse.Namespace, *config: str, tcp: bool = False) -> None:
        program = shutil.which(options.server)
        if program is None:
            raise SystemExit(f"there is no program {options.server}: give one with --server")
        self._library = ScriptLibrary(options.lua) if options.lua else None
        self._directory = tempfile.mkdtemp(prefix="redislease-benchmark-")
        self.socket_path = f"{self._directory}/s"
        self.port = free_port() if tcp else 0
        self.pinned = self._pin_client()
        pin = ["taskset", "--cpu-list", str(self.pinned)] if self.pinned is not None else []
        command = [*pin, program, "--port", str(self.port), "--unixsocket", self.socket_path, "--dir", self._directory]
        command += ["--save", "", "--appendonly", "no", *config]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}" if self.port else f"unix://{self.socket_path}"

    def client(self, **options: Any) -> redis.Redis:
        """A plain client."""
        where: dict[str, Any] = {"port": self.port} if self.port else {"unix_socket_path": self.socket_path}
        return redis.Redis(**where, protocol=2, **options)

    def queue(self, name: str = "orders", **options: Any) -> Queue:
        """A queue on it, with the scripts that the benchmark was asked to use."""
        return Queue(name, scripts=self._library, **(options or {"redis_url": self.url}))

    def async_queue(self, name: str = "orders", **options: Any) -> AsyncQueue:
        """The same for asyncio."""
        return AsyncQueue(name, scripts=self._library, **(options or {"redis_url": self.url}))

    def description(self) -> str:
        """The server's own name and version, and whether it has a core to itself."""
        with self.client() as client:
            info: dict[str, Any] = client.info("server")
        name, version = (
            ("Valkey", info["valkey_version"]) if "valkey_version" in info else ("Redis", info["redis_version"])
        )
        return f"{name} {version}, {'pinned' if self.pinned is not None else 'not pinned'}"

    @staticmethod
    def _pin_client() -> int | None:
        """Keeps this process on the first core; answers the last one, for the server."""
        if not hasattr(os, "sched_getaffinity") or shutil.which("taskset") is None:
            return None
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            return None
        os.sched_setaffinity(0, {cores[0]})
        return cores[-1]

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                with self.client() as client:
                    client.ping()
                return
            except redis.RedisError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise SystemExit("the server does not start") from None
                time.sleep(0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def timed_s(function: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
