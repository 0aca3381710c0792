"""The program `redislease` as the tests run it: in this process for speed, as a process where that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from redislease.cli.program import run


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class CommandLine:
    """The program, aimed at one queue.

    Args:
        url: Its server.
        queue: Its queue.
    """

    def __init__(self, url: str, queue: str) -> None:
        self.environment = {
            "REDISLEASE_URL": url,
            "REDISLEASE_QUEUE": queue,
            "REDISLEASE_BY": "tester",
            "COLUMNS": "200",
        }

    def __call__(self, *arguments: str, stdin: bytes | str = b"", **environment: str | None) -> Result:
        """Runs it in this process."""
        with CliRunner().isolation(input=stdin, env={**self.environment, **environment}) as (out, err, _):
            code = run(arguments)
            return Result(code, out.getvalue().decode(), err.getvalue().decode())

    def expect(self, code: int, *arguments: str, stdin: bytes | str = b"", **environment: str | None) -> Result:
        """Runs it, and checks its exit code and that nobody sees a traceback."""
        result = self(*arguments, stdin=stdin, **environment)
        assert result.code == code, result
        assert "Traceback" not in result.out + result.err
        if code:
            assert result.err.startswith("redislease: "), result
        return result

    def process_environment(self, **environment: str) -> dict[str, str]:
        """The environment of a run as a process."""
        return {**os.environ, **self.environment, **environment}

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Starts it as a process."""
        options.setdefault("env", self.process_environment())
        return subprocess.Popen([sys.executable, "-m", "redislease.cli", *arguments], **options)
