"""Sync connections whose opening fits into the time that a call has left.

redis-py gives each step of a handshake the whole socket timeout. A server that accepts and never answers would cost
every call those seconds, however short the call's own time is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import connection as connections


class _Patience(threading.local):
    seconds: float | None = None


_patience = _Patience()


@contextmanager
def connecting_within(seconds: float | None) -> Iterator[None]:
    """Bounds what connections of this module, opened by this thread, wait for in each step; None leaves it to them."""
    _patience.seconds = seconds
    try:
        yield
    finally:
        _patience.seconds = None


class _Bounded:
    socket_timeout: float | None
    socket_connect_timeout: float | None
    _sock: Any
    _parser: Any

    def connect(self) -> None:
        """Opens the connection, unless it is open."""
        seconds = _patience.seconds
        usual = (self.socket_timeout, self.socket_connect_timeout)
        if self._sock or seconds is None or seconds >= min(value or seconds for value in usual):
            return super().connect()  # type: ignore[misc, no-any-return]
        self.socket_timeout = self.socket_connect_timeout = seconds
        try:
            super().connect()  # type: ignore[misc]
        finally:
            self.socket_timeout, self.socket_connect_timeout = usual
        # The parser remembers the timeout that it was connected with.
        self._sock.settimeout(self.socket_timeout)
        self._parser.on_connect(self)


class _Connection(_Bounded, connections.Connection):
    pass


class _SSLConnection(_Bounded, connections.SSLConnection):
    pass


class _UnixDomainSocketConnection(_Bounded, connections.UnixDomainSocketConnection):
    pass


BOUNDED: dict[type[Any], type[Any]] = {
    connections.Connection: _Connection,
    connections.SSLConnection: _SSLConnection,
    connections.UnixDomainSocketConnection: _UnixDomainSocketConnection,
}
"""For each class of redis-py's, ours that opens in time."""
