"""Small scripts for the tests of the transports, and the calls of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redislease.commands.call import Call
from redislease.errors import LeaseLost
from redislease.scripts import Arg, ScriptLibrary

_HEAD = "-- KEYS[1] meta\n-- KEYS[2] never\n"
_WRITES = _HEAD + "-- ARGV[1] durable\n"

SAMPLES = {
    "echo": _HEAD + "-- ARGV[1] value\n-- Returns the value\n\nreturn {'ok', ARGV[1], 7}\n",
    "store": _WRITES
    + "-- ARGV[2] field\n-- ARGV[3] value\n-- Returns durable and value\n\n"
    + "redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])\nreturn {'ok', ARGV[1], ARGV[3]}\n",
    "count": _WRITES + "-- Returns the count\n\nreturn {'ok', redis.call('HINCRBY', KEYS[1], 'count', 1)}\n",
    "layout": _HEAD + "-- Returns layout\n\nreturn {'layout', '9', '1'}\n",
    "broken": _HEAD + "-- Returns nothing\n\nlocal x = 1\nredis.call('HSET', KEYS[1])\nreturn {'ok'}\n",
    "forbidden": _WRITES + "-- Returns nothing\n\nredis.call('DEL', KEYS[2])\nreturn {'ok'}\n",
    "forever": _HEAD + "-- Returns nothing\n\nwhile true do end\n",
}


def sample_library(directory: Path) -> ScriptLibrary:
    """Writes the samples into a directory."""
    (directory / "lib").mkdir()
    for name, text in SAMPLES.items():
        (directory / f"{name}.lua").write_text(text)
    return ScriptLibrary(directory)


def call(script: str, *args: Arg, confirm: bool = True) -> Call[Any]:
    """A call that answers its raw reply, without the status word; the status `lost` is a refusal."""

    def parse(reply: list[Any]) -> Any:
        if reply[1] == b"lost":
            raise LeaseLost("superseded", task_id="t")
        return reply[1:]

    return Call(script, args, parse, confirm)
