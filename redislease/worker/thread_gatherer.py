"""Gathers the calls of handlers that run in threads, so that many travel in one round trip.

The first that comes sends at once. Those that come while its round trip is under way gather, and one of them sends for
all when it is over. No thread but those of the handlers takes part, so a busy event loop does not hold anybody up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from redislease.commands.call import Call
from redislease.connection.transport import Transport
from redislease.errors import RedisLeaseError, ServerUnavailable
from redislease.worker.errand import ALONE, Errand, Shared, can_share, take

PATIENCE_S = 0.5
"""How long to wait for a place in a round trip, before a call goes alone: the line stands still."""

LEAD = object()
"""In place of an answer: it is this one's turn to send."""


class ThreadGatherer:
    """The line in which the calls of a queue's plain functions wait for a round trip; see `Gatherer`.

    Args:
        transport: What sends.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._waiting: deque[Errand] = deque()
        self._under_way = False

    def run(self, call: Call[Any], retry_for_s: float) -> Any:
        """Runs a call; see `Transport.run`."""
        if not can_share(call, retry_for_s):
            return self._transport.run_many([call], retry_for_s=retry_for_s)[0]
        ends_s = time.monotonic() + retry_for_s
        waits: Future[Any] = Future()
        errand = Errand(call, waits, ends_s)
        with self._lock:
            leads, self._under_way = not self._under_way, True
            self._waiting.append(errand)
        answer = LEAD if leads else self._wait(errand, waits)
        if answer is LEAD:
            answer = self._lead(errand)
        if answer is ALONE:
            left_s = max(ends_s - time.monotonic(), 0.0)
            return self._transport.run_many([call], retry_for_s=left_s)[0]
        if isinstance(answer, RedisLeaseError):
            raise answer
        return answer

    def _wait(self, errand: Errand, answer: Future[Any]) -> Any:
        """What another thread brings."""
        with suppress(TimeoutError):
            return answer.result(PATIENCE_S)
        with self._lock:
            if errand in self._waiting and not answer.done():
                self._waiting.remove(errand)
                return ALONE
        with suppress(TimeoutError):
            return answer.result(max(errand.ends_s - time.monotonic(), 0.0))
        return ServerUnavailable(f"{self._transport.where} did not answer in time")

    def _lead(self, own: Errand) -> Any:
        """Sends what waits, and hands over to the next."""
        answer: Future[Any] = Future()
        own.answer = answer
        with self._lock:
            errands = take(self._waiting)
        shared = Shared(errands)
        try:
            budget_s = max(min(errand.ends_s for errand in errands) - time.monotonic(), 0.0)
            # When it fails, each goes on by itself.
            with suppress(RedisLeaseError):
                shared.take(self._transport.run_many(shared.calls, retry_for_s=budget_s, return_errors=True))
        finally:
            shared.give_back()
            self._hand_over()
        return answer.result(0)

    def _hand_over(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting[0].give(LEAD)
            else:
                self._under_way = False
