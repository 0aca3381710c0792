"""JSON Lines in, JSON Lines out."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import IO, Any, cast

import pytest
import redis
from command_line import CommandLine
from servers import Engine

from redislease.cli import inputs
from redislease.cli.inputs import LINE_BYTES, chunks, lines
from redislease.errors import InvalidInput, RedisLeaseError
from redislease.queue import Queue

pytest_plugins = ["cli_fixtures"]


def jsonl(items: list[dict[str, Any]]) -> bytes:
    """Items as JSON Lines."""
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


def calls(client: redis.Redis) -> int:
    """How many scripts the server has run; asking for one that it does not know yet is no run."""
    stats: Any = client.info("commandstats")
    counted = stats.get("cmdstat_evalsha", {"calls": 0, "failed_calls": 0})
    return int(counted["calls"]) - int(counted["failed_calls"])


BROKEN = [
    b"{",
    b"\xff\xfe",
    b"[]",
    b'{"side_effect": "maybe"}',
    b'{"payload": [1]}',
    b'{"payload": {"a": NaN}}',
    b'{"unknown": 1}',
    b'{"priority": "high"}',
    b'{"name": "\\ud800"}',
    b'{"name": null}',
]


def test_2000_lines_of_which_every_tenth_is_broken(
    cli: CommandLine, plain_queue: Queue, engine: Engine, redis_client: redis.Redis
) -> None:
    good = iter(range(2000))
    data = b"".join(
        (BROKEN[number // 10 % len(BROKEN)] if number % 10 == 0 else b'{"payload": {"n": %d}}' % next(good)) + b"\n"
        for number in range(1, 2001)
    )
    before = (
        calls(redis_client)
        if hasattr(redis_client, "info") and "memory" not in cli.environment["REDISLEASE_URL"]
        else None
    )
    result = cli("enqueue", "job", "--side-effect", "read_only", "--jsonl", "-", stdin=data)
    assert result.code == 2
    if engine.is_real:
        assert calls(redis_client) - before == 4
    assert [line["line"] for line in result.lines] == list(range(1, 2001))
    for line in result.lines:
        broken = line["line"] % 10 == 0
        assert ("error" in line) is broken
        assert ("id" in line and line["created"]) is not broken
    said = result.err.splitlines()
    assert len(said) == 201
    assert said[0] == "redislease: line 10: the line is not valid UTF-8 at byte 1"
    assert said[-1] == "redislease: 2,000 lines: 1,800 done, 200 invalid"
    assert plain_queue.stats().states["ready"] == 1800
    last = plain_queue.detail(result.lines[-2]["id"])
    assert last.payload == {"n": 1799}


def test_defaults_are_for_what_a_line_leaves_out(cli: CommandLine, plain_queue: Queue) -> None:
    data = jsonl(
        [
            {"id": "a"},
            {"id": "b", "name": "other", "side_effect": "idempotent", "priority": 1, "payload": {"x": 1}},
            {"id": "c", "delay": 60, "retry": {"base_s": 3}, "lease_duration": 5},
            {"id": "d", "at": "2999-01-01T00:00:00Z"},
        ]
    )
    options = ["--name", "job", "--side-effect", "read_only", "--priority", "5", "--jsonl", "-"]
    cli.expect(0, "enqueue", *options, stdin=b"\xef\xbb\xbf" + data)
    tasks = [plain_queue.get(name) for name in "abcd"]
    assert [task.name for task in tasks] == ["job", "other", "job", "job"]
    assert [task.priority for task in tasks] == [5, 1, 5, 5]
    assert [task.status for task in tasks] == ["ready", "ready", "scheduled", "scheduled"]
    assert tasks[2].lease_ms == 5000


def test_conflicts_and_repetitions(cli: CommandLine) -> None:
    data = jsonl([{"id": "a"}, {"id": "a"}, {"id": "a", "name": "other"}])
    result = cli("enqueue", "job", "--side-effect", "read_only", "--jsonl", "-", stdin=data)
    assert result.code == 1
    first, again, other = result.lines
    assert (first["created"], again["created"]) == (True, False)
    assert (other["error"], other["id"]) == ("TaskConflict", "a")
    assert "line 3: task a exists" in result.err


def test_summary_as_one_document(cli: CommandLine) -> None:
    result = cli("enqueue", "job", "--side-effect", "read_only", "--json", "--jsonl", "-", stdin=b"{}\n\n{\n{}")
    assert result.code == 2
    assert result.document == {"lines": 3, "done": 2, "lost": 0, "refused": 0, "invalid": 1}
    assert "line 3: the line is not JSON" in result.err


def test_a_file(cli: CommandLine, tmp_path: Any) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b'{"name": "a", "side_effect": "read_only"}\n')
    assert len(cli.expect(0, "enqueue", "--jsonl", str(path)).lines) == 1


def test_100_leases_of_which_one_is_lost(
    cli: CommandLine, plain_queue: Queue, engine: Engine, redis_client: redis.Redis
) -> None:
    plain_queue.enqueue_many([{"name": "job", "side_effect": "read_only"} for _ in range(100)])
    claimed = cli.expect(0, "claim", "--limit", "100", "--jsonl")
    assert len(claimed.lines) == 100
    lost = claimed.lines[41]["id"]
    cli.expect(0, "revoke", lost)

    for verb, more, status in (("renew", [], "leased"), ("complete", ["--result", '{"ok": true}'], "completed")):
        before = calls(redis_client) if engine.is_real else 0
        result = cli(verb, "--jsonl", "-", *more, stdin=claimed.out)
        if engine.is_real:
            assert calls(redis_client) - before == 1
        assert result.code == 3
        assert [line["line"] for line in result.lines] == list(range(1, 101))
        assert [line["line"] for line in result.lines if "error" in line] == [42]
        refusal = result.lines[41]
        assert (refusal["error"], refusal["reason"], refusal["status"]) == ("LeaseLost", "revoked", "ready")
        assert result.err.splitlines() == [
            f"redislease: line 42: the lease of generation 1 on {lost} is lost: revoked; "
            "the task is ready at generation 1",
            "redislease: 100 lines: 99 done, 1 lost",
        ]
        assert plain_queue.stats().states[status] == 99
    assert plain_queue.result(claimed.lines[0]["id"]) == {"ok": True}
    assert plain_queue.get(lost).status == "ready"


def test_progress_fail_and_release_in_batches(cli: CommandLine, plain_queue: Queue) -> None:
    plain_queue.enqueue_many([{"name": "job", "side_effect": "read_only"} for _ in range(6)])
    leases = cli.expect(0, "claim", "-n", "6").lines
    handles = [{"handle": lease["handle"]} for lease in leases]
    twice = [one | {"done": done, "total": 9} for done in (1, 2) for one in handles]
    cli.expect(0, "progress", "--jsonl", "-", stdin=jsonl(twice))
    assert [(plain_queue.detail(lease["id"]).progress or {})["done"] for lease in leases] == [2] * 6
    cli.expect(0, "progress", "--handle", leases[0]["handle"], "--done", "3")
    assert (plain_queue.detail(leases[0]["id"]).progress or {})["number"] == 3

    fails = [handles[0] | {"error": "a", "delay": 60}, handles[1] | {"error": "b", "fatal": True}, handles[2]]
    result = cli("fail", "--jsonl", "-", stdin=jsonl(fails))
    assert result.code == 2
    assert [line.get("status") for line in result.lines] == ["scheduled", "dead", None]
    assert result.lines[2]["message"] == "what happened? Give the error"
    returns = [handles[3], handles[4] | {"delay": 5}, handles[5] | {"delay": "soon"}]
    result = cli("release", "--jsonl", "-", stdin=jsonl(returns))
    assert result.code == 2
    assert [line.get("status") for line in result.lines] == ["ready", "scheduled", None]


def test_a_batch_names_its_queue_itself(cli: CommandLine, plain_queue: Queue) -> None:
    plain_queue.enqueue_many([{"name": "job", "side_effect": "read_only"} for _ in range(2)])
    claimed = cli.expect(0, "claim", "-n", "2")
    first, second = claimed.lines
    foreign = json.dumps(["other", *json.loads(second["handle"])[1:]])
    data = jsonl([first, {"handle": foreign}, {"handle": 5}, {"handle": first["handle"], "resutl": 1}])
    result = cli("complete", "--jsonl", "-", stdin=data, REDISLEASE_QUEUE=None)
    assert result.code == 2
    assert [line.get("error") for line in result.lines] == [None, "InvalidInput", "InvalidInput", "InvalidInput"]
    assert "no such field: resutl" in result.err
    proof = {name: second[name] for name in ("id", "owner", "generation", "fencing_token")}
    cli.expect(0, "complete", "--jsonl", "-", stdin=jsonl([proof]))


@pytest.mark.broken_keys
def test_a_claimed_payload_that_is_not_json_is_still_delivered(
    cli: CommandLine, plain_queue: Queue, redis_client: redis.Redis
) -> None:
    task_id = plain_queue.enqueue("job", {"a": 1}, side_effect="read_only").id
    redis_client.hset(plain_queue.keys.payloads, task_id, b"\xff{")
    (lease,) = cli.expect(0, "claim").lines
    assert lease["payload"] is None
    assert "not JSON" in lease["payload_error"]
    cli.expect(0, "fail", "--jsonl", "-", "--error", "broken", "--fatal", stdin=jsonl([lease]))
    assert plain_queue.get(task_id).status == "dead"


def test_a_server_that_fails_in_the_middle_tells_where(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from redislease.errors import ServerUnavailable
    from redislease.flows import producing

    store = producing.store
    seen: list[int] = []

    def failing(items: Any) -> Any:
        seen.append(len(items))
        if len(seen) == 2:
            raise ServerUnavailable("gone")
        return store(items)

    monkeypatch.setattr(producing, "store", failing)
    result = cli("enqueue", "job", "--side-effect", "read_only", "--jsonl", "-", stdin=b"{}\n" * 1200)
    assert result.code == 5
    assert "lines 501 to 1000 may or may not be done" in result.err
    assert seen == [500, 500]


class Endless(io.RawIOBase):
    """A stream that never ends, and counts what was taken."""

    def __init__(self) -> None:
        self.taken = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        self.taken += 1
        return b"{}\n"


def test_a_stream_is_read_portion_by_portion() -> None:
    source = Endless()
    portions: Iterator[list[inputs.Line]] = chunks(cast(IO[bytes], source), 500)
    assert len(next(portions)) == 500
    assert source.taken == 500
    next(portions)
    assert source.taken == 1000


def test_large_lines_make_small_portions() -> None:
    line = json.dumps({"payload": "x" * 1_000_000}).encode() + b"\n"
    assert [len(portion) for portion in chunks(io.BytesIO(line * 12), 500)] == [5, 5, 2]


def test_a_line_without_end_costs_no_memory() -> None:
    source = io.BytesIO(b"x" * (LINE_BYTES * 3) + b"\n{}\n")
    first, second = lines(source)
    assert isinstance(first.value, RedisLeaseError)
    assert "the limit is" in str(first.value)
    assert second.value == {}


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, "Infinity", '{"a":1,"a":1}', "", "nul"])
def test_json_is_strict(text: str) -> None:
    with pytest.raises(InvalidInput):
        inputs.json_value(text, "it")
