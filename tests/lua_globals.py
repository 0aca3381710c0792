"""Which globals a Lua chunk touches, exactly: read from its bytecode, which any Lua 5.1 can dump."""

from __future__ import annotations

import struct

import lupa.lua51

GETGLOBAL, SETGLOBAL = 5, 7
REDIS_GLOBALS = {
    *("redis", "KEYS", "ARGV", "tonumber", "tostring", "type", "pairs", "ipairs", "next", "unpack", "select"),
    *("setmetatable", "string", "table", "math"),
}


def compile_chunk(source: str) -> bytes:
    """The bytecode of a chunk.

    Raises:
        SyntaxError: It does not compile, which also means: more than 200 locals or 60 upvalues.
    """
    runtime = lupa.lua51.LuaRuntime(encoding=None)
    dump = runtime.eval(
        b"function(source) local f, why = loadstring(source) if f then return string.dump(f) end return nil, why end"
    )
    found = dump(source.encode())
    if isinstance(found, tuple):
        raise SyntaxError(found[1].decode())
    assert isinstance(found, bytes)
    return found


def globals_of(source: str) -> tuple[set[str], set[str]]:
    """The names of the globals that a chunk reads, and of those that it sets."""
    return _Dump(compile_chunk(source)).globals()


class _Dump:
    """Reads the binary form of a Lua 5.1 chunk; the layout is that of `ldump.c`."""

    def __init__(self, data: bytes) -> None:
        assert data[:5] == b"\x1bLua\x51"
        self._data = data
        self._order = "<" if data[6] else ">"
        self._int, self._size, self._word, self._number = data[7:11]
        self._at = 12

    def globals(self) -> tuple[set[str], set[str]]:
        read: set[str] = set()
        written: set[str] = set()
        self._function(read, written)
        return read, written

    def _take(self, length: int) -> bytes:
        self._at += length
        return self._data[self._at - length : self._at]

    def _unsigned(self, length: int) -> int:
        return int.from_bytes(self._take(length), "little" if self._order == "<" else "big")

    def _string(self) -> str:
        return self._take(self._unsigned(self._size))[:-1].decode("utf-8", "replace")

    def _function(self, read: set[str], written: set[str]) -> None:
        self._string()
        self._take(2 * self._int + 4)
        words = [self._unsigned(self._word) for _ in range(self._unsigned(self._int))]
        constants = [self._constant() for _ in range(self._unsigned(self._int))]
        for word in words:
            name = constants[word >> 14] if word & 0x3F in (GETGLOBAL, SETGLOBAL) else None
            if isinstance(name, str):
                (read if word & 0x3F == GETGLOBAL else written).add(name)
        for _ in range(self._unsigned(self._int)):
            self._function(read, written)
        self._take(self._int * self._unsigned(self._int))
        for _ in range(self._unsigned(self._int)):
            self._string()
            self._take(2 * self._int)
        for _ in range(self._unsigned(self._int)):
            self._string()

    def _constant(self) -> object:
        kind = self._unsigned(1)
        if kind == 0:
            return None
        if kind == 1:
            return bool(self._unsigned(1))
        if kind == 3:
            return struct.unpack(self._order + "d", self._take(self._number))[0]
        return self._string()
