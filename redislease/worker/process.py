"""What a process does that is there for its worker alone."""

from __future__ import annotations

import gc

PACE = (10_000, 5, 5)
"""How many objects are made before the collector looks for circles among them, and how often among older ones.

A busy worker has thousands of objects in hand, and none is left in a circle when its task has ended. At Python's own
700 each of them is walked over more than once, for nothing.
"""
_PACE_AT_START = gc.get_threshold()


def calm_collector() -> None:
    """Takes what was loaded so far out of the sight of the garbage collector, and has the collector look less often.

    What was loaded lives as long as the process, and looking through it takes 10 ms and more, in which no handler goes
    on. An application that has set a pace of its own keeps it.
    """
    gc.collect()
    gc.freeze()
    if gc.get_threshold() == _PACE_AT_START:
        gc.set_threshold(*PACE)
