"""How long connections wait and how many there are: our own numbers, because redis-py's differ by constructor."""

from __future__ import annotations

from dataclasses import dataclass

MIN_BLOCK_S = 0.1
"""The shortest wait for a bell. Zero, or what rounds to it, blocks for ever."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the clients that redislease opens.

    Attributes:
        connect_timeout_s: Seconds for opening a connection.
        socket_timeout_s: Seconds for one reply, unless the command waits on purpose.
        block_s: The longest wait for a bell, in seconds; longer ones are cut.
        max_connections: Connections of one pool.
        pool_wait_s: Seconds to wait for a free connection of the pool.
        health_check_s: A connection idle for longer is tried with a PING before it is used.
    """

    connect_timeout_s: float = 5.0
    socket_timeout_s: float = 5.0
    block_s: float = 5.0
    max_connections: int = 64
    pool_wait_s: float = 10.0
    health_check_s: int = 30

    @property
    def blocking_socket_timeout_s(self) -> float:
        """Seconds for the reply to a blocking command: the block, and then what any other command has."""
        return self.block_s + self.socket_timeout_s


DEFAULT_LIMITS = Limits()
