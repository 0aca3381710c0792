"""What a command of `redislease exec` gets, and what becomes of its output and exit status."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from executing import Exec, add, sh
from servers import Engine

from redislease import Queue
from redislease.exec.result import error_of, result_of
from redislease.exec.runner import put_off_s

pytest_plugins = ["exec_fixtures"]


def test_what_a_command_gets(execution: Exec, shared: Queue, server: Engine) -> None:
    """The payload on standard input, the lease in the environment, and the result back."""
    task = add(shared, {"number": 42, "text": "ä\n"}, idempotency_key="key of mine")
    program = "import json, os, sys; print(json.dumps({'in': json.load(sys.stdin), 'env': dict(os.environ)}))"
    done = execution.run("--once", "--name", "tester", "--", sys.executable, "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    result = shared.result(task.id)
    lease = shared.get(task.id)
    assert lease.status == "completed"
    assert result["in"] == {"number": 42, "text": "ä\n"}
    found = {name: value for name, value in result["env"].items() if name.startswith("REDISLEASE_")}
    assert found.pop("REDISLEASE_TEST_MARK")
    assert found.pop("REDISLEASE_EXEC")
    assert json.loads(found.pop("REDISLEASE_HANDLE")) == [
        shared.name, task.id, lease.lease_owner, 1, lease.fencing_token, 60_000,
    ]  # fmt: skip
    assert found == {
        "REDISLEASE_QUEUE": shared.name,
        "REDISLEASE_URL": server.url,
        "REDISLEASE_TASK_ID": task.id,
        "REDISLEASE_TASK_NAME": "work",
        "REDISLEASE_OWNER": lease.lease_owner,
        "REDISLEASE_GENERATION": "1",
        "REDISLEASE_FENCING_TOKEN": str(lease.fencing_token),
        "REDISLEASE_IDEMPOTENCY_KEY": "key of mine",
        "REDISLEASE_ATTEMPT": "1",
    }
    assert lease.lease_owner
    assert lease.lease_owner.startswith("tester-")


def test_a_command_may_use_its_own_lease(execution: Exec, shared: Queue) -> None:
    """The environment is enough for the program's other verbs."""
    task = add(shared)
    report = f'{sys.executable} -m redislease.cli progress --handle "$REDISLEASE_HANDLE" --done 3 --total 4'
    done = execution.run("--once", *sh(report))
    assert (done.returncode, done.stderr) == (0, "")
    progress = shared.detail(task.id).progress
    assert progress
    assert (progress["done"], progress["total"]) == (3, 4)


