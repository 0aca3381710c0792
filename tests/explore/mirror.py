"""The explorer's store beside a real server: every call runs on both, in the same state, and must do the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import redis

from .store import Ran, Store, Texts
from .texts import expiry, items, kind_of, text_of

FAR_MS = 1_000_000_000


def put(pipeline: Any, key: bytes, text: bytes) -> None:
    """Writes a value as the explorer keeps it into a server."""
    kind, values = kind_of(text), items(text)
    if kind == "hash":
        pipeline.hset(key, mapping=dict(zip(values[::2], values[1::2], strict=True)))
    elif kind == "zset":
        pipeline.zadd(key, {member: int(score) for member, score in zip(values[::2], values[1::2], strict=True)})
    elif kind == "list":
        pipeline.rpush(key, *values)
    else:
        pipeline.set(key, values[0])
    if expiry(text) is not None:
        pipeline.pexpire(key, FAR_MS)


def read(client: redis.Redis, key: bytes) -> bytes:
    """A value of a server as the explorer writes it, in the order of names; an expiry is only told, not timed."""
    kind = client.type(key).decode()
    if kind == "none":
        return b""
    if kind == "hash":
        values = [part for pair in sorted(client.hgetall(key).items()) for part in pair]
    elif kind == "zset":
        pairs = sorted(client.zrange(key, 0, -1, withscores=True))
        values = [part for member, score in pairs for part in (member, b"%d" % score)]
    elif kind == "list":
        values = client.lrange(key, 0, -1)
    else:
        values = [client.get(key)]
    return text_of(kind, *values, ttl=0 if client.pttl(key) >= 0 else None)


def comparable(text: bytes) -> bytes:
    """The same form of a text of the explorer's."""
    if not text:
        return b""
    kind, values = kind_of(text), items(text)
    if kind in ("hash", "zset"):
        values = [part for pair in sorted(zip(values[::2], values[1::2], strict=True)) for part in pair]
    return text_of(kind, *values, ttl=None if expiry(text) is None else 0)


class MirroredStore(Store):
    """A store that compares every run with a server.

    Args:
        library: The scripts for this store.
        client: The server; it holds nothing else.
        on_server: Runs a script there at a time: its name, arguments and the time in milliseconds.
    """

    def __init__(self, library: Any, client: redis.Redis, on_server: Callable[[str, list[bytes], int], Any]) -> None:
        super().__init__(library)
        self._client = client
        self._on_server = on_server
        self.compared = 0
        self.scripts: set[str] = set()

    def call(self, name: str, args: tuple[bytes, ...], now_ms: int) -> Ran:
        """Runs a script here and there."""
        before = dict(self._texts)
        runs = self.ran
        ran = super().call(name, args, now_ms)
        if self.ran > runs:
            self._compare(name, args, now_ms, before, ran)
        return ran

    def _compare(self, name: str, args: Iterable[bytes], now_ms: int, before: Texts, ran: Ran) -> None:
        client = self._client
        with client.pipeline(transaction=False) as pipeline:
            pipeline.flushall()
            for key, text in before.items():
                put(pipeline, key, text)
            pipeline.execute()
        try:
            reply = self._on_server(name, list(args), now_ms)
            error = None
        except redis.ResponseError as failure:
            reply, error = [], str(failure)
        self.compared += 1
        self.scripts.add(name)
        told = [int(value) if isinstance(value, float) else value for value in ran.reply]
        assert (error is None) == (ran.error is None), (name, args, error, ran.error)
        assert reply == told, (name, args, reply, told)
        names = {key for key in client.scan_iter(count=1000) if not key.startswith(b"clock:")}
        after = {key: text for key, text in {**before, **ran.changed}.items() if text}
        assert names == set(after), (name, args, names ^ set(after))
        for key, text in after.items():
            assert read(client, key) == comparable(text), (name, args, key)
