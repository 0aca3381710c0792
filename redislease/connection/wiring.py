"""What both transports share: how a queue's calls are sent, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from redislease.commands.call import Call
from redislease.connection.clients import AsyncClients, Clients, socket_timeout_of
from redislease.connection.exchange import CallExchange
from redislease.connection.limits import MIN_BLOCK_S
from redislease.connection.retry import RetryPlan
from redislease.errors import ConfigurationError, RedisLeaseError
from redislease.keys import QueueKeys, queues_key
from redislease.scripts import Arg, ScriptLibrary

T = TypeVar("T")

ANNOUNCE_S = 1.0


class Wiring:
    """The settings of a transport; the arguments are those of `Transport`."""

    def __init__(
        self,
        keys: QueueKeys,
        library: ScriptLibrary,
        clients: Clients | AsyncClients,
        wait_replicas: int,
        wait_timeout_ms: int,
        retry_for_s: float,
    ) -> None:
        self.keys = keys
        self._library = library
        self._where = clients.where
        self._wait_replicas = wait_replicas
        self._wait_timeout_ms = wait_timeout_ms
        self._retry_for_s = retry_for_s
        self._reply_s = socket_timeout_of(clients.client)
        self._attempt_s = clients.limits.connect_timeout_s + (self._reply_s or float("inf"))
        if wait_replicas and self._reply_s is not None and wait_timeout_ms / 1000 > self._reply_s - 0.5:
            raise ConfigurationError(
                f"wait_timeout_ms={wait_timeout_ms} must stay 500 ms below the client's socket timeout of "
                f"{self._reply_s:g} s"
            )

    def calls(self, calls: Sequence[Call[Any]]) -> CallExchange:
        """The exchange for some calls."""
        return CallExchange(
            calls,
            keys=self.keys,
            library=self._library,
            where=self._where,
            wait_replicas=self._wait_replicas,
            wait_timeout_ms=self._wait_timeout_ms,
        )

    def plan(self, retry_for_s: float | None) -> RetryPlan:
        """The attempts of one call, in seconds for all of them."""
        return RetryPlan(self._retry_for_s if retry_for_s is None else retry_for_s, self._where)

    def announcement_plan(self) -> RetryPlan:
        """One attempt, and no long one: nobody waits for an announcement."""
        return RetryPlan(min(self._retry_for_s, ANNOUNCE_S), self._where, once=True)

    def attempt_timeout(self, plan: RetryPlan) -> float | None:
        """Seconds for the next attempt; None where the client's own timeouts end it soon enough."""
        remaining_s = plan.remaining_s()
        return remaining_s if remaining_s is not None and remaining_s < self._attempt_s else None

    def reply_timeout(self, plan: RetryPlan) -> dict[str, float]:
        """The argument that shortens a read to what is left of the plan, if it must be shortened."""
        remaining_s = plan.remaining_s()
        if remaining_s is None or (self._reply_s is not None and remaining_s >= self._reply_s):
            return {}
        return {"timeout": remaining_s}

    def announcement(self) -> tuple[Arg, ...]:
        """The command that lists the queue among all queues."""
        return ("SADD", queues_key(self.keys.prefix), self.keys.queue)


def bell_command(keys: Sequence[str], timeout_s: float, longest_s: float) -> list[Arg]:
    """BZPOPMIN with a bounded timeout: zero would block for ever, and a long one outlive the socket's patience."""
    bounded_s = min(max(timeout_s, MIN_BLOCK_S), longest_s)
    return ["BZPOPMIN", *keys, f"{bounded_s:.3f}"]


def rung(reply: Any) -> str | None:
    """The key in a reply of BZPOPMIN."""
    return bytes(reply[0]).decode() if reply else None


def first_error(outcomes: list[T]) -> list[T]:
    """The outcomes, if none is an error; else the first error is raised."""
    for outcome in outcomes:
        if isinstance(outcome, RedisLeaseError):
            raise outcome
    return outcomes
