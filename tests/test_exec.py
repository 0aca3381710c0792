"""`redislease exec` with real processes: what a command gets, what becomes of its result, and how it is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import Mark, marked, one_server, redislease, run
from servers import Engine, wait_until

from redislease import Queue, Task
from redislease.exec.result import error_of, result_of

SHORT_LEASE_S = 1.5


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    """One server program for the module."""
    with one_server() as engine:
        yield engine


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Mark]:
    """The processes of the test; none of them outlives it."""
    with marked(tmp_path) as made:
        yield made
        made.wait_gone()


@pytest.fixture
def queue(server: Engine, queue_name: str) -> Iterator[Queue]:
    """A queue of the test's own."""
    with Queue(queue_name, redis_url=server.url) as made:
        yield made


class Exec:
    """Runs `redislease exec` on the queue of the test."""

    def __init__(self, mark: Mark, server: Engine, queue: Queue) -> None:
        self.mark = mark
        self._options = ["--queue", queue.name, "--url", server.url]
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """To its end."""
        return run(self.mark, "exec", *self._options, *arguments, timeout_s=timeout_s)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """In the background."""
        program = subprocess.Popen(
            redislease("exec", *self._options, *arguments),
            env=self.mark.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(program)
        return program

    def close(self) -> None:
        """Ends what still runs."""
        for program in self._started:
            program.kill()
            with program:
                program.wait()


@pytest.fixture
def execution(mark: Mark, server: Engine, queue: Queue) -> Iterator[Exec]:
    """Starts the program."""
    made = Exec(mark, server, queue)
    yield made
    made.close()


def sh(script: str, *arguments: str) -> list[str]:
    """A shell script as a command."""
    return ["--", "/bin/sh", "-c", script, "sh", *arguments]


def wait_for_sleepers(mark: Mark, amount: int) -> None:
    """Waits until so many `sleep 1000` run: the heart of the commands here."""

    def sleepers() -> bool:
        return sum(line.startswith("sleep 1000") for line in mark.processes().values()) == amount

    wait_until(sleepers, 30, what=f"{amount} commands")


def add(queue: Queue, payload: Any = None, **options: Any) -> Task:
    """A task that may be repeated."""
    return queue.enqueue("work", payload, **{"side_effect": "idempotent", **options})


def test_what_a_command_gets(execution: Exec, queue: Queue, server: Engine) -> None:
    """The payload on standard input, the lease in the environment, and the result back."""
    task = add(queue, {"number": 42, "text": "ä\n"}, idempotency_key="key of mine")
    program = "import json, os, sys; print(json.dumps({'in': json.load(sys.stdin), 'env': dict(os.environ)}))"
    done = execution.run("--once", "--name", "tester", "--", sys.executable, "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    result = queue.result(task.id)
    lease = queue.get(task.id)
    assert lease.status == "completed"
    assert result["in"] == {"number": 42, "text": "ä\n"}
    found = {name: value for name, value in result["env"].items() if name.startswith("REDISLEASE_")}
    assert found.pop("REDISLEASE_TEST_MARK")
    assert found.pop("REDISLEASE_EXEC")
    assert json.loads(found.pop("REDISLEASE_HANDLE")) == [
        queue.name, task.id, lease.lease_owner, 1, lease.fencing_token, 60_000,
    ]  # fmt: skip
    assert found == {
        "REDISLEASE_QUEUE": queue.name,
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


def test_a_command_may_use_its_own_lease(execution: Exec, queue: Queue) -> None:
    """The environment is enough for the program's other verbs."""
    task = add(queue)
    report = f'{sys.executable} -m redislease.cli progress --handle "$REDISLEASE_HANDLE" --done 3 --total 4'
    done = execution.run("--once", *sh(report))
    assert (done.returncode, done.stderr) == (0, "")
    progress = queue.detail(task.id).progress
    assert progress
    assert (progress["done"], progress["total"]) == (3, 4)


@pytest.mark.parametrize(
    ("printed", "result"),
    [
        ("plain text\\n", "plain text"),
        ("two\\nlines\\n\\n", "two\nlines"),
        ('{"a": [1, 2.5, null]}\\n', {"a": [1, 2.5, None]}),
        ("17", 17),
        ("", None),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("NaN", "NaN"),
        ("[1e999]", "[1e999]"),
    ],
)
def test_the_result(execution: Exec, queue: Queue, printed: str, result: Any) -> None:
    """JSON is taken as it is, everything else as text."""
    task = add(queue)
    assert execution.run("--once", *sh(f"printf '%b' '{printed}'")).returncode == 0
    assert queue.get(task.id).status == "completed"
    assert queue.result(task.id) == result


def test_results_and_errors_as_functions() -> None:
    """What does not need a process."""
    assert result_of(b"[" * 100_000, overflow=False) == "[" * 100_000
    assert error_of(3, b"") == "exit status 3"
    assert error_of(-9, b"one\n") == "killed by SIGKILL: one"
    assert error_of(1, b"first\nlast\n") == "exit status 1: last\n\nfirst\nlast"


def test_a_failure(execution: Exec, queue: Queue) -> None:
    """A status other than 0 fails the task; standard error is passed on and its end is kept."""
    task = add(queue)
    done = execution.run("--once", *sh("cat >/dev/null; echo ignored; echo first >&2; echo 'the reason' >&2; exit 3"))
    assert done.returncode == 1
    assert done.stderr.startswith("first\nthe reason\n")
    assert f"{task.id} failed, now scheduled: exit status 3: the reason" in done.stderr
    failed = queue.get(task.id)
    assert (failed.status, failed.failures, failed.last_error) == (
        "scheduled",
        1,
        "exit status 3: the reason first the reason",
    )
    assert queue.result(task.id) is None


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("head -c 1048577 /dev/zero | tr '\\0' x", "the command printed more than 1048576 bytes"),
        ("head -c 600000 /dev/zero | tr '\\0' '\\\\'", "result has 1200002 bytes"),
        ("printf 'a\\377'", "the command's standard output is not UTF-8 at byte 1"),
        ("kill -KILL $$", "killed by SIGKILL"),
    ],
)
def test_a_result_that_cannot_be_stored(execution: Exec, queue: Queue, script: str, error: str) -> None:
    """It fails with a reason, though the command did its part."""
    task = add(queue)
    assert execution.run("--once", *sh(script)).returncode == 1
    assert queue.get(task.id).status == "scheduled"
    assert error in str(queue.evidence(task.id))


def test_a_command_that_reads_nothing(execution: Exec, queue: Queue) -> None:
    """A payload larger than a pipe does not block a command that does not want it."""
    task = add(queue, {"large": "x" * 1_000_000})
    assert execution.run("--once", *sh("echo ok")).returncode == 0
    assert queue.result(task.id) == "ok"
    again = add(queue, {"large": "x" * 1_000_000})
    assert execution.run("--once", *sh("wc -c")).returncode == 0
    assert queue.result(again.id) == len(json.dumps({"large": "x" * 1_000_000}, separators=(",", ":"))) + 1


def test_status_75_puts_off(execution: Exec, queue: Queue) -> None:
    """Nothing was done: also a task that must not happen twice just waits."""
    task = add(queue, side_effect="non_idempotent")
    done = execution.run("--once", "--put-off", "100", *sh("exit 75"))
    assert done.returncode == 1
    found = queue.get(task.id)
    assert (found.status, found.failures, found.open_effects) == ("scheduled", 0, 0)
    assert found.available_at
    assert 90_000 < found.available_at - queue.stats().now <= 100_000


def test_a_failure_in_doubt(execution: Exec, queue: Queue) -> None:
    """A task that must not happen twice is not repeated when its command fails."""
    task = add(queue, side_effect="non_idempotent")
    assert execution.run("--once", *sh("exit 1")).returncode == 1
    assert queue.get(task.id).status == "reconciling"


def test_what_is_left_of_the_group(execution: Exec, queue: Queue) -> None:
    """A command has ended when its first process has; what it left behind does not go on."""
    task = add(queue)
    began_s = time.monotonic()
    assert execution.run("--once", *sh("sleep 60 & echo ok")).returncode == 0
    assert time.monotonic() - began_s < 30
    assert queue.result(task.id) == "ok"


def test_closed_pipes_are_not_the_end(execution: Exec, queue: Queue) -> None:
    """A command that closes its output goes on."""
    task = add(queue, lease_duration=SHORT_LEASE_S)
    done = execution.run("--once", *sh("exec >&- 2>&-; sleep 2; exit 7"))
    assert done.returncode == 1
    assert queue.get(task.id).last_error == "exit status 7"


def test_the_lease_is_renewed(execution: Exec, queue: Queue) -> None:
    """A command three times longer than its lease keeps it."""
    task = add(queue, lease_duration=1)
    assert execution.run("--once", *sh("sleep 3.2; echo ok")).returncode == 0
    found = queue.get(task.id)
    assert (found.status, found.claim_generation) == ("completed", 1)
    assert found.renewals >= 3


@pytest.mark.parametrize("verb", ["revoke", "cancel"])
def test_a_lost_lease_ends_the_command(execution: Exec, queue: Queue, verb: str) -> None:
    """Revoked, the command is ended at once, even one that ignores SIGTERM, and the heartbeat is far away."""
    task = add(queue, lease_duration=60)
    program = execution.start("--once", *sh("trap 'echo told >&2' TERM; sleep 1000 & while :; do wait; done"))
    wait_for_sleepers(execution.mark, 1)
    began_s = time.monotonic()
    getattr(queue, verb)(task.id, by="operator", reason="test")
    output, errors = program.communicate(timeout=60)
    assert program.returncode == 3, output + errors
    assert 1.5 < time.monotonic() - began_s < 15  # the next heartbeat: 20 s
    assert errors.startswith("told\n") or "\ntold\n" in errors
    assert f"{task.id} lost: {verb}" in errors
    execution.mark.wait_gone()
    assert queue.get(task.id).status == {"revoke": "ready", "cancel": "cancelled"}[verb]


def test_a_lease_that_another_took_over(execution: Exec, queue: Queue) -> None:
    """Stopped for too long, it finds its lease gone, ends the command, and changes nothing."""
    task = add(queue, lease_duration=SHORT_LEASE_S)
    program = execution.start("--once", *sh("sleep 1000"))
    wait_for_sleepers(execution.mark, 1)
    program.send_signal(signal.SIGSTOP)
    taken = wait_until(lambda: queue.claim(1), what="the recovery")[0]
    taken.renew(30)
    program.send_signal(signal.SIGCONT)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 3, errors
    assert taken.complete("mine").status == "completed"
    assert (queue.get(task.id).claim_generation, queue.result(task.id)) == (2, "mine")


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_in_the_middle(execution: Exec, queue: Queue, sign: signal.Signals, code: int) -> None:
    """The command is told with SIGTERM, and its task is given back as interrupted."""
    safe, doubtful = add(queue), add(queue, side_effect="non_idempotent")
    program = execution.start("--concurrency", "2", *sh("sleep 1000"))
    wait_for_sleepers(execution.mark, 2)
    began_s = time.monotonic()
    program.send_signal(sign)
    _, errors = program.communicate(timeout=60)
    assert time.monotonic() - began_s < 20  # the grace: 25 s
    assert program.returncode == code, errors
    assert f"{safe.id} interrupted, now ready: killed by SIGTERM" in errors
    found = queue.get(safe.id)
    assert (found.status, found.failures, found.releases) == ("ready", 0, 1)
    assert queue.get(doubtful.id).status == "reconciling"


def test_a_command_that_finishes_in_its_grace(execution: Exec, queue: Queue) -> None:
    """What still ends well after SIGTERM is completed."""
    task = add(queue)
    program = execution.start(*sh("trap 'echo finished; exit 0' TERM; echo up >&2; while :; do sleep 0.1; done"))
    assert program.stderr
    assert program.stderr.readline() == "up\n"
    program.terminate()
    program.communicate(timeout=60)
    assert program.returncode == 0
    assert queue.result(task.id) == "finished"


@pytest.mark.parametrize("how", ["grace", "second signal"])
def test_a_command_that_ignores_the_end(execution: Exec, queue: Queue, how: str) -> None:
    """It is killed after the grace, or at a second signal."""
    task = add(queue)
    grace_s = "0.5" if how == "grace" else "100"
    program = execution.start("--grace", grace_s, *sh("trap '' TERM; echo up >&2; while :; do sleep 0.1; done"))
    assert program.stderr
    assert program.stderr.readline() == "up\n"
    program.terminate()
    if how == "second signal":
        time.sleep(0.5)
        assert program.poll() is None
        program.terminate()
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    assert "interrupted, now ready: killed by SIGKILL" in errors
    assert queue.get(task.id).status == "ready"


def test_its_own_sudden_death(execution: Exec, queue: Queue) -> None:
    """Killed itself, it takes the whole group of its command with it; the task comes back when the lease ends."""
    task = add(queue, lease_duration=SHORT_LEASE_S)
    program = execution.start(*sh("trap '' TERM HUP; sleep 1000 & sleep 1000"))
    wait_for_sleepers(execution.mark, 2)
    program.kill()
    program.communicate()
    execution.mark.wait_gone(timeout_s=3)
    again = wait_until(lambda: queue.claim(1), what="the recovery")[0]
    assert (again.id, again.generation) == (task.id, 2)
    again.complete()


def test_a_watchdog_that_was_killed_is_replaced(execution: Exec, queue: Queue) -> None:
    """Killing the watchdog alone does not open the gap."""
    for _ in range(2):
        add(queue, lease_duration=SHORT_LEASE_S)
    program = execution.start(*sh("exec sleep 1000"))
    wait_for_sleepers(execution.mark, 1)
    found = execution.mark.processes()
    (watchdog,) = (pid for pid, line in found.items() if "watchdog" in line)
    (first,) = (pid for pid, line in found.items() if line.startswith("sleep 1000"))
    os.kill(watchdog, signal.SIGKILL)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: first not in execution.mark.processes(), what="the end of the first command")
    wait_for_sleepers(execution.mark, 1)
    program.kill()
    program.communicate()
    execution.mark.wait_gone(timeout_s=3)


