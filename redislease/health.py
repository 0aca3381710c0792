"""`/healthz` and `/metrics` of a worker or a reaper."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from redislease.errors import ConfigurationError, InvalidInput, RedisLeaseError
from redislease.queue import Queue

HOST = "127.0.0.1"


def address(value: str) -> tuple[str, int]:
    """Host and port of `PORT`, `HOST:PORT` or `[HOST]:PORT`; without a host only this machine can ask.

    Raises:
        InvalidInput: It is neither.
    """
    host, _, port = value.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise InvalidInput(f"an address is PORT or HOST:PORT, not {value!r}")
    return host.strip("[]") or HOST, int(port)


class HealthServer:
    """Answers `/healthz` by claiming nothing from each queue, on the same path as a real claim, and `/metrics`.

    A queue that cannot be claimed from makes the answer 503; so does a paused one not: it is as its operator wants it.

    Args:
        where: Host and port; port 0 takes a free one.
        queues: What lists the queues.
        metrics: What `/metrics` answers; without it, 404.

    Raises:
        ConfigurationError: It cannot listen there.
    """

    def __init__(
        self, where: tuple[str, int], queues: Callable[[], Sequence[Queue]], metrics: Callable[[], bytes] | None = None
    ) -> None:
        self._queues = queues
        self._metrics = metrics
        try:
            self._server = ThreadingHTTPServer(where, self._handler())
        except OSError as problem:
            raise ConfigurationError(f"cannot listen at {where[0]}:{where[1]}: {problem.strerror}") from problem
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="redislease-health", daemon=True)
        self._thread.start()

    def health(self) -> tuple[int, dict[str, str]]:
        """The status code, and for each queue `ok` or what is wrong."""
        found: dict[str, str] = {}
        code = 200
        for queue in self._queues():
            try:
                queue.claim(0)
                found[queue.name] = "ok"
            except RedisLeaseError as problem:
                found[queue.name] = str(problem)
                code = 503
        return code, found

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        health = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/healthz":
                    code, found = health.health()
                    self._answer(code, "application/json", json.dumps(found).encode())
                elif self.path == "/metrics" and health._metrics:
                    self._answer(200, "text/plain; version=0.0.4; charset=utf-8", health._metrics())
                else:
                    self._answer(404, "text/plain", b"/healthz and /metrics\n")

            def _answer(self, code: int, kind: str, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
                pass

        return Handler
