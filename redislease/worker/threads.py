"""Threads for handlers that are plain functions.

They are daemons, unlike those of `concurrent.futures`: a handler that hangs cannot be stopped, and must not keep the
process from ending.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable


class DaemonPool:
    """At most `size` threads, started as they are needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, job: Callable[[], object]) -> None:
        """Runs a job in a thread, in a copy of the caller's context."""
        context = contextvars.copy_context()
        with self._lock:
            if self._idle == 0 and len(self._threads) < self._size:
                thread = threading.Thread(
                    target=self._work, name=f"redislease-handler-{len(self._threads)}", daemon=True
                )
                self._threads.append(thread)
                thread.start()
            else:
                self._idle -= 1
        self._jobs.put(lambda: context.run(job))

    def close(self) -> None:
        """Lets idle threads end; busy ones end with their job."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._lock:
                self._idle += 1
