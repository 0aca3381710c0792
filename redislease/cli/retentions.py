"""The options that say how long ended tasks are kept: the same for `purge` and `reaper`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from redislease.errors import InvalidInput
from redislease.reaper.retention import Retention

F = TypeVar("F", bound=Callable[..., Any])

NEVER = "never"
"""What is typed where a state is to be kept for ever."""

DAY_S = 86_400


def _retention(_: click.Context, __: click.Parameter, value: str | None) -> Any:
    """Seconds, or `never`; None where the option was not given."""
    if value is None or value == NEVER:
        return value
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"seconds, or {NEVER}, not {value!r}") from None


def _evidence(_: click.Context, __: click.Parameter, value: str | None) -> float:
    try:
        return Retention(evidence=Retention().evidence if value is None else float(value)).evidence
    except ValueError as problem:
        said = str(problem) if isinstance(problem, InvalidInput) else f"seconds, not {value!r}"
        raise click.BadParameter(said) from None


def _default(seconds: float | None) -> str:
    if seconds is None:
        return NEVER
    return f"{seconds / DAY_S:g} days" if seconds >= DAY_S else f"{seconds:g}"


def _keeps(state: str) -> Callable[[F], F]:
    kept = _default(getattr(Retention(), state))
    help_text = f"Seconds for which {state} tasks are kept ({kept})."
    return click.option(f"--{state}", callback=_retention, metavar=f"S|{NEVER}", help=help_text)


def retentions(command: F) -> F:
    """The options `--completed`, `--cancelled`, `--dead` and `--evidence`."""
    evidence = click.option(
        "--evidence",
        callback=_evidence,
        metavar="S",
        help="Seconds for which evidence outlives its task; 0 deletes it with the task "
        f"({_default(Retention().evidence)}).",
    )
    for option in (evidence, _keeps("dead"), _keeps("cancelled"), _keeps("completed")):
        command = option(command)
    return command


def seconds(value: float | str | None) -> float | None:
    """A retention as the library takes it: None for `never` and for what was not given."""
    return None if value is None or isinstance(value, str) else value


def or_default(state: str, value: float | str | None) -> float | None:
    """A retention, or the default of a state that was not named."""
    default: float | None = getattr(Retention(), state)
    return default if value is None else seconds(value)
