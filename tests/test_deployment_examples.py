"""The systemd units and Kubernetes manifests of `examples/` fit the program that they start."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from redislease.cli.program import program
from redislease.cli.session import Session
from redislease.health import address
from redislease.worker.worker import AFTER_GRACE_S, GRACE_S

EXAMPLES = Path(__file__).parent.parent / "examples"
UNITS = sorted((EXAMPLES / "systemd").glob("*.service"))
MANIFESTS = sorted((EXAMPLES / "kubernetes").glob("*.yaml"))


def parsed(arguments: list[str]) -> dict[str, Any]:
    """The parameters of a command line of the program; one that it does not accept is an error."""
    verb, *rest = arguments
    context = click.Context(program, obj=Session())
    command = program.get_command(context, verb)
    assert command is not None
    with command.make_context(verb, rest, parent=context) as made:
        return made.params


def unit(path: Path) -> configparser.RawConfigParser:
    """A unit file."""
    parser = configparser.RawConfigParser(strict=True, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


def needs_s(parameters: dict[str, Any]) -> float:
    """How long the program may take to end after SIGTERM."""
    if "targets" not in parameters:
        return 10.0
    return float(parameters["grace_s"] or GRACE_S) + 2 * AFTER_GRACE_S


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units(path: Path) -> None:
    service = unit(path)["Service"]
    program_path, *arguments = shlex.split(service["ExecStart"].replace("%i", "1").replace("%H", "host"))
    assert program_path.endswith("/redislease")
    parameters = parsed(arguments)
    assert float(service["TimeoutStopSec"]) > needs_s(parameters)
    assert service["KillSignal"] == "SIGTERM"
    assert service["Restart"] == "always"
    address(parameters["listen"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_units(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / path.name.replace("@", "@1")
    text = path.read_text(encoding="utf-8").replace("/opt/app/.venv/bin/redislease", "/bin/true")
    copy.write_text(text, encoding="utf-8")
    result = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    deployment = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    template = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert container["command"] == ["redislease"], "a shell in between would keep SIGTERM"
    parameters = parsed(container["args"])
    assert template["spec"]["terminationGracePeriodSeconds"] > needs_s(parameters)
    host, port = address(parameters["listen"])
    assert host == "0.0.0.0"
    assert container["ports"] == [{"name": "http", "containerPort": port}]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    assert container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert "httpGet" not in container["livenessProbe"]
    names = {variable["name"] for variable in container["env"]}
    assert "REDISLEASE_URL" in names
    assert {one[2:-1] for one in container["args"] if one.startswith("$(")} <= names


def test_there_is_an_example_of_each() -> None:
    assert {"worker", "reaper"} <= {path.stem for path in MANIFESTS}
    assert {"redislease-worker@", "redislease-reaper"} <= {path.stem for path in UNITS}
