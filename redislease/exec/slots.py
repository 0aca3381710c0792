"""The claim loops: each slot takes a task, runs it, and takes the next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum

from redislease.errors import ServerError, ServerLoading, ServerOutOfMemory, ServerReadOnly, ServerUnavailable
from redislease.exec.listener import Listener
from redislease.exec.runner import Report, TaskRunner
from redislease.exec.stop import StopOrder
from redislease.lease import Lease
from redislease.queue import Queue

WAIT_S = 2.0
"""How long one claim sleeps on the bell; also how long an idle slot takes to notice the wish to end."""

PASSING = (ServerUnavailable, ServerLoading, ServerOutOfMemory, ServerReadOnly)
"""What a server gets over, so that a worker need not end."""


class Until(StrEnum):
    """When to end."""

    FOREVER = "forever"
    ONCE = "once"
    DRAINED = "drained"


class Slots:
    """Some threads, each with one task at a time.

    Args:
        queue: Where tasks come from.
        runner: Runs and settles them.
        stop: The wish to end.
        until: When to end.
        wait_s: Seconds to wait for a task when there is none, unless it goes on forever.
        say: Is told of each task.
        complain: Is told of a server that is away.
    """

    def __init__(
        self,
        queue: Queue,
        runner: TaskRunner,
        stop: StopOrder,
        *,
        until: Until,
        wait_s: float,
        say: Callable[[Report], object],
        complain: Callable[[str], object],
    ) -> None:
        self._queue = queue
        self._runner = runner
        self._stop = stop
        self._until = until
        self._wait_s = wait_s
        self._say = say
        self._complain = complain
        self._listener = Listener(queue)
        self._problem: BaseException | None = None

    def run(self, concurrency: int) -> None:
        """Runs the slots until they end.

        Raises:
            Exception: The first fault of a slot; the others were ended in good order.
        """
        threads = [threading.Thread(target=self._slot, name=f"slot-{number}") for number in range(concurrency)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(WAIT_S)  # in turns, so that signals are heard
        if self._problem:
            raise self._problem

    def _slot(self) -> None:
        try:
            while lease := self._claim():
                self._listener.add(lease)
                try:
                    report = self._runner.run(lease)
                finally:
                    self._listener.remove(lease)
                self._say(report)
                if self._until is Until.ONCE:
                    return
        except BaseException as problem:  # noqa: BLE001 - raised again by `run`
            self._problem = self._problem or problem
            self._stop.ask()

    def _claim(self) -> Lease | None:
        """The next task; None when it is time to end."""
        deadline_s = time.monotonic() + self._wait_s
        while not self._stop.asked:
            wait_s = WAIT_S
            if self._until is not Until.FOREVER:
                wait_s = min(wait_s, max(deadline_s - time.monotonic(), 0))
            try:
                leases = self._queue.claim(1, wait=wait_s)
            except PASSING as problem:
                self._pause(problem)
                continue
            if leases and self._stop.asked:
                self._runner.give_back(leases[0])
            elif leases:
                return leases[0]
            elif self._until is not Until.FOREVER and time.monotonic() >= deadline_s:
                return None
        return None

    def _pause(self, problem: ServerError) -> None:
        if self._until is not Until.FOREVER:
            raise problem
        self._complain(f"{problem}; trying again")
        time.sleep(WAIT_S)
