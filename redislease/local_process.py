"""Which process this is, without asking the system each time."""

from __future__ import annotations

import os

_pid = os.getpid()


def own_pid() -> int:
    """The id of this process, also in a child that was forked; asking the system is dear for a busy worker."""
    return _pid


def _note_fork() -> None:
    global _pid
    _pid = os.getpid()


if hasattr(os, "register_at_fork"):  # where there is no fork, there is none
    os.register_at_fork(after_in_child=_note_fork)
