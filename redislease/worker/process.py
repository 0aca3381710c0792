"""What a process does that is there for its worker alone."""

from __future__ import annotations

import gc


def freeze_imports() -> None:
    """Takes what was loaded so far out of the sight of the garbage collector.

    It lives as long as the process, and looking through it takes 10 ms and more, in which no handler goes on.
    """
    gc.collect()
    gc.freeze()
