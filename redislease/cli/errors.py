"""Exit codes, and errors as a person or a program reads them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import click

from redislease.errors import (
    ConfigurationError,
    InvalidInput,
    LeaseLost,
    RedisLeaseError,
    ServerError,
    TaskUnknown,
    WorkerUnknown,
)


class ExitCode(IntEnum):
    """What the program ends with."""

    DONE = 0
    REFUSED = 1
    """By the state of things: a conflict, a pause, a decision that somebody made before."""
    USAGE = 2
    """Wrong usage or input."""
    LEASE_LOST = 3
    NOTHING = 4
    """There is nothing there: no such task or worker, nothing to claim."""
    SERVER = 5
    """The server is unreachable or unable."""
    FOUND = 6
    """A check found something."""
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    """Nobody reads the output any more; what was not printed may not have been done."""


_CODES: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (LeaseLost, ExitCode.LEASE_LOST),
    (TaskUnknown, ExitCode.NOTHING),
    (WorkerUnknown, ExitCode.NOTHING),
    (InvalidInput, ExitCode.USAGE),
    (ConfigurationError, ExitCode.USAGE),
    (ServerError, ExitCode.SERVER),
    (RedisLeaseError, ExitCode.REFUSED),
    (click.ClickException, ExitCode.USAGE),
    (OSError, ExitCode.USAGE),
)
"""The first row that fits decides."""

_WORST_FIRST = (ExitCode.SERVER, ExitCode.USAGE, ExitCode.LEASE_LOST, ExitCode.REFUSED, ExitCode.NOTHING)


def exit_code(error: BaseException) -> ExitCode:
    """The exit code that an error means; one that nobody foresaw counts as unable."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.SERVER)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of many answers: wrong input first, then lost leases, refusals, and what is not there."""
    met = set(codes)
    return next((code for code in _WORST_FIRST if code in met), ExitCode.DONE)


def message(error: BaseException) -> str:
    """What to tell a person."""
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        where = context.command_path.partition(" ")[2] if context else ""
        said = " ".join(error.format_message().split())  # click breaks some of its lines
        return f"{where}: {said}" if where else said
    if isinstance(error, RedisLeaseError | OSError):
        return str(error)
    return f"a fault in redislease itself: {type(error).__name__}: {error}"


def describe(error: BaseException) -> dict[str, Any]:
    """An error as `--json` prints it: its kind, its message, and what else it knows (id, reason, status ...)."""
    details = {
        "id" if name == "task_id" else name: value
        for name, value in vars(error).items()
        if isinstance(error, RedisLeaseError) and isinstance(value, str | int) and value != ""
    }
    return {"error": type(error).__name__, "message": message(error), **details}
