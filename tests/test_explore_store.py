"""The explorer's command table does what real servers do: random commands in scripts, and random walks of the world."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
from explore.mirror import MirroredStore, comparable, read
from explore.scopes import EFFECTS, FULL
from explore.store import Store, explored_library
from explore.texts import BASE
from explore.world import World
from servers import Engine, ServerProcess
from virtual_clock import virtual_library

from redislease.keys import STATES

SCRIPTS = 1_500
COMMANDS = 12
WALKS = 20
STEPS = 40

KEYS = [BASE + name for name in (b"one", b"two", b"three")]
WORDS = ["a", "b", "c", "10", "-3", "2.5", "x y"]
NUMBERS = ["0", "1", "-1", "2", "7", "-inf", "+inf", "(1", "(7", "nonsense"]
SHAPES = {
    "EXISTS": "kk", "DEL": "k", "TYPE": "k", "PERSIST": "k", "PEXPIRE": "kT", "PTTL": "k", "GET": "k", "SET": "kw",
    "STRLEN": "k", "HLEN": "k", "HGET": "kw", "HEXISTS": "kw", "HMGET": "kwww", "HGETALL": "k", "HSET": "kwwww",
    "HDEL": "kww", "HINCRBY": "kwi", "LLEN": "k", "LINDEX": "ki", "LRANGE": "kii", "RPUSH": "kww", "LPUSH": "kww",
    "LSET": "kiw", "LTRIM": "kii", "ZCARD": "k", "ZSCORE": "kw", "ZADD": "knwnw", "ZREM": "kww", "ZRANGE": "kii",
    "ZPOPMIN": "k", "ZRANGEBYSCORE": "krr", "ZCOUNT": "krr",
}  # fmt: skip
OPTIONS = {
    "ZADD": ("NX",),
    "ZRANGE": ("WITHSCORES",),
    "ZRANGEBYSCORE": ("WITHSCORES", "LIMIT 0 2", "LIMIT 1 1 WITHSCORES", "LIMIT 0 -1"),
}

# Writes down every reply as text, with its type; an error by its first word, a map in the order of its names.
PREAMBLE = """\
local seen = {}
local function text(reply)
  if type(reply) == 'number' then return 'n' .. string.format('%.0f', reply) end
  if type(reply) == 'string' then return 's' .. reply end
  if type(reply) ~= 'table' then return reply and 'true' or 'false' end
  if reply.err then return 'e' .. string.match(reply.err, '^%S+') end
  if reply.ok then return 'o' .. reply.ok end
  local parts = {}
  for position = 1, #reply do parts[position] = text(reply[position]) end
  return '[' .. table.concat(parts, ',') .. ']'
end
local function pairs_of(reply)
  if reply.err then return reply end
  local parts = {}
  for position = 1, #reply, 2 do parts[#parts + 1] = reply[position] .. '=' .. reply[position + 1] end
  table.sort(parts)
  return parts
end
local function sign(reply)
  return type(reply) == 'number' and (reply > 0 and 1 or reply) or reply
