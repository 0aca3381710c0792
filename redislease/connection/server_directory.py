"""The directory of an embedded server: its locks, its socket, and the guardian that keeps the server running.

Run as a program, this file is the guardian; so it imports nothing but the standard library, and starts in milliseconds.

Four locks, all released by the kernel when their holder dies, however it dies:

* `users`: shared, one holder for each attached process. Nobody can hold it alone: the server is no longer needed.
* `server`: inherited by the server itself. Free: no server is writing here.
* `guardian`: held by the guardian. It starts the server again when it dies, and stops it behind the last user.
* `transition`: held for moments by whoever attaches, starts or stops.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

POLL_S = 0.1
"""How often the guardian looks."""

STOP_S = 10.0
"""How long a server may take to stop before it is killed; its append-only file survives that."""

MAX_SOCKET_PATH_BYTES = 100
"""Below `sun_path` of every system (104 on macOS, 108 on Linux)."""

MAX_FAILED_STARTS = 3


class ServerDirectory:
    """The files of one embedded server.

    Args:
        path: The directory; it exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "server.log"
        self._socket_record = path / "socket-path"
        self._pid_file = path / "server.pid"

    def take(self, lock: str, *, shared: bool = False) -> int | None:
        """Takes a lock if it is free.

        Returns:
            A file descriptor that holds it until it is closed, or None.
        """
        descriptor = os.open(self.path / f"{lock}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def is_free(self, lock: str) -> bool:
        """Whether nobody holds a lock."""
        descriptor = self.take(lock)
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    @contextlib.contextmanager
    def transition(self, timeout_s: float) -> Iterator[None]:
        """Keeps everybody else from attaching, starting and stopping.

        Raises:
            TimeoutError: Somebody else held it all the time.
        """
        deadline = time.monotonic() + timeout_s
        while (descriptor := self.take("transition")) is None:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self.path}: another process is starting or stopping the server")
            time.sleep(0.01)
        try:
            yield
        finally:
            os.close(descriptor)

    @property
    def socket_path(self) -> str:
        """Where the server listens: in the directory, or where the path is short enough."""
        own = str(self.path / "server.sock")
        if len(os.fsencode(own)) <= MAX_SOCKET_PATH_BYTES:
            return own
        try:
            return self._socket_record.read_text()
        except FileNotFoundError:
            return own

    def prepare_socket(self) -> str:
        """Makes the socket's place ready for a new server: a private directory if need be, and nothing stale in it."""
        path = self.socket_path
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES or not _is_private(Path(path).parent, self.path):
            path = str(_short_directory() / "server.sock")
            self._socket_record.write_text(path)
        Path(path).unlink(missing_ok=True)
        return path

    def answer_to_ping(self) -> bytes:
        """The first line that the server answers to PING; empty if it cannot be reached."""
        return _ask(self.socket_path, b"PING\r\n", timeout_s=2.0)

    def start_server(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Starts the server, which keeps the `server` lock for as long as it lives.

        Args:
            command: The program and its options, but for its paths.
        """
        while (lock := self.take("server")) is None:
            # The caller saw it free; somebody who asks whether it is free holds it for an instant.
            time.sleep(0.001)
        try:
            paths = {
                "dir": self.path,
                "unixsocket": self.prepare_socket(),
                "logfile": self.log,
                "pidfile": self._pid_file,
            }
            options = [part for name, path in paths.items() for part in (f"--{name}", str(path))]
            return subprocess.Popen(
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(lock,),
                cwd=self.path,
            )
        finally:
            os.close(lock)

    def stop_server(self) -> None:
        """Stops the server if there is one, without losing a write, and removes its socket."""
        if not self.is_free("server"):
            _ask(self.socket_path, b"SHUTDOWN NOSAVE\r\n", timeout_s=STOP_S)
            for sign in (signal.SIGTERM, signal.SIGKILL):
                if self.wait_free("server", STOP_S / 2):
                    break
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int(self._pid_file.read_text()), sign)
            self.wait_free("server", STOP_S / 2)
        path = Path(self.socket_path)
        path.unlink(missing_ok=True)
        if path.parent != self.path:
            shutil.rmtree(path.parent, ignore_errors=True)
            self._socket_record.unlink(missing_ok=True)

    def stop_if_unused(self, timeout_s: float = STOP_S) -> bool:
        """Stops the server if no process is attached any more."""
        with self.transition(timeout_s):
            return self._stop_if_unused()

    def _stop_if_unused(self) -> bool:
        users = self.take("users")
        if users is None:
            return False
        try:
            self.stop_server()
        finally:
            os.close(users)
        return True

    def wait_free(self, lock: str, timeout_s: float) -> bool:
        """Waits until nobody holds a lock; False if somebody still does."""
        deadline = time.monotonic() + timeout_s
        while not self.is_free(lock):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def guard(self, command: list[str]) -> int:
        """Runs the server until no process is attached any more; the `guardian` lock was inherited.

        Args:
            command: The server program and its options, but for its paths.

        Returns:
            An exit code: 0 when the server was stopped, 1 when it does not start.
        """
        children: list[subprocess.Popen[bytes]] = []
        failed_starts = 0
        without_socket_s = 0.0
        while True:
            with self.transition(timeout_s=4 * STOP_S):
                if self._stop_if_unused():
                    return 0
                if self.is_free("server"):
                    if failed_starts >= MAX_FAILED_STARTS:
                        return 1
                    failed_starts += 1
                    children.append(self.start_server(command))
                    without_socket_s = 0.0
                elif Path(self.socket_path).exists():
                    without_socket_s = 0.0
                    if failed_starts and self.answer_to_ping():
                        failed_starts = 0
                else:
                    # Somebody cleaned it away: nobody can attach to such a server any more.
                    without_socket_s += POLL_S
                    if without_socket_s > 5.0:
                        self.stop_server()
            children = [child for child in children if child.poll() is None]
            time.sleep(POLL_S)


def _short_directory() -> Path:
    """A new private directory whose path leaves room for a socket's name; TMPDIR may be too long itself."""
    longest = MAX_SOCKET_PATH_BYTES - len("/redislease-12345678/server.sock")
    base = next((one for one in (tempfile.gettempdir(), "/tmp") if len(os.fsencode(one)) <= longest), None)
    return Path(tempfile.mkdtemp(prefix="redislease-", dir=base))


def _is_private(directory: Path, own: Path) -> bool:
    """Whether only this user can put something into a directory that was recorded earlier."""
    if directory == own:
        return True
    try:
        found = directory.lstat()
    except OSError:
        return False
    return directory.is_dir() and found.st_uid == os.getuid() and found.st_mode & 0o077 == 0


def _ask(path: str, request: bytes, timeout_s: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(path)
            connection.sendall(request)
            return connection.recv(256).partition(b"\r\n")[0]
        except OSError:
            return b""


if __name__ == "__main__":
    sys.exit(ServerDirectory(Path(sys.argv[1])).guard(json.loads(sys.argv[2])))