def test_death_between_start_and_confirmation(mark: Mark) -> None:
    """A command whose parent died before it could tell its process group is found by its mark."""
    program = """
import os, subprocess, sys
from redislease.exec.watchdog import VARIABLE, Watchdog
with Watchdog() as watchdog:
    environment = {**os.environ, VARIABLE: watchdog.expect()}
    subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1000"], env=environment, start_new_session=True)
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", program], env=mark.environment, check=False)
    assert done.returncode == -signal.SIGKILL
    mark.wait_gone()


def test_once_drain_and_wait(execution: Exec, queue: Queue) -> None:
    """The exit codes of an empty queue, and waiting for a task."""
    nothing = execution.run("--once", *sh("true"))
    assert (nothing.returncode, nothing.stderr) == (4, f"redislease: nothing is ready in queue {queue.name}\n")
    drained = execution.run("--drain", *sh("true"))
    assert (drained.returncode, drained.stderr) == (0, "")
    program = execution.start("--once", "--wait", "10", *sh("echo ok"))
    time.sleep(1.0)
    task = add(queue)
    program.communicate(timeout=60)
    assert program.returncode == 0
    assert queue.result(task.id) == "ok"


def test_many_tasks_at_once(execution: Exec, queue: Queue, tmp_path: Path) -> None:
    """Slots work side by side, and one program runs all of them to the end."""
    tasks = [add(queue, {"n": n}) for n in range(12)]
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
    assert [queue.result(task.id) for task in tasks] == [{"n": n} for n in range(12)]


def test_an_idle_program_ends_soon(execution: Exec, queue: Queue) -> None:
    """SIGTERM while nothing is there."""
    program = execution.start(*sh("true"))
    wait_until(lambda: queue.workers(), what="its registration")
    time.sleep(0.5)
    began_s = time.monotonic()
    program.terminate()
    output, errors = program.communicate(timeout=60)
    assert time.monotonic() - began_s < 10
    assert (program.returncode, output, errors) == (0, "", "")


def test_a_command_that_cannot_be_started(execution: Exec, queue: Queue, tmp_path: Path) -> None:
    """No task is lost to a wrong command line."""
    task = add(queue, side_effect="non_idempotent")
    missing = execution.run("--once", "--", "/no/such/program")
    assert (missing.returncode, queue.get(task.id).claim_generation) == (2, 0)
    assert "there is no program '/no/such/program'" in missing.stderr
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    refused = execution.run(*["--", str(broken)])
    assert refused.returncode == 2
    assert f"cannot start '{broken}'" in refused.stderr
    found = queue.get(task.id)
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


def test_options_of_the_command_are_its_own(execution: Exec, queue: Queue) -> None:
    """Behind the command everything belongs to it, with or without the two dashes."""
    task = add(queue)
    assert execution.run("--once", "echo", "--once", "--json").returncode == 0
    assert queue.result(task.id) == "--once --json"


@pytest.mark.parametrize("until", ["--once", "--drain"])
def test_a_paused_queue_is_said_to_be_paused(execution: Exec, queue: Queue, until: str) -> None:
    """Nothing is handed out, and that is not the same as nothing being there."""
    queue.enqueue("work", side_effect="read_only")
    queue.pause(by="ops")
    program = execution.start(until, "true")
    _, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (1, f"redislease: queue {queue.name} is paused (claims)\n")