@pytest.mark.parametrize(
    ("printed", "result"),
    [
        (b"plain text\n", "plain text"),
        (b"two\nlines\n\n", "two\nlines"),
        (b'{"a": [1, 2.5, null]}\n', {"a": [1, 2.5, None]}),
        (b"17", 17),
        (b"", None),
        (b" \n", None),
        (b'{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        (b"NaN", "NaN"),
        (b"[1e999]", "[1e999]"),
        (b"[" * 100_000, "[" * 100_000),
        (b"a\xff\n", {"base64": "Yf8K"}),
        (b"\xed\xa0\x80", {"base64": "7aCA"}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_the_result(printed: bytes, result: Any) -> None:
    """JSON is taken as it is, everything else as text, and what is no text loses nothing."""
    assert result_of(printed, overflow=False) == result


@pytest.mark.parametrize(
    ("printed", "result"), [('{"a": [1]}\\n', {"a": [1]}), ("text\\n\\n", "text"), ("a\\0377", {"base64": "Yf8="})]
)
def test_a_result_that_is_stored(execution: Exec, shared: Queue, printed: str, result: Any) -> None:
    """A command that ended well has done its work, whatever it printed."""
    task = add(shared)
    assert execution.run("--once", *sh(f"printf '%b' '{printed}'")).returncode == 0
    assert shared.get(task.id).status == "completed"
    assert shared.result(task.id) == result


def test_errors_in_words() -> None:
    assert error_of(3, b"") == "exit status 3"
    assert error_of(-9, b"one\n") == "killed by SIGKILL: one"
    assert error_of(1, b"first\nlast\n") == "exit status 1: last\n\nfirst\nlast"


def test_a_failure(execution: Exec, shared: Queue) -> None:
    """A status other than 0 fails the task; standard error is passed on and its end is kept."""
    task = add(shared)
    done = execution.run("--once", *sh("cat >/dev/null; echo ignored; echo first >&2; echo 'the reason' >&2; exit 3"))
    assert done.returncode == 1
    assert done.stderr.startswith("first\nthe reason\n")
    assert f"{task.id} failed, now scheduled: exit status 3: the reason" in done.stderr
    failed = shared.get(task.id)
    assert (failed.status, failed.failures, failed.last_error) == (
        "scheduled",
        1,
        "exit status 3: the reason first the reason",
    )
    assert shared.result(task.id) is None


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("head -c 1048577 /dev/zero | tr '\\0' x", "the command printed more than 1048576 bytes"),
        ("head -c 600000 /dev/zero | tr '\\0' '\\\\'", "result has 1200002 bytes"),
        ("kill -KILL $$", "killed by SIGKILL"),
    ],
)
def test_a_result_that_cannot_be_stored(execution: Exec, shared: Queue, script: str, error: str) -> None:
    """It fails with a reason, though the command did its part."""
    task = add(shared)
    assert execution.run("--once", *sh(script)).returncode == 1
    assert shared.get(task.id).status == "scheduled"
    assert error in str(shared.evidence(task.id))


def test_a_command_that_reads_nothing(execution: Exec, shared: Queue) -> None:
    """A payload larger than a pipe does not block a command that does not want it."""
    task = add(shared, {"large": "x" * 1_000_000})
    assert execution.run("--once", *sh("echo ok")).returncode == 0
    assert shared.result(task.id) == "ok"
    again = add(shared, {"large": "x" * 1_000_000})
    assert execution.run("--once", *sh("wc -c")).returncode == 0
    assert shared.result(again.id) == len(json.dumps({"large": "x" * 1_000_000}, separators=(",", ":"))) + 1


def test_status_75_puts_off(execution: Exec, shared: Queue) -> None:
    """Nothing was done: also a task that must not happen twice just waits, longer each time."""
    task = add(shared, side_effect="non_idempotent", max_attempts=3)
    for delay_s in (0.5, 1.0, 2.0):
        done = execution.run("--once", "--wait", "5", "--put-off", "0.5", *sh("exit 75"))
        assert done.returncode == 1
        assert f"{task.id} put off, now scheduled: exit status 75" in done.stderr
        found = shared.get(task.id)
        assert (found.status, found.failures, found.open_effects) == ("scheduled", 0, 0)
        ended_at = shared.evidence(task.id)[-1]["at"]
        assert found.available_at == ended_at + delay_s * 1000


def test_status_75_is_not_for_ever(execution: Exec, shared: Queue) -> None:
    """Given back as often as it may fail, each further time is a failure, and the last one is the end."""
    task = add(shared, side_effect="non_idempotent", max_attempts=2)
    counts = []
    for _ in range(4):
        done = execution.run("--once", "--wait", "5", "--put-off", "0.01", *sh("exit 75"))
        assert done.returncode == 1
        found = shared.get(task.id)
        counts.append((found.status, found.releases, found.failures, found.open_effects))
    assert counts == [("scheduled", 1, 0, 0), ("scheduled", 2, 0, 0), ("scheduled", 2, 1, 0), ("dead", 2, 2, 0)]
    assert found.last_error == "put off too often (exit status 75)"
    assert "put off too often (exit status 75)" in done.stderr


def test_how_long_it_is_put_off() -> None:
    assert [put_off_s(30, times) for times in range(7)] == [30, 60, 120, 240, 480, 600, 600]
    assert [put_off_s(3600, times) for times in (0, 1, 9_999)] == [3600] * 3
    assert put_off_s(0, 9_999) == 0


def test_a_failure_in_doubt(execution: Exec, shared: Queue) -> None:
    """A task that must not happen twice is not repeated when its command fails."""
    task = add(shared, side_effect="non_idempotent")
    assert execution.run("--once", *sh("exit 1")).returncode == 1
    assert shared.get(task.id).status == "reconciling"
