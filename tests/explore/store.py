"""A Redis for one queue inside this process: the shipped scripts on a command table written in Lua.

Running a script here costs tens of microseconds, and leaves the loaded state as it was: what the script changed comes
back beside its reply. `tests/test_explore_store.py` compares the command table with real servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lupa.lua51

from redislease.keys import QueueKeys
from redislease.scripts import ScriptLibrary

MEMORIES = 300_000
HERE = Path(__file__).parent

CLOCK_LUA = """\
-- The clock of the explorer.

local function read_clock()
  return redis.now_us
end
"""

Texts = Mapping[bytes, bytes]
"""A keyspace: each key with its value as text (see `keyspace.lua`)."""


def explored_library(directory: Path | None = None) -> ScriptLibrary:
    """The scripts of a directory, by default the shipped ones, on the clock of the explorer."""
    return ScriptLibrary(directory, replace={"clock": CLOCK_LUA})


@dataclass(frozen=True, slots=True)
class Ran:
    """What a script did.

    Attributes:
        reply: Its flat reply; empty after an error.
        changed: Each key that it changed with its new text, b"" for a deleted one.
        error: What it died of, or None.
    """

    reply: tuple[Any, ...]
    changed: dict[bytes, bytes]
    error: str | None = None


class Store:
    """The scripts of a library over a keyspace that is loaded.

    Args:
        library: Where the scripts come from.
        queue: The queue whose keys they work on.
    """

    def __init__(self, library: ScriptLibrary, queue: str = "q") -> None:
        self.library = library
        self.keys = QueueKeys(queue)
        runtime = lupa.lua51.LuaRuntime(encoding=None, register_eval=False)
        keyspace = _chunk(runtime, "keyspace")()
        commands, helpers = _chunk(runtime, "commands")(keyspace)
        _chunk(runtime, "sorted_sets")(keyspace, commands, helpers)
        runner = _chunk(runtime, "runner")(keyspace, commands)
        runner[b"set_keys"](self.keys.meta.encode(), self.keys.never.encode())
        self._load = keyspace[b"load"]
        self._touched = keyspace[b"touched"]
        self._run = runner[b"run"]
        self._compile = runner[b"compile"]
        self._compiled: dict[str, Callable[..., Any]] = {}
        self._texts: Texts = {}
        self._stale = False
        self._last_touched: tuple[bytes, ...] = ()
        self._memory: dict[Any, dict[tuple[bytes, ...], dict[Any, Ran]]] = {}
        self._memories = 0
        self.ran = 0
        self.remembered = 0

    def load(self, texts: Texts) -> None:
        """Replaces the keyspace."""
        if texts is not self._texts:
            self._texts, self._stale = texts, True

    @contextmanager
    def override(self, key: bytes, text: bytes) -> Iterator[None]:
        """Puts another value into one key of the loaded keyspace for a while."""
        before = self._texts
        self.load({**before, key: text})
        yield
        self.load(before)

    def touched(self) -> tuple[bytes, ...]:
        """The keys that the last script read or wrote, in the order of their names."""
        return self._last_touched

    def compile(self, source: str, name: str) -> Callable[..., Any]:
        """A script for `run`.

        Raises:
            SyntaxError: It does not compile.
        """
        script = self._compile(source.encode(), f"@{name}".encode())
        if isinstance(script, tuple):
            raise SyntaxError(script[1].decode())
        return script

    def call(self, name: str, args: tuple[bytes, ...], now_ms: int) -> Ran:
        """Runs a script of the library on the loaded keyspace, which stays as it is.

        A script depends on its arguments, the time and the keys that it touches: what it did for the same ones is
        remembered.
        """
        known = self._memory.get((name, args, now_ms))
        if known is None:
            known = self._memory[name, args, now_ms] = {}
        get = self._texts.get
        for keys, by_texts in known.items():
            ran = by_texts.get(tuple(map(get, keys)))
            if ran is not None:
                self.remembered += 1
                self._last_touched = keys
                return ran
        ran = self.call_anew(name, args, now_ms)
        keys = self._last_touched
        known.setdefault(keys, {})[tuple(map(get, keys))] = ran
        self._remember()
        return ran

    def call_anew(self, name: str, args: tuple[bytes, ...], now_ms: int) -> Ran:
        """The same without a memory."""
        script = self._compiled.get(name)
        if script is None:
            script = self._compiled[name] = self.compile(self.library[name].source, name)
        ran = self.run(script, args, now_ms)
        self._last_touched = tuple(sorted(self._touched().values()))
        return ran

    def run(self, script: Callable[..., Any], args: Iterable[bytes], now_ms: int) -> Ran:
        """Runs a compiled script on the loaded keyspace."""
        if self._stale:
            self._load(*(part for pair in self._texts.items() for part in pair))
            self._stale = False
        self.ran += 1
        error, width, *rest = self._run(script, now_ms, now_ms * 1000, *args)
        changed = dict(zip(rest[:width:2], rest[1:width:2], strict=True)) if width else {}
        return Ran(tuple(rest[width:]), changed, error.decode() if error else None)

    def _remember(self) -> None:
        self._memories += 1
        if self._memories > MEMORIES:
            self._memory.clear()
            self._memories = 0


def _chunk(runtime: Any, name: str) -> Callable[..., Any]:
    source = (HERE / f"{name}.lua").read_bytes()
    chunk = runtime.eval(b"function(source, name) return assert(loadstring(source, name)) end")(
        source, f"@{name}.lua".encode()
    )
    return chunk  # type: ignore[no-any-return]
