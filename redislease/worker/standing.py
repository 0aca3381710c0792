"""A claim that stands behind the bell, so that an idle worker has its task with the ring.

The server runs it when the wait is over, seconds after it was sent, and whatever the worker is doing then. So:

* It is for one task, and only of a worker of one queue that runs no handler and has nothing to send: one whose loop is
  blocked, or whose machine is cut off, is given one task that it cannot begin, and not one for each free place.
* Whether it ran is not known when its connection breaks or the worker stops. It is sent again then, with its number and
  its limit: the server answers what is still held, or claims under that number, so that a copy which is still on its
  way takes nothing any more.
* Its lease began when it ran, and the local deadline counts from when it was sent. Where that makes much of a
  difference it is sent again too: the answer to that tells what is left from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redislease import local_clock
from redislease.models import Claimed

LIMIT = 1
STALE_PART = 1 / 3
"""The part of a lease that may have passed, by the local count, before a handler begins."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a claim behind the bell was answered.

    Attributes:
        answer: The server's answer, or the error that the claim ended in.
        sent_s: The local clock before it was sent.
    """

    answer: Any
    sent_s: float

    @property
    def is_stale(self) -> bool:
        """Whether too much of a lease has passed, as far as is known here, since the claim was sent."""
        if not isinstance(self.answer, Claimed):
            return False
        passed_ms = (local_clock.elapsed_s() - self.sent_s) * 1000
        return any(passed_ms > grant.remaining_ms * STALE_PART for grant in self.answer.grants)
