"""Embedded servers: shared by processes, gone behind the last one, and nothing is lost by a sudden death."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from servers import missing, wait_until

from redislease.connection import server_binary
from redislease.connection.clients import open_clients
from redislease.connection.embedded import EmbeddedServer
from redislease.connection.ephemeral import EphemeralServer
from redislease.connection.server_binary import ServerBinary, find_server_binary
from redislease.connection.server_directory import ServerDirectory
from redislease.errors import ConfigurationError, ServerUnavailable

USER = """
import sys
from redislease.connection.embedded import EmbeddedServer
import redis
server = EmbeddedServer.attach(sys.argv[1])
client = redis.Redis(unix_socket_path=server.socket_path)
client.incr("users")
print(client.info("server")["process_id"], flush=True)
sys.stdin.readline()
client.close()
server.close()
"""


@pytest.fixture(scope="module", autouse=True)
def binary() -> ServerBinary:
    found = find_server_binary()
    if found is None:
        missing("a server program to embed")
    assert found
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    # Not below pytest's own directory, whose length would decide which case is tested.
    with tempfile.TemporaryDirectory(prefix="rl-emb-") as made:
        path = Path(made) / "q"
        yield path
        if path.is_dir():
            files = ServerDirectory(path)
            wait_until(lambda: files.is_free("server") and files.is_free("guardian"), what="the end of the server")


def start_user(directory: Path) -> tuple[subprocess.Popen[str], int]:
    user = subprocess.Popen(
        [sys.executable, "-c", USER, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert user.stdout
    return user, int(user.stdout.readline())


def value(server: EmbeddedServer, key: str) -> Any:
    with redis.Redis(unix_socket_path=server.socket_path) as client:
        return client.get(key)


def is_gone(directory: Path) -> bool:
    return ServerDirectory(directory).is_free("server")


def test_processes_share_one_server_and_the_last_one_stops_it(directory: Path) -> None:
    first, first_pid = start_user(directory)
    second, second_pid = start_user(directory)
    assert first_pid == second_pid
    first.communicate("\n")
    assert not is_gone(directory)
    second.communicate("\n")
    assert is_gone(directory)
    server = EmbeddedServer.attach(directory)
    assert value(server, "users") == b"2"
    server.close()
    server.close()
    assert is_gone(directory)
    assert (directory.stat().st_mode & 0o777) == 0o700
    assert not list(directory.glob("*.sock"))


def test_starting_at_once(directory: Path) -> None:
    servers: list[EmbeddedServer] = []
    threads = [threading.Thread(target=lambda: servers.append(EmbeddedServer.attach(directory))) for _ in range(8)]
    for thread in threads:
        thread.start()
    users = [start_user(directory) for _ in range(3)]
    for thread in threads:
        thread.join()
    assert len(servers) == 8
    assert len({pid for _, pid in users}) == 1
    assert value(servers[0], "users") == b"3"
    for user, _ in users:
        user.communicate("\n")
    for server in servers:
        assert not is_gone(directory)
        server.close()
    assert is_gone(directory)


def test_killing_every_user_stops_the_server_and_loses_nothing(directory: Path) -> None:
    user, _ = start_user(directory)
    user.kill()
    user.communicate()
    wait_until(lambda: is_gone(directory), what="the end of the server")
    server = EmbeddedServer.attach(directory)
    assert value(server, "users") == b"1"
    server.close()


def test_killing_the_server_brings_it_back_with_its_data(directory: Path) -> None:
    user, pid = start_user(directory)
    os.kill(pid, signal.SIGKILL)
    server = EmbeddedServer.attach(directory)
    assert value(server, "users") == b"1"
    with redis.Redis(unix_socket_path=server.socket_path) as client:
        second_pid = client.info("server")["process_id"]
    os.kill(second_pid, signal.SIGKILL)
    clients = open_clients(f"embedded://{directory}")
    assert clients.client.get("users") == b"1"
    clients.close()
    server.close()
    user.communicate("\n")


def test_killing_the_server_and_its_guardian_and_all_users(directory: Path) -> None:
    user, pid = start_user(directory)
    guardians = subprocess.run(["pgrep", "-f", str(directory)], capture_output=True, text=True, check=False).stdout
    user.kill()
    user.communicate()
    for process in {*map(int, guardians.split()), pid} - {user.pid}:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_until(lambda: is_gone(directory))
    assert list(directory.glob("*.sock")), "a stale socket is what this test is about"
    server = EmbeddedServer.attach(directory)
    assert value(server, "users") == b"1"
    server.close()


def test_long_paths_listen_elsewhere(directory: Path) -> None:
    deep = directory / ("d" * 120)
    server = EmbeddedServer.attach(deep)
    socket_directory = Path(server.socket_path).parent
    assert socket_directory != deep
    assert (socket_directory.stat().st_mode & 0o777) == 0o700
    second = EmbeddedServer.attach(deep)
    assert second.socket_path == server.socket_path
    second.close()
    server.close()
    assert not socket_directory.exists()
    wait_until(lambda: ServerDirectory(deep).is_free("guardian"))


def test_directories_that_cannot_be_used(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        EmbeddedServer.attach(directory)
    directory.chmod(0o700)
    (directory / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be used"):
        EmbeddedServer.attach(directory / "file")
    with pytest.raises(ConfigurationError, match="absolute"):
        EmbeddedServer.attach("relative")


def test_a_server_that_does_not_start_says_why(directory: Path) -> None:
    data = directory / "appendonlydir"
    data.mkdir(parents=True, mode=0o700)
    directory.chmod(0o700)
    (data / "appendonly.aof.manifest").write_text("nonsense\n")
    (directory / "appendonly.aof").write_text("nonsense\n")
    with pytest.raises(ServerUnavailable, match=r"does not start: .*(AOF|format|append)"):
        EmbeddedServer.attach(directory)


def test_without_a_program(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    find_server_binary.cache_clear()
    monkeypatch.setattr(server_binary, "packaged_program", lambda *_: None)
    monkeypatch.setenv("PATH", "/nowhere")
    try:
        with pytest.raises(ConfigurationError, match=r"pip install 'redislease\[embedded\]'"):
            EmbeddedServer.attach(directory)
        with EphemeralServer() as server:
            assert "fakeredis" in server.description
            with redis.Redis.from_url(server.url) as client:
                assert client.eval("return 1", 0) == 1
            process = server._fake
            assert process
            assert process
        assert process.returncode is not None
    finally:
        find_server_binary.cache_clear()


def test_programs_that_are_no_servers() -> None:
    assert server_binary.inspect_binary(Path("/bin/true"), "PATH") is None
    assert server_binary.inspect_binary(Path("/nowhere"), "PATH") is None


def test_the_directory_is_nobodys_after_the_last_close(directory: Path) -> None:
    for _ in range(5):
        EmbeddedServer.attach(directory).close()
        shutil.rmtree(directory)
        assert not directory.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_ephemeral_server_is_gone_after_any_end(binary: ServerBinary, error: type[BaseException]) -> None:
    socket_path = ""
    with pytest.raises(error), EphemeralServer() as server:
        assert server.description == binary.description
        socket_path = server.url.removeprefix("unix://")
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        raise error
    assert not Path(socket_path).parent.exists()
    server.stop()


def test_an_ephemeral_server_that_cannot_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(directory: str) -> EmbeddedServer:
        asked.append(directory)
        assert Path(directory).is_dir()
        raise ServerUnavailable

    monkeypatch.setattr(EmbeddedServer, "attach", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerUnavailable), EphemeralServer():
        pass
    assert Path(asked[0]).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_directory_that_is_too_long_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    server = EmbeddedServer.attach(str(long / "data"))
    try:
        assert len(server.socket_path) <= 100
        with redis.Redis(unix_socket_path=server.socket_path) as client:
            assert client.ping()
    finally:
        server.close()
    assert not Path(server.socket_path).parent.exists()
