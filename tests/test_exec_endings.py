"""How a command of `redislease exec` is ended, and what is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from executing import Exec, add, sh, wait_for_sleepers
from program import Mark
from servers import wait_until

from redislease import Queue

pytest_plugins = ["exec_fixtures"]


SHORT_LEASE_S = 1.5


def test_what_is_left_of_the_group(execution: Exec, shared: Queue) -> None:
    """A command has ended when its first process has; what it left behind does not go on."""
    task = add(shared)
    began_s = time.monotonic()
    assert execution.run("--once", *sh("sleep 60 & echo ok")).returncode == 0
    assert time.monotonic() - began_s < 30
    assert shared.result(task.id) == "ok"


def test_closed_pipes_are_not_the_end(execution: Exec, shared: Queue) -> None:
    """A command that closes its output goes on."""
    task = add(shared, lease_duration=SHORT_LEASE_S)
    done = execution.run("--once", *sh("exec >&- 2>&-; sleep 2; exit 7"))
    assert done.returncode == 1
    assert shared.get(task.id).last_error == "exit status 7"


def test_the_lease_is_renewed(execution: Exec, shared: Queue) -> None:
    """A command three times longer than its lease keeps it."""
    task = add(shared, lease_duration=1)
    assert execution.run("--once", *sh("sleep 3.2; echo ok")).returncode == 0
    found = shared.get(task.id)
    assert (found.status, found.claim_generation) == ("completed", 1)
    assert found.renewals >= 3


@pytest.mark.parametrize("verb", ["revoke", "cancel"])
def test_a_lost_lease_ends_the_command(execution: Exec, shared: Queue, verb: str) -> None:
    """Revoked, the command is ended at once, even one that ignores SIGTERM, and the heartbeat is far away."""
    task = add(shared, lease_duration=60)
    program = execution.start("--once", *sh("trap 'echo told >&2' TERM; sleep 1000 & while :; do wait; done"))
    wait_for_sleepers(execution.mark, 1)
    began_s = time.monotonic()
    getattr(shared, verb)(task.id, by="operator", reason="test")
    output, errors = program.communicate(timeout=60)
    assert program.returncode == 3, output + errors
    assert 1.5 < time.monotonic() - began_s < 15  # the next heartbeat: 20 s
    assert errors.startswith("told\n") or "\ntold\n" in errors
    assert f"{task.id} lost: {verb}" in errors
    execution.mark.wait_gone()
    assert shared.get(task.id).status == {"revoke": "ready", "cancel": "cancelled"}[verb]


def test_a_lease_that_another_took_over(execution: Exec, shared: Queue) -> None:
    """Stopped for too long, it finds its lease gone, ends the command, and changes nothing."""
    task = add(shared, lease_duration=SHORT_LEASE_S)
    program = execution.start("--once", *sh("sleep 1000"))
    wait_for_sleepers(execution.mark, 1)
    program.send_signal(signal.SIGSTOP)
    taken = wait_until(lambda: shared.claim(1), what="the recovery")[0]
    taken.renew(30)
    program.send_signal(signal.SIGCONT)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 3, errors
    assert taken.complete("mine").status == "completed"
    assert (shared.get(task.id).claim_generation, shared.result(task.id)) == (2, "mine")


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_in_the_middle(execution: Exec, shared: Queue, sign: signal.Signals, code: int) -> None:
    """The command is told with SIGTERM, and its task is given back as interrupted."""
    safe, doubtful = add(shared), add(shared, side_effect="non_idempotent")
    program = execution.start("--concurrency", "2", *sh("sleep 1000"))
    wait_for_sleepers(execution.mark, 2)
    began_s = time.monotonic()
    program.send_signal(sign)
    _, errors = program.communicate(timeout=60)
    assert time.monotonic() - began_s < 20  # the grace: 25 s
    assert program.returncode == code, errors
    assert f"{safe.id} interrupted, now ready: killed by SIGTERM" in errors
    found = shared.get(safe.id)
    assert (found.status, found.failures, found.releases) == ("ready", 0, 1)
    assert shared.get(doubtful.id).status == "reconciling"


def test_a_command_that_finishes_in_its_grace(execution: Exec, shared: Queue) -> None:
    """What still ends well after SIGTERM is completed."""
    task = add(shared)
    program = execution.start(*sh("trap 'echo finished; exit 0' TERM; echo up >&2; while :; do sleep 0.1; done"))
    assert program.stderr
    assert program.stderr.readline() == "up\n"
    program.terminate()
    program.communicate(timeout=60)
    assert program.returncode == 0
    assert shared.result(task.id) == "finished"


@pytest.mark.parametrize("how", ["grace", "second signal"])
def test_a_command_that_ignores_the_end(execution: Exec, shared: Queue, how: str) -> None:
    """It is killed after the grace, or at a second signal."""
    task = add(shared)
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
    assert shared.get(task.id).status == "ready"


def test_its_own_sudden_death(execution: Exec, shared: Queue) -> None:
    """Killed itself, it takes the whole group of its command with it; the task comes back when the lease ends."""
    task = add(shared, lease_duration=SHORT_LEASE_S)
    program = execution.start(*sh("trap '' TERM HUP; sleep 1000 & sleep 1000"))
    wait_for_sleepers(execution.mark, 2)
    program.kill()
    program.communicate()
    execution.mark.wait_gone(timeout_s=3)
    again = wait_until(lambda: shared.claim(1), what="the recovery")[0]
    assert (again.id, again.generation) == (task.id, 2)
    again.complete()


def test_a_watchdog_that_was_killed_is_replaced(execution: Exec, shared: Queue) -> None:
    """Killing the watchdog alone does not open the gap."""
    for _ in range(2):
        add(shared, lease_duration=SHORT_LEASE_S)
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
