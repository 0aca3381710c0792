"""Time that a test sets: no sleeping, no waiting for leases to end."""

from __future__ import annotations

from typing import Any

import redis

from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

CLOCK_LUA = """\
-- The clock of the tests: the key clock:PREFIX holds milliseconds; without it, the server's time.

local function read_clock()
  local set = redis.pcall('GET', 'clock:' .. string.sub(KEYS[1], 1, -5))
  if type(set) == 'string' then return tonumber(set) * 1000 end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
"""


def virtual_library(**options: Any) -> ScriptLibrary:
    """The shipped scripts with the clock of the tests."""
    return ScriptLibrary(replace={"clock": CLOCK_LUA}, **options)


class VirtualClock:
    """The clock of one queue, as its scripts see it.

    Args:
        client: A plain client of the server.
        keys: The queue's keys.
    """

    START_MS = 1_800_000_000_000

    def __init__(self, client: redis.Redis, keys: QueueKeys) -> None:
        self._client = client
        self._key = f"clock:{keys.base}"
        self.now_ms = 0

    def set_ms(self, now_ms: int = START_MS) -> int:
        """Sets the time in milliseconds, and returns it."""
        self.now_ms = now_ms
        self._client.set(self._key, now_ms)
        return now_ms

    def advance_ms(self, step_ms: int) -> int:
        """Moves the time, also back, and returns it in milliseconds."""
        return self.set_ms((self.now_ms or self.START_MS) + step_ms)

    def release(self) -> None:
        """Back to the server's time."""
        self._client.delete(self._key)
        self.now_ms = 0
