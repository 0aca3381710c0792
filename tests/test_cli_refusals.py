"""Input that the program refuses before anything is sent: exit code 2, one line, and nothing has changed.

What is refused does not depend on the server, so one kind is enough.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from command_line import CommandLine
from program import redislease
from servers import Engine, start_engine

from redislease.backoff import Backoff
from redislease.cli.inputs import json_argument
from redislease.errors import InvalidInput
from redislease.queue import Queue

pytest_plugins = ["cli_fixtures"]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """The server in this process."""
    started = start_engine("fakeredis")
    yield started
    started.close()


def one_line(cli: CommandLine, *arguments: str, stdin: bytes = b"") -> str:
    """The one line with which it refuses."""
    result = cli.expect(2, *arguments, stdin=stdin)
    (line,) = result.err.splitlines()
    return line


@pytest.mark.parametrize(
    "arguments",
    [
        ["enqueue", "mail", "--side-effect", "idempotent"],
        ["enqueue", "--jsonl", "-"],
        ["register"],
        ["claim"],
        ["complete", "--id", "x", "--owner", "w-1", "--generation", "1", "--token", "1"],
        ["exec", "--once", "--", "true"],
        ["queues"],
        ["stats"],
        ["why", "x"],
        ["watch"],
        ["tail", "x"],
        ["check"],
        ["reconcile", "list"],
        ["cancel", "x"],
        ["pause"],
        ["reap"],
        ["purge"],
        ["reaper", "--all"],
        ["reaper", "-q", "mail"],
    ],
    ids=" ".join,
)
def test_a_server_that_ends_with_its_process(arguments: list[str]) -> None:
    """Nobody could ever see what such a command stores, and it would find nothing."""
    cli = CommandLine("memory://nowhere", "mail")
    said = one_line(cli, *arguments, stdin=b"{}\n")
    assert "memory://nowhere is inside the process that opened it and ends with it" in said
    assert "embedded:///DIRECTORY" in said


def test_a_server_in_this_very_process(cli: CommandLine, plain_queue: Queue) -> None:
    """A program that runs commands inside itself reaches its own."""
    plain_queue.enqueue("mail", side_effect="read_only")
    assert cli.expect(0, "claim").lines


def test_verbs_that_need_no_server(cli: CommandLine) -> None:
    elsewhere = CommandLine("memory://nowhere", "mail")
    assert "-- KEYS[1]" in elsewhere.expect(0, "lua", "claim").out
    assert "Usage" in elsewhere.expect(0, "enqueue", "--help").out


@pytest.mark.parametrize(
    ("retry", "words"),
    [
        ("1:2:3:0.5:9", "retry: too many numbers in '1:2:3:0.5:9'; it is BASE[:FACTOR[:CAP[:JITTER]]] in seconds"),
        ("soon", "retry: not a number in 'soon'"),
        ("", "retry: not a number in ''"),
        ("1::3", "retry: not a number in '1::3'"),
        ("-1", "retry: base_s must be from 0 s"),
        ("nan", "retry: base_s must be finite, not nan"),
        ("1:0", "retry: factor must be from 1 to 100, not 0.0"),
        ("1:2:3:7", "retry: jitter must be from 0 to 1, not 7.0"),
        ({"base": 1}, "retry: no such field: 'base'; there are base_s, factor, cap_s, jitter"),
        ({"base_s": "1"}, "retry: base_s must be seconds as a number"),
        ({"factor": None}, "retry: factor must be from 1 to 100, not None"),
        ({"jitter": [1]}, "retry: jitter must be from 0 to 1, not [1]"),
        (
            [1, 2],
            "retry must be BASE[:FACTOR[:CAP[:JITTER]]] in seconds, or an object of base_s, factor, cap_s, jitter",
        ),
        (5, "retry must be BASE"),
        (True, "retry must be BASE"),
    ],
    ids=repr,
)
def test_a_wrong_backoff(cli: CommandLine, plain_queue: Queue, retry: object, words: str) -> None:
    """In Python, as an option and in a line, in the same words."""
    with pytest.raises(InvalidInput) as refused:
        Backoff.read(retry)
    assert str(refused.value).startswith(words)
    if isinstance(retry, str):
        assert words in one_line(cli, "enqueue", "mail", "--side-effect", "idempotent", "--retry", retry)
    line = json.dumps({"name": "mail", "side_effect": "idempotent", "retry": retry}).encode()
    (answer,) = cli.expect(2, "enqueue", "--jsonl", "-", stdin=line).lines
    assert answer["error"] == "InvalidInput"
    assert answer["message"].startswith(words)
    assert plain_queue.stats().states["ready"] == 0


@pytest.mark.parametrize(
    ("retry", "meant"),
    [
        ("3", Backoff(3)),
        ("3:1:5:0", Backoff(3, 1, 5, 0)),
        ({"cap_s": 9, "jitter": 0}, Backoff(cap_s=9, jitter=0)),
        ({}, Backoff()),
    ],
    ids=repr,
)
def test_a_backoff(retry: object, meant: Backoff) -> None:
    assert Backoff.read(retry) == meant


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"done": -1}, "done must not be negative, not -1"),
        ({"done": 2, "total": 1}, "done must not be more than total: 2"),
        ({"done": 1, "total": -1}, "total must not be negative"),
    ],
    ids=repr,
)
def test_odd_progress(cli: CommandLine, plain_queue: Queue, report: dict[str, float], words: str) -> None:
    plain_queue.enqueue("mail", side_effect="read_only")
    (lease,) = cli.expect(0, "claim").lines
    options = [word for name, value in report.items() for word in (f"--{name}", str(value))]
    assert words in one_line(cli, "progress", "--handle", lease["handle"], *options)
    line = json.dumps({"handle": lease["handle"], **report}).encode()
    (answer,) = cli.expect(2, "progress", "--jsonl", "-", stdin=line).lines
    assert (answer["error"], words in answer["message"]) == ("InvalidInput", True)
    assert "must be finite" in one_line(cli, "progress", "--handle", lease["handle"], "--done", "nan")
    assert plain_queue.detail(lease["id"]).progress is None


def test_a_fatal_failure_has_no_delay(cli: CommandLine, plain_queue: Queue) -> None:
    plain_queue.enqueue("mail", side_effect="read_only")
    (lease,) = cli.expect(0, "claim").lines
    told = ["fail", "--handle", lease["handle"], "--error", "x", "--fatal", "--delay", "5"]
    assert "fatal and delay do not go together" in one_line(cli, *told)
    line = json.dumps({"handle": lease["handle"], "error": "x", "fatal": True, "delay": 0}).encode()
    assert "do not go together" in cli.expect(2, "fail", "--jsonl", "-", stdin=line).err
    assert plain_queue.get(lease["id"]).status == "leased"
    cli.expect(0, *told[:-2])
    assert plain_queue.get(lease["id"]).status == "dead"


def test_the_id_of_a_task_is_called_id(cli: CommandLine, plain_queue: Queue) -> None:
    """In what is typed, in what is read and in every answer."""
    line = {"name": "mail", "side_effect": "read_only", "id": "mine"}
    (answer,) = cli.expect(0, "enqueue", "--jsonl", "-", stdin=json.dumps(line).encode()).lines
    assert answer["id"] == "mine"
    assert (
        cli.expect(0, "enqueue", "mail", "--side-effect", "read_only", "--id", "mine", "--json").document["id"]
        == "mine"
    )
    other = json.dumps({**line, "name": "other"}).encode()
    (conflict,) = cli.expect(1, "enqueue", "--jsonl", "-", stdin=other).lines
    assert (conflict["error"], conflict["id"], "task_id" in conflict) == ("TaskConflict", "mine", False)
    (lease,) = cli.expect(0, "claim").lines
    assert lease["id"] == "mine"
    cli.expect(0, "revoke", "mine")
    lost = cli.expect(3, "complete", "--jsonl", "-", stdin=json.dumps({"handle": lease["handle"]}).encode()).lines[0]
    assert (lost["error"], lost["id"], "task_id" in lost) == ("LeaseLost", "mine", False)
    old = json.dumps({"name": "mail", "side_effect": "read_only", "task_id": "x"}).encode()
    assert "an id of your own is called id" in cli.expect(2, "enqueue", "--jsonl", "-", stdin=old).err


@pytest.mark.parametrize("verb", [["purge"], ["reaper", "-q", "mail"]], ids=lambda verb: verb[0])
def test_retentions_are_typed_in_the_same_way(cli: CommandLine, verb: list[str]) -> None:
    for option in ("--completed", "--cancelled", "--dead"):
        assert f"{option}': seconds, or never, not 'x'" in one_line(cli, *verb, option, "x")
        assert "must be from 0 s" in one_line(cli, *verb, option, "-1")
    assert "--evidence': evidence must be from 0 s" in one_line(cli, *verb, "--evidence", "-1")
    assert "--evidence': seconds, not 'never'" in one_line(cli, *verb, "--evidence", "never")
    told = cli.expect(0, *verb, "--help").out
    assert told.count("S|never") == 3
    assert "(7 days)" in told


def test_never_keeps_a_state(cli: CommandLine, plain_queue: Queue) -> None:
    plain_queue.enqueue("mail", side_effect="read_only")
    plain_queue.claim()[0].complete()
    assert cli.expect(0, "purge", "--completed", "never", "--dry-run", "--json").document == {}
    assert cli.expect(0, "purge", "--completed", "never", "--json").document["completed"] == 0


def test_choices_are_told_in_one_line(cli: CommandLine) -> None:
    assert one_line(cli, "tasks").startswith(
        "redislease: tasks: Missing argument 'STATE'. Choose from: scheduled, ready, approved,"
    )
    assert "Invalid value for 'STATE': 'foo' is not one of 'scheduled'" in one_line(cli, "tasks", "foo")
    assert "Missing argument 'done|retry|dead'" in one_line(cli, "reconcile", "resolve", "x")
    assert "--limit" in one_line(cli, "claim", "-n", "0")


def test_standard_input_that_is_closed(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redislease.cli.inputs.sys.stdin", None)
    with pytest.raises(InvalidInput, match="the payload was to come from standard input, which is closed"):
        json_argument("-", "the payload")


def test_the_program_as_a_process_refuses_too() -> None:
    """What a newcomer types first."""
    import subprocess

    typed = redislease("enqueue", "mail", "-q", "mail", "--url", "memory://x", "--side-effect", "read_only")
    done = subprocess.run(typed, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("redislease: memory://x is inside the process")


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("watch", "--interval"),
        ("tail", "x", "--interval"),
        ("stats", "--timeout"),
        ("exec", "--grace"),
        ("exec", "--drain", "--wait"),
        ("exec", "--put-off"),
    ],
    ids=" ".join,
)
def test_a_time_that_is_no_number(cli: CommandLine, arguments: tuple[str, ...], seconds: str) -> None:
    command = ("--", "true") if arguments[0] == "exec" else ()
    said = cli.expect(2, *arguments, seconds, *command).err
    assert "is not" in said
