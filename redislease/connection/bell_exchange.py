"""A wait for a bell, behind which a call may be put that the server runs as soon as the wait is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from redislease.connection.exchange import CallExchange, Exchange, packed
from redislease.connection.failures import failure_of
from redislease.scripts import Arg


class BellExchange(Exchange):
    """A blocking command, and calls behind it on the same connection.

    A server that blocks a connection goes on by itself with what it has received behind the block, whether a bell rang
    or the time was over: between the ring and the call lies no round trip.

    Args:
        bell: The command that waits.
        where: The server, for messages.

    Attributes:
        rung: Whether a bell rang.
        calls: What was put behind it.
    """

    def __init__(self, bell: Sequence[Arg], where: str) -> None:
        self._bell = packed(bell)
        self._where = where
        self._connection: Any = None
        self._sent: list[bytes] = []
        self._over = False
        self.rung = False
        self.calls: CallExchange | None = None

    @property
    def takes_calls(self) -> bool:
        """Whether calls may be put behind it: there are none, and it is not over."""
        return self.calls is None and not self._over

    def put_behind(self, calls: CallExchange) -> None:
        """Adds calls, also when the wait is under way."""
        self.calls = calls
        # A connection that was lost has no writer; whoever waits will hear of it.
        if self._sent and self._connection._writer is not None:
            commands = calls.commands()
            self._sent.extend(commands)
            self._connection._writer.writelines(commands)

    def begin(self, connection: Any) -> None:
        self._connection = connection

    def commands(self) -> list[bytes]:
        behind = self.calls.commands() if self.calls else []
        if self._over:
            return behind
        self._sent = [self._bell, *behind]
        return self._sent

    def accept(self, replies: Sequence[Any]) -> None:
        bell = None
        if not self._over:
            self._over = True
            bell, *replies = replies
            self.rung = bell is not None and not isinstance(bell, ResponseError)
        if self.calls:
            self.calls.accept(replies)
        if isinstance(bell, ResponseError):
            raise failure_of(bell, where=self._where)
