"""What the program does to terminals and pipes, and what stored data may not do to them."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable

import pytest
from command_line import CommandLine
from servers import Engine, once_on_a_server

from redislease.cli import output, tables
from redislease.queue import Queue

pytest_plugins = ["cli_fixtures"]

HOSTILE = "\x1b[31mred\x1b]0;title\x07 [bold]markup[/bold] [/] \x9b2J \u202egnp.exe \\"


def acting(text: str) -> list[str]:
    """The characters of a text that could act on a terminal."""
    return [one for one in text if one != "\n" and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@pytest.fixture
def hostile(cli: CommandLine, plain_queue: Queue) -> CommandLine:
    """A queue in which everything that a user can write is hostile."""
    plain_queue.enqueue("[red]name[/red] [/]", {"k\x1b[2J": HOSTILE}, side_effect="read_only", task_id="one")
    (lease,) = plain_queue.claim()
    lease.progress(1, note=HOSTILE)
    lease.fail(HOSTILE, retry=False)
    plain_queue.requeue("one", by="[blink]me[/blink]", reason=HOSTILE)
    plain_queue.enqueue("done", side_effect="read_only", task_id="two", priority=100)
    plain_queue.claim()[0].complete({"r": HOSTILE})
    plain_queue.pause(by="\u202eevil", reason=HOSTILE)
    return cli


@pytest.mark.parametrize("columns", ["40", "200"])
@pytest.mark.parametrize("form", ["text", "--json", "--jsonl"])
def test_data_cannot_act_on_a_terminal(hostile: CommandLine, columns: str, form: str) -> None:
    runs = [
        ["stats"],
        ["queues"],
        ["tasks", "ready"],
        ["show", "one"],
        ["show", "two"],
        ["why", "one"],
        ["evidence", "one"],
        ["audit"],
        ["workers"],
        ["cancel", "one", "--dry-run"],
        ["reconcile", "show", "one"],
    ]
    for arguments in runs:
        result = hostile.expect(0, *arguments, *([] if form == "text" else [form]), COLUMNS=columns)
        assert not acting(result.out + result.err), arguments
        if form == "text" and arguments == ["tasks", "ready"]:
            assert "[red]name[/red]" in result.out.replace("\n", "")
    assert "\\x1b[31mred" in hostile.expect(0, "evidence", "one").out
    paused = hostile.expect(1, "claim")
    assert not acting(paused.out + paused.err)
    assert "\\u202eevil" in paused.err


def test_arguments_cannot_act_on_a_terminal_either(cli: CommandLine) -> None:
    for arguments in (
        ["show", HOSTILE],
        ["lua", HOSTILE],
        [HOSTILE],
        ["stats", "--" + HOSTILE],
        ["stats", "-q", HOSTILE],
    ):
        result = cli.expect(2, *arguments)
        assert not acting(result.err)
        assert result.err.count("\n") == 1


def test_narrow_tables_stay_within_the_width(hostile: CommandLine) -> None:
    for verb in (["tasks", "ready"], ["show", "one"], ["stats"], ["queues"], ["audit"], ["evidence", "one"]):
        out = hostile.expect(0, *verb, COLUMNS="40").out
        assert max(len(line) for line in out.splitlines()) <= 40, verb
        assert max(len(line) for line in out.splitlines()) > 20, verb


def test_a_pipe_gets_one_line_for_each_row(hostile: CommandLine) -> None:
    out = hostile.expect(0, "tasks", "ready", COLUMNS=None).out
    assert len(out.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 日本 🙂", "plain äöü 日本 🙂"),
        ("\x1b[0m", "\\x1b[0m"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x9b\x7f", "\\x9b\\x7f"),
        ("\u202e\u2028\ud800", "\\u202e\\u2028\\ud800"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert output.visible(text) == shown


def test_times_and_lengths() -> None:
    assert output.moment(None) == ""
    assert output.moment(2**53) == str(2**53)
    assert [output.duration(ms) for ms in (0, 1_500, 59_000, 180_000, 7_200_000, 3 * 86_400_000)] == [
        "0.0 s",
        "1.5 s",
        "59 s",
        "3 min",
        "2 h",
        "3 d",
    ]
    assert output.when(1_000, 61_000).endswith("(60 s ago)")
    assert output.when(61_000, 1_000).endswith("(in 60 s)")


@pytest.mark.parametrize("columns", ["1", "5", "40", "0", "junk"])
def test_no_width_breaks_a_table(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "x" in tables.table(("a", "b"), [("x" * 100, "y" * 100), (None, 1)])
    assert tables.pairs([("name", "value"), ("none", None)])
    assert tables.table(("a", "b"), []) or columns in ("1", "5")


def in_a_terminal(run: Callable[[int], subprocess.Popen[bytes]]) -> bytes:
    """Everything that a program writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    process = run(theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait(30) == 0
    return seen


@once_on_a_server
@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_is_respected(real_cli: CommandLine, no_color: str) -> None:
    environment = real_cli.process_environment(NO_COLOR=no_color, TERM="xterm-256color")
    seen = in_a_terminal(
        lambda terminal: real_cli.start("stats", env=environment, stdout=terminal, stdin=subprocess.DEVNULL)
    )
    assert b"ready" in seen
    assert (b"\x1b[" in seen) is not bool(no_color)


@once_on_a_server
@pytest.mark.parametrize("shown", [True, False])
def test_a_progress_bar_only_where_it_can_be_seen(real_cli: CommandLine, shown: bool) -> None:
    environment = real_cli.process_environment(TERM="xterm-256color")
    arguments = ["enqueue", "job", "--side-effect", "read_only", "--jsonl", "-"]

    def run(terminal: int) -> subprocess.Popen[bytes]:
        out = subprocess.DEVNULL if shown else terminal
        process = real_cli.start(*arguments, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=terminal)
        assert process.stdin
        process.stdin.write(b"{}\n" * 1000)
        process.stdin.close()
        return process

    seen = in_a_terminal(run)
    assert (b"\x1b[" in seen) is shown
    assert b"1,000 lines: 1,000 done" in seen


@once_on_a_server
@pytest.mark.parametrize("arguments", [["tasks", "ready", "-n", "1000", "--jsonl"], ["tasks", "ready", "-n", "1000"]])
def test_a_closed_pipe_ends_quietly(real_cli: CommandLine, plain_queue: Queue, arguments: list[str]) -> None:
    request = {"name": "x" * 120, "side_effect": "read_only"}
    plain_queue.enqueue_many([request] * 1000)
    process = real_cli.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 141
    assert err == b""


@once_on_a_server
def test_a_batch_whose_answers_nobody_reads_ends_quietly(real_cli: CommandLine) -> None:
    program = f"{sys.executable} -m redislease.cli enqueue x --side-effect read_only --jsonl -"
    command = f"{program} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        input=b"{}\n" * 20_000,
        capture_output=True,
        env=real_cli.process_environment(),
        check=False,
    )
    assert done.returncode == 141
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


