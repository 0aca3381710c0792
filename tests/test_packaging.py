"""What is published: the wheel works without the checkout, and the source archive makes the same wheel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import version
from pathlib import Path

import pytest

from redislease.scripts import shipped

ROOT = Path(__file__).resolve().parents[1]

LOAD_EVERYTHING = """
import importlib, json, pkgutil, redislease
from redislease.scripts import lua_directory, shipped
found = pkgutil.walk_packages(redislease.__path__, "redislease.")
modules = [module.name for module in found if "__main__" not in module.name]
for module in modules:
    importlib.import_module(module)
library = shipped()
print(json.dumps({
    "file": redislease.__file__,
    "lua": str(lua_directory()),
    "shas": {name: library[name].sha for name in library.names()},
    "modules": modules,
}))
"""


def run(*command: object, cwd: Path) -> str:
    """Runs a program that does not see the checkout, and returns what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def build(source: Path, target: Path, *what: str) -> list[Path]:
    """Builds with the hatchling that is installed, so that nothing is downloaded."""
    run(sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", target, source, cwd=target)
    return sorted(target.iterdir())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    [built] = build(ROOT, tmp_path_factory.mktemp("wheel"), "--wheel")
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive of the checkout."""
    [built] = build(ROOT, tmp_path_factory.mktemp("sdist"), "--sdist")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that holds the wheel, and what it depends on by way of this one's packages."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=environment)
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=environment).strip()
    )
    # A directory that a .pth file names does not have its own .pth files read: the editable install stays outside.
    (packages / "dependencies.pth").write_text(
        "\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    )
    return environment / "bin"


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: Path) -> Message:
    """What the wheel says about itself."""
    [name] = [name for name in contents(wheel) if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(contents(wheel)[name])


def test_the_installed_wheel_loads_every_script(installed: Path, tmp_path: Path) -> None:
    found = json.loads(run(installed / "python", "-c", LOAD_EVERYTHING, cwd=tmp_path))
    assert Path(found["file"]).is_relative_to(installed.parent)
    assert Path(found["lua"]).is_relative_to(installed.parent)
    assert found["shas"] == {name: shipped()[name].sha for name in shipped().names()}
    assert len(found["modules"]) > 20


def test_the_installed_wheel_works(installed: Path, tmp_path: Path) -> None:
    program = """
from redislease import Queue
with Queue("orders", redis_url="memory://packaging") as queue:
    queue.enqueue("work", {"number": 1}, side_effect="idempotent")
    with queue.claim_one() as lease:
        print(lease.payload["number"], lease.generation)
"""
    assert run(installed / "python", "-c", program, cwd=tmp_path).split() == ["1", "1"]


def test_the_installed_wheel_brings_its_command(installed: Path, tmp_path: Path) -> None:
    assert "Usage" in run(installed / "redislease", "--help", cwd=tmp_path)


def test_the_wheel_holds_what_is_needed_and_nothing_else(wheel: Path) -> None:
    names = set(contents(wheel))
    assert "redislease/py.typed" in names
    assert {f"redislease/lua/{name}.lua" for name in shipped().names()} <= names
    assert "redislease/lua/lib/defaults.lua" in names
    assert {name.split("/")[0] for name in names} == {"redislease", f"redislease-{version('redislease')}.dist-info"}
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert not [name for name in names if "__pycache__" in name]


def test_the_metadata_says_what_it_is(wheel: Path) -> None:
    stated = metadata(wheel)
    assert stated["Name"] == "redislease"
    assert stated["Version"] == version("redislease")
    assert stated["Requires-Python"] == ">=3.11"
    assert stated["License-Expression"] == "MIT"
    assert {"memory", "embedded", "dev"} <= set(stated.get_all("Provides-Extra", []))
    needed = [line for line in stated.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(re.split(r"[\[<>=]", line)[0] for line in needed) == ["click", "pydantic", "redis", "rich"]


def test_the_source_archive_is_complete(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "tests/conftest.py"):
        assert name in names
    assert {f"lua/{name}.lua" for name in shipped().names()} <= names
    assert {f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py")} <= names
    assert {f"benchmarks/{path.name}" for path in (ROOT / "benchmarks").glob("*.py")} <= names


def test_the_source_archive_makes_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    target = tmp_path / "wheel"
    target.mkdir()
    [rebuilt] = build(source, target, "--wheel")
    assert rebuilt.name == wheel.name
    assert contents(rebuilt) == contents(wheel)
