"""Exit codes and messages of the program."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
import redis
from command_line import CommandLine
from servers import once_on_a_server, wait_until

from redislease import errors
from redislease.cli.errors import ExitCode, exit_code, worst
from redislease.cli.program import SECTIONS, Verbs, program
from redislease.keys import QueueKeys
from redislease.queue import Queue

pytest_plugins = ["cli_fixtures"]

VERBS = {name: verb for section in SECTIONS.values() for name, verb in section.items() if verb.present()}


def enqueue(cli: CommandLine, *more: str) -> str:
    """Stores a task and returns its id."""
    return cli.expect(0, "enqueue", "mail", "--side-effect", "idempotent", *more).out.strip()


def test_0_done(cli: CommandLine) -> None:
    assert cli.expect(0, "stats").err == ""
    assert "Exit codes" in cli.expect(0, "--help").out
    assert re.fullmatch(r"redislease \d+\.\d+\.\d+\n", cli.expect(0, "--version").out)


def test_1_another_task_has_the_id(cli: CommandLine) -> None:
    enqueue(cli, "--id", "one")
    enqueue(cli, "--id", "one")
    refused = cli.expect(1, "enqueue", "other", "--side-effect", "idempotent", "--id", "one")
    assert "exists and is a different one" in refused.err


def test_1_another_task_has_the_idempotency_key(cli: CommandLine) -> None:
    enqueue(cli, "--idempotency-key", "k")
    refused = cli.expect(1, "enqueue", "mail", '{"a": 1}', "--side-effect", "idempotent", "--idempotency-key", "k")
    assert "another name, class or payload" in refused.err


def test_1_the_state_does_not_allow_it(cli: CommandLine) -> None:
    task_id = enqueue(cli)
    assert "ready" in cli.expect(1, "requeue", task_id).err
    cli.expect(0, "cancel", task_id)
    assert "tester decided cancel" in cli.expect(1, "cancel", task_id, "--by", "second").err


def test_1_the_queue_is_paused(cli: CommandLine) -> None:
    enqueue(cli)
    cli.expect(0, "pause", "--reason", "deploy")
    assert "paused (claims) by tester: deploy" in cli.expect(1, "claim").err
    cli.expect(0, "resume")
    cli.expect(0, "claim")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "No such command"),
        (["claim", "--nope"], "No such option"),
        (["claim", "--limit", "x"], "not a valid integer"),
        (["claim", "--limit", "1001"], "limit must be from 0 to 1000"),
        (["claim", "--owner", "nobody"], "the owner must be NAME-N"),
        (["enqueue", "mail"], "--side-effect is missing"),
        (["enqueue", "--side-effect", "idempotent"], "NAME is missing"),
        (["enqueue", "mail", "[]", "--side-effect", "idempotent"], "must be a JSON object"),
        (["enqueue", "mail", "{", "--side-effect", "idempotent"], "the payload is not JSON"),
        (["enqueue", "mail", '{"a":NaN}', "--side-effect", "idempotent"], "NaN is not JSON"),
        (["enqueue", "mail", '{"a":1,"a":2}', "--side-effect", "idempotent"], "stands twice"),
        (["enqueue", "mail", '{"a":"\\ud800"}', "--side-effect", "idempotent"], "lone surrogate"),
        (["enqueue", "mail", "--side-effect", "maybe"], "is not one of"),
        (["enqueue", "mail", "--side-effect", "idempotent", "--at", "tomorrow"], "at must be a date"),
        (["enqueue", "mail", "--side-effect", "idempotent", "--at", "2030-01-01"], "at must have a time zone"),
        (["enqueue", "mail", "--side-effect", "idempotent", "--retry", "x"], "retry"),
        (["enqueue", "mail", "--side-effect", "idempotent", "--delay", "nan"], "must be finite"),
        (["enqueue", "--jsonl", "/no/such/file"], "No such file"),
        (["complete"], "which lease?"),
        (["complete", "--handle", "x"], "not a lease handle"),
        (["complete", "--id", "a", "--owner", "w-1", "--generation", "1"], "which lease?"),
        (["complete", "--handle", '["other","a","w-1",1,1,60000]'], "of queue 'other'"),
        (["complete", "--jsonl", "-", "--id", "x"], "not both"),
        (["show", "a b"], "the task id must be"),
        (["cancel"], "which tasks?"),
        (["cancel", "a", "--status", "ready"], "which tasks?"),
        (["revoke", "a", "b", "--token", "1"], "--token goes with one id"),
        (["cancel", "a", "--by", "x" * 65], "by has 65 bytes"),
        (["reconcile", "resolve", "a", "maybe"], "is not one of"),
        (["reconcile", "resolve", "a", "done", "--effect", "x"], "--effect takes NAME=done"),
        (["stats", "-q", "no such"], "the queue name must be"),
        (["stats", "--url", "http://x"], "not a server URL"),
        (["lua", "nope"], "there is no script 'nope'"),
    ],
)
def test_2_wrong_usage_or_input(cli: CommandLine, arguments: list[str], said: str) -> None:
    result = cli.expect(2, *arguments)
    assert said in result.err
    assert result.err.count("\n") == 1
    assert result.out == "" or "--jsonl" in arguments


def test_2_no_queue_says_what_to_type(cli: CommandLine) -> None:
    result = cli.expect(2, "stats", REDISLEASE_QUEUE=None)
    assert "Type --queue NAME, or set REDISLEASE_QUEUE" in result.err


def test_2_nothing_shows_the_help(cli: CommandLine) -> None:
    result = cli()
    assert result.code == 2
    assert "Usage: redislease" in result.err


def test_3_the_lease_is_lost(cli: CommandLine) -> None:
    task_id = enqueue(cli)
    (lease,) = cli.expect(0, "claim").lines
    cli.expect(0, "revoke", task_id)
    for verb, *more in (["renew"], ["complete"], ["fail", "--error", "x"], ["release"], ["progress", "--done", "1"]):
        assert "is lost: revoked; the task is ready" in cli.expect(3, verb, "--handle", lease["handle"], *more).err
    found = cli.expect(3, "renew", "--json", "--handle", lease["handle"]).document
    assert found["error"] == "LeaseLost"
    assert found["reason"] == "revoked"
    assert found["id"] == task_id


def test_refusals_tell_times_that_people_read(cli: CommandLine) -> None:
    """Programs get the milliseconds."""
    task_id = enqueue(cli)
    cli.expect(0, "cancel", task_id)
    said = cli.expect(1, "cancel", task_id, "--json")
    assert re.search(r"; tester decided cancel at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$", said.err.strip())
    assert said.document["decided_at_ms"] > 1_700_000_000_000


def test_4_what_is_not_there_is_named(cli: CommandLine) -> None:
    """Also where a decision was to be made, of one task and of many."""
    for verb in ("cancel", "revoke", "requeue", "show", "why"):
        found = cli.expect(4, verb, "nope", "--json")
        assert "there is no task nope" in found.err
        assert (found.document["error"], found.document["id"]) == ("TaskUnknown", "nope")
    several = cli.expect(4, "cancel", "nope", "neither", "--json")
    assert [one["id"] for one in several.document] == ["nope", "neither"]
    assert "there is no task neither" in several.err


def test_4_a_queue_that_never_had_a_task(cli: CommandLine) -> None:
    """The name may be a slip."""
    assert cli.expect(4, "claim").err.endswith("and nothing was ever enqueued there\n")
    enqueue(cli)
    cli.expect(0, "claim")
    assert "ever enqueued" not in cli.expect(4, "claim").err


def test_4_nothing_there(cli: CommandLine) -> None:
    cli.expect(4, "claim")
    cli.expect(4, "claim", "--owner", "nobody-7")
    for verb in ("show", "why", "evidence", "cancel", "revoke", "requeue"):
        assert "there is no task unknown-id in queue" in cli.expect(4, verb, "unknown-id").err
    cli.expect(4, "reconcile", "resolve", "unknown-id", "dead")
    cli.expect(4, "reconcile", "show", "unknown-id")


def test_4_keeps_the_form_of_the_answer(cli: CommandLine) -> None:
    assert cli.expect(4, "claim", "--json").document == []
    assert cli.expect(4, "claim", "--jsonl").out == ""


def test_5_the_server_cannot_be_reached(cli: CommandLine, tmp_path: Path) -> None:
    away = f"unix://{tmp_path}/nobody"
    for verb in ("stats", "queues", "claim"):
        assert "cannot reach" in cli.expect(5, verb, "--url", away, "--timeout", "0").err
    found = cli.expect(5, "--json", "stats", "--url", away, "--timeout", "0.1").document
    assert found["error"] == "ServerUnavailable"


def test_5_a_fault_of_our_own_shows_no_traceback(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Queue, "stats", lambda self: 1 / 0)
    assert "a fault in redislease itself: ZeroDivisionError" in cli.expect(5, "stats").err
    assert "Traceback" in cli("stats", REDISLEASE_TRACEBACK="1").err


def test_6_check_found_something(cli: CommandLine, keys: QueueKeys, redis_client: redis.Redis) -> None:
    enqueue(cli)
    assert "1 entry looked at, nothing found" in cli.expect(0, "check").out
    redis_client.zadd(keys.index("ready"), {"ghost": 1})
    result = cli("check", "--json")
    assert result.code == 6
    assert result.document == {
        "looked_at": 2,
        "problems": [{"index": "ready", "id": "ghost", "problem": "has no hash"}],
    }
    assert "ghost" in cli("check").out


@once_on_a_server
def test_130_interrupted(real_cli: CommandLine, queue_name: str, real_engine: object) -> None:
    process = real_cli.start("claim", "--wait", "30", stderr=subprocess.PIPE)
    with Queue(queue_name, redis_url=real_cli.environment["REDISLEASE_URL"]) as queue:
        wait_until(lambda: queue.stats().workers, what="the claim")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.parametrize("place", ["before", "after"])
def test_errors_are_json_too_when_json_is_asked_for(cli: CommandLine, place: str) -> None:
    arguments = ["--json", "show", "x"] if place == "before" else ["show", "x", "--json"]
    found = cli.expect(4, *arguments).document
    assert found["error"] == "TaskUnknown"
    assert found["id"] == "x"
    assert cli.expect(2, "--json", "claim", "--nope").document["error"] == "NoSuchOption"


def test_shared_options_stand_before_or_after_the_verb(cli: CommandLine) -> None:
    for arguments in (["-q", "elsewhere", "stats", "--json"], ["--json", "-q", "wrong", "stats", "-q", "elsewhere"]):
        assert cli.expect(0, *arguments).document["queue"] == "elsewhere"
    assert cli.expect(0, "--prefix", "other", "queues", "--json").document == []


def every_error() -> list[type[errors.RedisLeaseError]]:
    found = [errors.RedisLeaseError]
    for kind in found:
        found += kind.__subclasses__()
    return found


def test_every_error_has_its_code() -> None:
    expected = {
        errors.LeaseLost: ExitCode.LEASE_LOST,
        errors.TaskUnknown: ExitCode.NOTHING,
        errors.WorkerUnknown: ExitCode.NOTHING,
        errors.InvalidInput: ExitCode.USAGE,
        errors.ConfigurationError: ExitCode.USAGE,
        errors.ServerError: ExitCode.SERVER,
    }
    for kind in every_error():
        code = next((code for base, code in expected.items() if issubclass(kind, base)), ExitCode.REFUSED)
        error = kind.__new__(kind)
        assert exit_code(error) == code, kind


def test_the_worst_of_many_codes() -> None:
    assert worst([]) == ExitCode.DONE
    assert worst([ExitCode.DONE, ExitCode.LEASE_LOST]) == ExitCode.LEASE_LOST
    assert worst([ExitCode.REFUSED, ExitCode.LEASE_LOST, ExitCode.USAGE]) == ExitCode.USAGE


@pytest.mark.parametrize("name", VERBS)
def test_help_says_the_same_as_the_list_of_verbs(name: str) -> None:
    command = VERBS[name].load()
    assert (command.help or "").split("\n\n")[0].replace("\n", " ") == VERBS[name].about


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of a command and all below it."""
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    below = [commands(command.commands[name], (*path, name)) for name in command.commands]
    if isinstance(command, Verbs):
        below = [commands(command.get_command(context, name), (*path, name)) for name in VERBS]  # type: ignore[arg-type]
    return [path, *(one for paths in below for one in paths)]


@pytest.mark.parametrize("path", commands(program), ids=" ".join)
def test_every_help_fits_into_40_columns(path: tuple[str, ...]) -> None:
    cli = CommandLine("memory://help", "q")
    assert cli.expect(0, *path, "--help", COLUMNS="40").out


def test_help_loads_neither_redis_nor_pydantic() -> None:
    code = (
        "import sys; from redislease.cli.program import run; assert run(['--help']) == 0;"
        "heavy = {'redis', 'pydantic', 'rich'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
