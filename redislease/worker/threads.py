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
    """At most `size` threads, started as they are needed.

    Args:
        size: How many.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._lock = threading.Lock()

    def submit(self, job: Callable[[], object]) -> None:
        """Runs a job in a thread, in a copy of the caller's context; jobs beyond the size wait."""
        context = contextvars.copy_context()
        with self._lock:
            self._busy += 1
            if self._busy > len(self._threads) and len(self._threads) < self._size:
                name = f"redislease-handler-{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._jobs.put(lambda: context.run(job))

    def close(self) -> None:
        """Lets idle threads end; busy ones end with their job."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            finally:
                with self._lock:
                    self._busy -= 1
