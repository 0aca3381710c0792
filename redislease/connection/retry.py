"""When to send a call again: one schedule for both drivers.

Every script may be sent twice, so a whole call is repeated, and redis-py's own retries are off: two layers multiply.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from redislease.connection.failures import failure_of, is_retriable, is_silence
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
        budget_s: Seconds for all attempts and pauses together, timeouts included; 0 means one attempt, which takes as
            long as the client's own timeouts allow.
        where: The server, for messages.
        once: Whether there is only one attempt.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self, budget_s: float, where: str, *, once: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._where = where
        self._clock = clock
        self._once = once or budget_s <= 0
        self._deadline = clock() + budget_s if budget_s > 0 else None
        self._delays = backoff_delays()
        self._answered: RedisLeaseError | None = None

    def remaining_s(self) -> float | None:
        """Seconds left for the attempt that starts now, at least a few milliseconds; None without a bound."""
        return None if self._deadline is None else max(self._deadline - self._clock(), 0.005)

    def pause_after(self, error: BaseException) -> float:
        """Seconds to wait before the next attempt.

        Raises:
            RedisLeaseError: The error, in our own terms, when it is final or the time is spent. When the last attempt
                was merely cut short, what an earlier one was told says more.
        """
        failure = error if isinstance(error, RedisLeaseError) else failure_of(error, where=self._where)
        if self._once or not is_retriable(failure):
            raise failure
        silent = is_silence(error)
        if not silent:
            self._answered = failure
        pause = next(self._delays)
        if self._deadline is None or self._clock() + pause >= self._deadline:
            raise self._answered if silent and self._answered else failure
        return pause
