"""Writes every Lua script, joined with its libraries, into a directory, for luacheck."""

from __future__ import annotations

import sys
from pathlib import Path

from redislease.scripts import shipped

target = Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
for name in shipped().names():
    (target / f"{name}.lua").write_text(shipped()[name].source, encoding="utf-8")