end
local function note(reply) seen[#seen + 1] = text(reply) end
"""


@pytest.fixture(scope="module")
def server(engine: Engine) -> ServerProcess:
    """A server that holds nothing else."""
    if not engine.is_real:
        pytest.skip("needs a server program")
    return engine.start_extra()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[redis.Redis]:
    """Its client."""
    with server.sync_client() as opened:
        opened.flushall()
        yield opened


def random_argument(draw: random.Random, shape: str) -> str:
    if shape == "k":
        return draw.choice(KEYS).decode()
    if shape == "T":
        return draw.choice(["100000", "0", "-5", "1e3"])
    if shape == "i":
        return draw.choice(["0", "1", "-1", "2", "-3", "x", "1.5"])
    if shape == "n":
        return draw.choice(["0", "1", "7", "-2", "4503599627370497", "nonsense"])
    return draw.choice(NUMBERS if shape == "r" else WORDS)


def random_script(draw: random.Random) -> str:
    """Commands with arguments that mostly fit."""
    lines = []
    for _ in range(COMMANDS):
        name = draw.choice(list(SHAPES))
        shapes = SHAPES[name]
        arguments = [random_argument(draw, shape) for shape in shapes]
        if name in OPTIONS and draw.random() < 0.6:
            option = draw.choice(OPTIONS[name]).split()
            arguments = [arguments[0], *option, *arguments[1:]] if name == "ZADD" else [*arguments, *option]
        if draw.random() < 0.03:
            arguments.pop()
        quoted = ", ".join(f"'{part}'" for part in (name, *arguments))
        wrapped = {"HGETALL": "pairs_of", "PTTL": "sign"}.get(name, "")
        lines.append(f"note({wrapped}(redis.pcall({quoted})))")
    return PREAMBLE + "\n".join(lines) + "\nreturn seen\n"


def test_random_commands_answer_alike_and_leave_the_same_keys(client: redis.Redis) -> None:
    store = Store(explored_library())
    draw = random.Random(3)
    texts: dict[bytes, bytes] = {}
    for number in range(SCRIPTS):
        if number % 10 == 0:
            texts = {}
            client.flushall()
        source = random_script(draw)
        store.load(texts)
        ran = store.run(store.compile(source, "random"), [], 1_800_000_000_000)
        assert ran.error is None, source
        assert client.eval(source, 0) == list(ran.reply), source
        texts = {key: text for key, text in {**texts, **ran.changed}.items() if text}
        for key in KEYS:
            assert read(client, key) == comparable(texts.get(key, b"")), source


@pytest.mark.parametrize(
    "body",
    [
        "return redis.call('GET', undefined_name)",
        "undefined_name = 1 return 1",
        "redis.call('HSET', KEYS[1], 'a', '1') redis.call('LLEN', KEYS[1]) return 1",
        "return redis.call('HGET', {}, 'a')",
        "return redis.call('NOSUCHCOMMAND', KEYS[1])",
        "return redis.error_reply('ERR mine')",
    ],
)
def test_what_ends_a_script(client: redis.Redis, body: str) -> None:
    """An error ends it, and what it had written stays."""
    store = Store(explored_library())
    store.load({})
    ran = store.run(store.compile(body, "ends"), [], 1_800_000_000_000)
    assert ran.error
    with pytest.raises(redis.ResponseError):
        client.eval(body, 2, store.keys.meta, store.keys.never)
    written = {key: text for key, text in ran.changed.items() if text}
    assert {key: comparable(text) for key, text in written.items()} == {
        key: read(client, key) for key in client.scan_iter()
    }


@pytest.mark.parametrize(
    "body",
    ["return {1, 2, false, 4}", "return {1, nil, 3}", "return true", "return {false}", "return {'a', true, 3.7}"],
)
def test_how_replies_leave_a_script(client: redis.Redis, body: str) -> None:
    store = Store(explored_library())
    store.load({})
    reply = store.run(store.compile(body, "reply"), [], 1).reply
    real: Any = client.eval(body, 0)
    plain = [None if value is False else int(value) if isinstance(value, float) else value for value in reply]
    assert plain == (real if isinstance(real, list) else [real])


def test_random_walks_of_the_world_are_the_same_on_a_server(client: redis.Redis) -> None:
    """Every script, in states that the search meets: the same reply and the same keys, byte for byte."""
    library = virtual_library()
    store_keys = Store(explored_library()).keys

    def on_server(name: str, args: list[bytes], now_ms: int) -> Any:
        client.set(f"clock:{store_keys.base}", now_ms)
        return client.eval(library[name].source, 2, store_keys.meta, store_keys.never, *args)

    store = MirroredStore(explored_library(), client, on_server)
    limits = {**FULL.limits, "back": 9, "decide": 30, "pause": 9}
    worlds = [World(replace(scope, limits=limits), store=store) for scope in (FULL, EFFECTS)]
    draw = random.Random(3)
    for number in range(WALKS):
        world = worlds[number % 2]
        actions = [name for name in world.scope.actions if name not in ("break", "lose")]
        state = world.empty()
        for step in world.scope.roots[-1]:
            state = world.take(world.load(state), step)[0] or state
        for _ in range(STEPS):
            view = world.load(state)
            steps = list(world.steps_of(view, "break" if draw.random() < 0.006 else draw.choice(actions)))
            if steps:
                after, problems = world.take(view, draw.choice(steps))
                assert not problems
                state = after or state
        assert not world.problems(state)
        view = world.load(state)
        for index in (*STATES, "unsettled"):
            checked = world.caller(view, "check", index=index, offset=0, limit=10)
            assert len(checked.reply) == 3 or state.ghost.faults, checked
    assert store.compared > WALKS * STEPS / 4
    assert store.scripts == set(store.library.names()) - {"progress", "stats"}
