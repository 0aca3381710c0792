"""The wish to end, from a signal or from a fault."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopOrder:
    """What has been asked of this process; read by every slot several times a second.

    Plain attributes, because a signal handler must not take a lock.

    Attributes:
        asked: No new task; commands that run are asked to end.
        now: Commands that run are killed.
        signal: The first signal that asked for it.
    """

    def __init__(self) -> None:
        self.asked = False
        self.now = False
        self.signal: int | None = None

    def ask(self) -> None:
        """Asks for an end in good order."""
        self.asked = True

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Takes SIGTERM and SIGINT as the wish to end, and a second one as the wish to end at once."""

        def receive(number: int, frame: FrameType | None) -> None:
            if self.signal is not None:
                self.now = True
            self.signal = self.signal or number
            self.asked = True

        before = {number: signal.signal(number, receive) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
