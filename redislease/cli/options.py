"""The options that verbs share; each may stand before or after the verb, and the later one counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from redislease.cli.session import PATIENCE_S, Session

F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A finite number of seconds."""

    name = "seconds"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """Refuses NaN and infinities, which compare as no range expects."""
        seconds = float(super().convert(value, parameter, context))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds.", parameter, context)
        return seconds


def pass_session(command: F) -> F:
    """Gives a command the `Session` as its first argument."""
    passing: Callable[[Any], Any] = click.make_pass_decorator(Session, ensure=True)
    decorated: F = passing(command)
    return decorated


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None and parameter.name:
        setattr(context.ensure_object(Session), parameter.name, value)


def _shared(*names: str, **settings: Any) -> Callable[[F], F]:
    """An option whose value goes to the session."""
    return click.option(*names, callback=_keep, expose_value=False, default=None, **settings)


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    def apply(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def _queue(**environment: str) -> Callable[[F], F]:
    return _all(
        _shared("--queue", "-q", "queue_name", metavar="NAME", help="The queue.", envvar=environment.get("queue")),
        _shared("--url", metavar="URL", help="The server: redis://HOST:PORT/DB.", envvar=environment.get("url")),
        _shared("--prefix", metavar="TEXT", help="What the key names start with."),
        _shared(
            "--timeout",
            "timeout_s",
            type=Seconds(min=0),
            metavar="S",
            help=f"Seconds to try a server that cannot be reached ({PATIENCE_S:g}).",
        ),
    )


_json = _shared("--json", "format", flag_value="json", is_eager=True, help="Print one JSON document.")
_jsonl = _shared("--jsonl", "format", flag_value="jsonl", is_eager=True, help="Print JSON Lines.")


def _signature(**environment: str) -> Callable[[F], F]:
    return _all(
        _shared("--by", metavar="WHO", help="Who decides (REDISLEASE_BY, or you).", envvar=environment.get("by")),
        _shared("--reason", metavar="TEXT", help="Why."),
    )


before_the_verb = _all(
    _queue(queue="REDISLEASE_QUEUE", url="REDISLEASE_URL"), _json, _jsonl, _signature(by="REDISLEASE_BY")
)
"""All shared options, and the environment variables behind them."""

common = _all(_queue(), _json, _jsonl)
"""The options of a verb that looks or works."""

signed = _all(common, _signature())
"""The options of a verb by which an operator decides."""


def _keep_source(context: click.Context, _: click.Parameter, value: Any) -> Any:
    session = context.ensure_object(Session)
    if value is not None and session.format != "json":
        session.format = "jsonl"
    return value


batched = _all(
    _queue(),
    _json,
    click.option(
        "--jsonl",
        "source",
        type=click.File("rb"),
        metavar="FILE|-",
        callback=_keep_source,
        help="Take JSON Lines from a file or standard input, and answer each with a line.",
    ),
)
"""The options of a verb that takes one thing from the command line, or many as JSON Lines."""
