"""When to send a call again: one schedule for both drivers.

Every script may be sent twice, so a whole call is repeated, and redis-py's own retries are off: two layers multiply.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from redislease.connection.failures import failure_of, is_retriable
from redislease.errors import RedisLeaseError

FIRST_DELAY_S = 0.02
CAP_S = 1.0


def backoff_delays(jitter: Callable[[], float] = random.random) -> Iterator[float]:
    """Endless pauses in seconds: 20 ms doubled up to 1 s, each cut at random to between half and all of it.

    The first is short because the usual cause is a pooled connection that the server has closed.
    """
    delay = FIRST_DELAY_S
    while True:
        yield delay * (0.5 + jitter() / 2)
        delay = min(delay * 2, CAP_S)


class RetryPlan:
    """The attempts of one call.

    Args:
        budget_s: Seconds for all attempts and pauses together, timeouts included; 0 means one attempt.
        where: The server, for messages.
        clock: A monotonic clock in seconds.
    """

    def __init__(self, budget_s: float, where: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._where = where
        self._clock = clock
        self._once = budget_s <= 0
        self._deadline = clock() + budget_s
        self._delays = backoff_delays()

    def remaining_s(self) -> float | None:
        """Seconds left for the attempt that starts now, at least a few milliseconds; None without a bound."""
        return None if self._once else max(self._deadline - self._clock(), 0.005)

    def pause_after(self, error: BaseException) -> float:
        """Seconds to wait before the next attempt.

        Raises:
            RedisLeaseError: The error, in our own terms, when it is final or the time is spent.
        """
        failure = error if isinstance(error, RedisLeaseError) else failure_of(error, where=self._where)
        if self._once or not is_retriable(failure):
            raise failure
        pause = next(self._delays)
        if self._clock() + pause >= self._deadline:
            raise failure
        return pause
