"""`memory://NAME`: fakeredis servers, shared by every client of this process that gives the same name."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any

from redislease.errors import ConfigurationError

_servers: dict[str, Any] = {}
_lock = threading.Lock()


def require_fakeredis() -> None:
    """Checks that the in-process server can be used.

    It needs lupa for its Lua. lupa is never imported here: created after fakeredis, its plain runtime takes the
    interpreter down.

    Raises:
        ConfigurationError: A package is missing.
    """
    missing = [package for package in ("fakeredis", "lupa") if find_spec(package) is None]
    if missing:
        raise ConfigurationError(f"memory:// needs {' and '.join(missing)}: pip install 'redislease[memory]'")


def memory_server(name: str) -> Any:
    """The fakeredis server of this name; the first use creates it, and it lives as long as the process.

    Raises:
        ConfigurationError: fakeredis or lupa is not installed.
    """
    require_fakeredis()
    from fakeredis import FakeServer

    with _lock:
        if name not in _servers:
            _servers[name] = FakeServer(version=(7, 0), server_type="redis")
        return _servers[name]


def has_memory_server(name: str) -> bool:
    """Whether this process has used a server of this name."""
    return name in _servers


def forget_memory_server(name: str) -> None:
    """Drops a server, so that the next use of its name starts empty."""
    with _lock:
        _servers.pop(name, None)


def connection_classes() -> tuple[type[Any], type[Any]]:
    """The sync and async connection classes that reach a fakeredis server."""
    require_fakeredis()
    from fakeredis import FakeAsyncRedisConnection, FakeRedisConnection

    return FakeRedisConnection, FakeAsyncRedisConnection