@once_on_a_server
def test_invalid_utf8_in_arguments(real_cli: CommandLine) -> None:
    for arguments in ([b"show", b"\xff\xfe"], [b"enqueue", b"\xff", b"--side-effect", b"read_only"]):
        done = subprocess.run(
            [sys.executable, "-m", "redislease.cli", *arguments],
            capture_output=True,
            env=real_cli.process_environment(),
            check=False,
        )
        assert done.returncode == 2, done
        assert re.fullmatch(rb"redislease: [\x20-\x7e]*\n", done.stderr), done.stderr


@once_on_a_server
def test_a_locale_without_the_characters(real_cli: CommandLine, plain_queue: Queue) -> None:
    plain_queue.enqueue("größe 日本", {"ü": "é"}, side_effect="read_only", task_id="one")
    environment = real_cli.process_environment(PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    for form, shown in (([], b"gr\xf6\xdfe \\u65e5\\u672c"), (["--json"], b"gr\\u00f6\\u00dfe \\u65e5\\u672c")):
        process = real_cli.start("show", "one", *form, env=environment, stdout=subprocess.PIPE)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        assert shown in out


@once_on_a_server
def test_standard_streams_may_be_closed(real_cli: CommandLine, engine: Engine) -> None:
    for closing in (">&-", "2>&-", "<&-"):
        command = f"{sys.executable} -m redislease.cli stats {closing}"
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, env=real_cli.process_environment(), check=False
        )
        assert done.returncode == 0, (closing, done)
        assert b"Traceback" not in done.stderr
