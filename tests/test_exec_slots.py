"""`redislease exec` from its command line: how many tasks it takes, when it ends, and what it says of wrong usage."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from executing import Exec, add, sh
from program import Mark, run
from servers import wait_until

from redislease import Queue

pytest_plugins = ["exec_fixtures"]


def test_once_drain_and_wait(execution: Exec, shared: Queue) -> None:
    """The exit codes of an empty queue, and waiting for a task."""
    nothing = execution.run("--once", *sh("true"))
    words = f"redislease: nothing is ready in queue {shared.name}, and nothing was ever enqueued there\n"
    assert (nothing.returncode, nothing.stderr) == (4, words)
    drained = execution.run("--drain", *sh("true"))
    assert (drained.returncode, drained.stderr) == (0, "")
    program = execution.start("--once", "--wait", "10", *sh("echo ok"))
    time.sleep(1.0)
    task = add(shared)
    program.communicate(timeout=60)
    assert program.returncode == 0
    assert shared.result(task.id) == "ok"


def test_many_tasks_at_once(execution: Exec, shared: Queue, tmp_path: Path) -> None:
    """Slots work side by side, and one program runs all of them to the end."""
    tasks = [add(shared, {"n": n}) for n in range(12)]
    here = tmp_path / "here"
    here.mkdir()
    # Each waits until six were there; one after the other they would wait for ever.
    together = 'touch "$1/$REDISLEASE_TASK_ID"; while [ "$(ls "$1" | wc -l)" -lt 6 ]; do sleep 0.05; done; cat'
    done = execution.run("--drain", "--concurrency", "6", "--jsonl", *sh(together, str(here)))
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(one["id"], one["verdict"], one["status"]) for one in reports} == {
        (task.id, "done", "completed") for task in tasks
    }
    assert [shared.result(task.id) for task in tasks] == [{"n": n} for n in range(12)]


def test_an_idle_program_ends_soon(execution: Exec, shared: Queue) -> None:
    """SIGTERM while nothing is there."""
    program = execution.start(*sh("true"))
    wait_until(lambda: shared.workers(), what="its registration")
    time.sleep(0.5)
    began_s = time.monotonic()
    program.terminate()
    output, errors = program.communicate(timeout=60)
    assert time.monotonic() - began_s < 10
    assert (program.returncode, output, errors) == (0, "", "")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("no-such-program", "there is no program 'no-such-program' on PATH"),
        ("/no/such/program", "there is no file '/no/such/program'"),
        ("DIRECTORY", "'DIRECTORY' is a directory, not a program"),
        ("DIRECTORY/file", "'DIRECTORY/file' is not executable: chmod +x, or name its interpreter before it"),
        ("", "the name of the program is empty"),
    ],
)
def test_a_program_that_cannot_be_run(
    execution: Exec, shared: Queue, tmp_path_factory: pytest.TempPathFactory, program: str, words: str
) -> None:
    """Told before a task is claimed."""
    place = tmp_path_factory.mktemp("place")
    (place / "file").write_text("true\n")
    add(shared, side_effect="non_idempotent")
    done = execution.run("--once", "--", program.replace("DIRECTORY", str(place)))
    assert (done.returncode, done.stderr) == (2, f"redislease: exec: {words.replace('DIRECTORY', str(place))}\n")
    assert shared.stats().counters["claimed"] == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#!/no/such/interpreter\n", "its interpreter (the first line, behind #!) does not exist"),
        (b"\x7fELF and then nothing", "Exec format error"),
    ],
    ids=["interpreter", "format"],
)
def test_a_command_that_cannot_be_started(
    execution: Exec, shared: Queue, tmp_path_factory: pytest.TempPathFactory, content: bytes, words: str
) -> None:
    """No task is lost to a program that looks well and is not."""
    task = add(shared, side_effect="non_idempotent")
    broken = tmp_path_factory.mktemp("place") / "broken"
    broken.write_bytes(content)
    broken.chmod(0o755)
    refused = execution.run("--", str(broken))
    assert (refused.returncode, refused.stderr) == (2, f"redislease: cannot start '{broken}': {words}\n")
    found = shared.get(task.id)
    assert (found.status, found.claim_generation, found.attempts, found.open_effects) == ("ready", 1, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--once", "--concurrency", "2", "--", "true"], 2, "--once runs one task"),
        ([], 2, "Missing argument"),
        (["--concurrency", "0", "--", "true"], 2, "concurrency"),
    ],
)
def test_wrong_usage(execution: Exec, arguments: list[str], code: int, words: str) -> None:
    """Said in a sentence."""
    done = execution.run(*arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert words in done.stderr


def test_a_server_that_is_not_there(mark: Mark, queue_name: str) -> None:
    """Said at once, before it would be patient."""
    done = run(mark, "exec", "-q", queue_name, "--url", "redis://127.0.0.1:1/0", "--timeout", "0.3", "--", "true")
    assert done.returncode == 5
    assert "cannot reach redis://127.0.0.1:1/0" in done.stderr


def test_options_of_the_command_are_its_own(execution: Exec, shared: Queue) -> None:
    """Behind the command everything belongs to it, with or without the two dashes."""
    task = add(shared)
    assert execution.run("--once", "echo", "--once", "--json").returncode == 0
    assert shared.result(task.id) == "--once --json"


@pytest.mark.parametrize("until", ["--once", "--drain"])
def test_a_paused_queue_is_said_to_be_paused(execution: Exec, shared: Queue, until: str) -> None:
    """Nothing is handed out, and that is not the same as nothing being there."""
    shared.enqueue("work", side_effect="read_only")
    shared.pause(by="ops")
    program = execution.start(until, "true")
    _, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (1, f"redislease: queue {shared.name} is paused (claims)\n")
