"""The program that a command line names, and why it cannot be run."""

from __future__ import annotations

import shutil
from pathlib import Path


def cannot_run(name: str) -> str:
    """Why a program cannot be started, as far as its file tells; '' if nothing speaks against it."""
    if not name:
        return "the name of the program is empty"
    if shutil.which(name) is not None:
        return ""
    if "/" not in name:
        return f"there is no program {name!r} on PATH"
    path = Path(name)
    if path.is_dir():
        return f"{name!r} is a directory, not a program"
    if path.exists():
        return f"{name!r} is not executable: chmod +x, or name its interpreter before it"
    return f"there is no file {name!r}"
