"""The README's commands, typed as they stand there, by somebody who has nothing yet.

The test command installs everything and runs a handful of tests: `PYTEST_ADDOPTS` keeps it short, and keeps it from
running itself. `.ci/run` runs the same line in full.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import CommandLine
from program import one_server
from pydantic import BaseModel
from readme import README, command
from working import working

from redislease import AsyncLease, Queue

ROOT = Path(__file__).resolve().parents[1]
COMMAND_S = 600
A_HANDFUL = "-k 'test_every_script_loads and fakeredis' -p no:cacheprovider"
NOT_CHECKED_OUT = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", "*.egg-info", "build", "dist")

FIXTURE = """\
# Title

<!-- test-command -->
```sh
one && \\
two
```

1. A list:
   <!-- demo-command -->

   ```
   three
   ```

<!-- bare -->
No block.
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a clone would hold, uncommitted changes included."""
    target = tmp_path / "checkout"
    listing = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(listing, capture_output=True, check=False)
    if listed.returncode != 0:
        return Path(shutil.copytree(ROOT, target, ignore=NOT_CHECKED_OUT))
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def run_as_a_newcomer(line: str, checkout: Path, **environment: str) -> str:
    """Runs shell commands with PATH and an empty home, and returns what they print."""
    home = checkout.parent / "home"
    home.mkdir()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(COMMAND_S + 60)
def test_the_test_command_works_on_a_new_machine(checkout: Path) -> None:
    printed = run_as_a_newcomer(command("test-command"), checkout, PYTEST_ADDOPTS=A_HANDFUL)
    assert " passed" in printed.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.timeout(COMMAND_S + 60)
def test_the_demo_command_works_on_a_new_machine(checkout: Path) -> None:
    assert run_as_a_newcomer(command("demo-command"), checkout).strip()


class Invoice(BaseModel):
    """As the README's typed handler takes it."""

    number: int


def test_a_typed_task_from_a_shell() -> None:
    """The payload that the README shows fits the handler that it shows."""
    seen: list[Invoice] = []
    with one_server() as engine, Queue("invoices", redis_url=engine.url) as queue:

        @queue.task(side_effect="idempotent", lease_duration=60, max_attempts=5)
        async def send_invoice(lease: AsyncLease, invoice: Invoice) -> None:
            seen.append(invoice)

        program, *arguments = shlex.split(command("typed-enqueue"))
        assert program == "redislease"
        task_id = CommandLine(engine.url, "elsewhere").expect(0, *arguments).out.strip()
        with working(queue):
            send_invoice.wait(task_id, 10)
    assert seen == [Invoice(number=42)]


def test_the_readme_has_both_commands() -> None:
    assert "pytest" in command("test-command")
    assert "demo" in command("demo-command")
    assert README.parent == ROOT


def test_a_command_is_the_block_behind_its_comment(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(FIXTURE)
    assert command("test-command", readme) == "one && \\\ntwo\n"
    assert command("demo-command", readme) == "three\n"
    with pytest.raises(LookupError, match="no fenced block"):
        command("bare", readme)
    with pytest.raises(LookupError, match="0 comments"):
        command("absent", readme)
