"""Counts what a piece of work costs: commands and CPU as the server sees them, round trips as the client does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import redis
from redis.connection import BlockingConnectionPool, UnixDomainSocketConnection

SCRIPT_CALLS = ("evalsha", "eval")
OWN_COMMANDS = ("info", "config|resetstat", "config", "memory|usage", "ping", "hello", "client|setinfo", "client")


class CountingConnection(UnixDomainSocketConnection):
    """A connection that counts how often the client sends something."""

    sent = 0

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Sends, and counts one round trip."""
        type(self).sent += 1
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]


def counting_client(socket_path: str) -> redis.Redis:
    """A client whose round trips are counted by `CountingConnection.sent`."""
    pool = BlockingConnectionPool(  # type: ignore[no-untyped-call]
        connection_class=CountingConnection, path=socket_path, protocol=2
    )
    return redis.Redis.from_pool(pool)


@dataclass(slots=True)
class Cost:
    """What a piece of work cost.

    Attributes:
        round_trips: How often the client sent something, if it counts.
        commands: Calls of each command, those inside scripts included.
        script_us: Microseconds that the server spent in scripts.
        cpu_us: Microseconds of CPU that the server used in all.
    """

    round_trips: int = 0
    commands: dict[str, int] = field(default_factory=dict)
    script_us: float = 0.0
    cpu_us: float = 0.0

    @property
    def calls(self) -> int:
        """Script calls."""
        return sum(self.commands.get(name, 0) for name in SCRIPT_CALLS)

    @property
    def inner_commands(self) -> int:
        """Commands that scripts ran."""
        return sum(self.commands.values()) - self.calls


@contextmanager
def measured(client: redis.Redis) -> Iterator[Cost]:
    """Fills in the cost of the block when it ends; the client must not be the one that is measured."""
    cost = Cost()
    client.config_resetstat()
    cpu_before, sent_before = _cpu_us(client), CountingConnection.sent
    yield cost
    cost.round_trips = CountingConnection.sent - sent_before
    cost.cpu_us = _cpu_us(client) - cpu_before
    stats: dict[str, Any] = client.info("commandstats")
    for name, figures in stats.items():
        command = name.removeprefix("cmdstat_")
        if command not in OWN_COMMANDS:
            cost.commands[command] = int(figures["calls"])
        if command in SCRIPT_CALLS:
            cost.script_us += float(figures["usec"])


def _cpu_us(client: redis.Redis) -> float:
    info: dict[str, Any] = client.info("cpu")
    return (float(info["used_cpu_user"]) + float(info["used_cpu_sys"])) * 1e6
