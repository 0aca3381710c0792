"""The async connection pool: it waits when all connections are busy, and a cancelled caller costs it nothing.

redis-py's own blocking pool waits for a lock when it takes a connection back. A caller that is cancelled there loses
the connection for good, and an `asyncio.Condition` of Python 3.11 can lose the wake-up of the next one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import MaxConnectionsError


class PatientPool(ConnectionPool):
    """A pool whose `get_connection` waits, bounded, and whose `release` never does.

    Args:
        wait_s: Seconds to wait for a free connection.
        max_connections: How many there are at most.
        **options: As for redis-py's pool.
    """

    def __init__(self, *, wait_s: float, max_connections: int, **options: Any) -> None:
        super().__init__(max_connections=max_connections, **options)
        self._wait_s = wait_s
        # Credentials that change are renewed when a connection comes back, which redis-py listens for.
        self._is_listened_to = options.get("credential_provider") is not None
        self._slots = asyncio.Semaphore(max_connections)

    async def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> AbstractConnection:
        """A connection that is open and has nothing left to read.

        Raises:
            MaxConnectionsError: None became free in time.
        """
        if self._slots.locked():
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._slots.acquire()
            except TimeoutError:
                raise MaxConnectionsError(f"none of {self.max_connections} became free in {self._wait_s:g} s") from None
        else:
            await self._slots.acquire()
        try:
            connection: AbstractConnection = self._available()
        except BaseException:
            self._slots.release()
            raise
        try:
            # What redis-py does to make sure is dear for a connection that is open, as nearly all are.
            if not connection.is_connected or await connection.can_read():
                await self.ensure_connection(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            await self.release(connection)
            raise
        return connection

    def _available(self) -> Any:
        return self.get_available_connection()  # type: ignore[no-untyped-call]

    async def release(self, connection: AbstractConnection) -> None:
        """Takes a connection back."""
        try:
            if self._is_listened_to or connection.should_reconnect():  # type: ignore[no-untyped-call]
                await super().release(connection)
            else:
                self._in_use_connections.remove(connection)
                self._available_connections.append(connection)
        finally:
            self._slots.release()
