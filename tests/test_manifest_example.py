"""`examples/manifest` on hundreds of files of the standard library, with a worker that is killed in the middle."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from program import Mark, marked, one_server, redislease, run
from servers import Engine, wait_until

from redislease import Queue

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "manifest"
FILES = 240
LEASE_S = 2
AWKWARD = (b"a space", b"a\nnewline", b"newline at the end\n", b"back\\slash", b"\xff\xfe", b"-dash", "ä".encode())
pytestmark = pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")


@pytest.fixture(scope="module")
def server() -> Iterator[Engine]:
    """One server program for the module."""
    with one_server() as engine:
        yield engine


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the standard library, and some with awkward names."""
    library = Path(sysconfig.get_path("stdlib"))
    root = tmp_path_factory.mktemp("tree")
    found = (path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts)
    for source in islice(found, FILES):
        target = root / source.relative_to(library)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    for name in AWKWARD:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(name)
    return root


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Mark]:
    """The processes of the test; none of them outlives it."""
    with marked(tmp_path) as made:
        yield made
        made.wait_gone()


class Manifest:
    """The example at work on one queue."""

    def __init__(self, mark: Mark, server: Engine, queue: Queue, tree: Path) -> None:
        self.mark = mark
        self.queue = queue
        self.tree = tree
        # The scripts call `redislease` and `python3`: those of this environment.
        tools = mark.directory / "bin"
        tools.mkdir()
        (tools / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (tools / "redislease").write_text(f'#!/bin/sh\nexec {" ".join(redislease())} "$@"\n')
        for tool in tools.iterdir():
            tool.chmod(0o755)
        self.environment = {
            **mark.environment,
            "REDISLEASE_URL": server.url,
            "REDISLEASE_QUEUE": queue.name,
            "PATH": f"{tools}:{os.environ['PATH']}",
        }

    def python(self, script: str, *arguments: str) -> bytes:
        """Runs one of the example's scripts."""
        return subprocess.run(
            [sys.executable, str(EXAMPLE / script), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            check=True,
            timeout=30,
        ).stdout

    def enqueue(self, *options: str) -> None:
        """One task for each file."""
        lines = self.python("list_files.py", str(self.tree)).decode()
        done = run(self.mark, "enqueue", *options, "--jsonl", "-", input=lines, env=self.environment)
        assert done.returncode == 0, done.stderr

    def start_worker(self, name: str) -> subprocess.Popen[str]:
        """A worker that waits long enough for what a dead one leaves behind."""
        options = ["--drain", "--wait", str(4 * LEASE_S), "--concurrency", "2", "--name", name]
        return subprocess.Popen(
            redislease("exec", *options, "--", str(EXAMPLE / "hash.sh"), str(self.tree)),
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def expected(self) -> bytes:
        """What `sha256sum` itself says."""
        files = (path for path in self.tree.rglob("*") if path.is_file())
        names = sorted(os.fsencode(path.relative_to(self.tree)) for path in files)
        assert len(names) == FILES + len(AWKWARD)
        return subprocess.run(["sha256sum", "--", *names], cwd=self.tree, stdout=subprocess.PIPE, check=True).stdout


@pytest.fixture
def manifest(mark: Mark, server: Engine, queue_name: str, tree: Path) -> Iterator[Manifest]:
    """The example on a queue of the test's own."""
    with Queue(queue_name, redis_url=server.url) as queue:
        yield Manifest(mark, server, queue, tree)


def kill_in_the_middle(manifest: Manifest, victim: subprocess.Popen[str], name: str) -> set[str]:
    """Kills a worker at a random moment at which it holds a lease, and answers what it held."""
    share = random.uniform(0.1, 0.5)
    wait_until(lambda: manifest.queue.stats().states["completed"] > share * FILES, 60, what="some of the work")
    while True:
        victim.send_signal(signal.SIGSTOP)
        leased = manifest.queue.tasks("leased", limit=1000)
        held = {task.id for task in leased if (task.lease_owner or "").startswith(f"{name}-")}
        if held:
            victim.kill()
            return held
        victim.send_signal(signal.SIGCONT)
        time.sleep(random.uniform(0.01, 0.05))


def test_with_a_worker_that_dies(manifest: Manifest) -> None:
    """The manifest is what sha256sum says, and each file was hashed to the end once."""
    manifest.enqueue("--lease", str(LEASE_S))
    refused = subprocess.run(
        [sys.executable, str(EXAMPLE / "collect.py")], env=manifest.environment, capture_output=True, check=False
    )
    assert refused.returncode == 1
    assert f"not done yet: {FILES + len(AWKWARD)} ready".encode() in refused.stderr

    names = ("victim", "second", "third")
    workers = {name: manifest.start_worker(name) for name in names}
    try:
        held = kill_in_the_middle(manifest, workers["victim"], "victim")
        manifest.enqueue()  # adds nothing, also while the work is under way
        endings = {name: (worker.communicate(timeout=90)[1], worker.returncode) for name, worker in workers.items()}
    finally:
        for worker in workers.values():
            with worker:
                worker.kill()
    assert {name: code for name, (_, code) in endings.items()} == {
        "victim": -signal.SIGKILL,
        "second": 0,
        "third": 0,
    }, endings

    queue = manifest.queue
    assert manifest.python("collect.py") == manifest.expected()
    for task_id in held:
        again = queue.get(task_id)
        assert again.status == "completed"
        assert again.claim_generation >= 2
    counters = queue.stats().counters
    assert counters["completed"] == counters["enqueued"] == FILES + len(AWKWARD)
    assert counters["expired"] >= len(held)


def test_in_batches(manifest: Manifest) -> None:
    """The same by claim and complete, 100 leases at a time."""
    manifest.enqueue()
    done = subprocess.run(
        [str(EXAMPLE / "batches.sh"), str(manifest.tree)],
        env=manifest.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert manifest.python("collect.py") == manifest.expected()
    assert manifest.queue.stats().counters["claimed"] == FILES + len(AWKWARD)


def test_a_file_that_cannot_be_read(manifest: Manifest) -> None:
    """It is no hole in the manifest: its task fails, and the manifest is refused."""
    manifest.queue.enqueue("hash", {"path": "bm8tc3VjaA=="}, side_effect="read_only", max_attempts=1)
    done = run(
        manifest.mark, "exec", "--drain", "--", str(EXAMPLE / "hash.sh"), str(manifest.tree), env=manifest.environment
    )
    assert done.returncode == 0
    assert "no-such: No such file or directory" in done.stderr or "cannot open" in done.stderr
    assert manifest.queue.stats().states["dead"] == 1
    refused = subprocess.run(
        [sys.executable, str(EXAMPLE / "collect.py")], env=manifest.environment, capture_output=True, check=False
    )
    assert (refused.returncode, refused.stderr) == (1, b"not done yet: 1 dead\n")
