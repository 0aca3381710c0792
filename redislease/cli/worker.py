"""The verb `worker`: runs the handlers of an application."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

from redislease.async_queue import AsyncQueue
from redislease.cli.errors import ExitCode
from redislease.errors import ConfigurationError
from redislease.queue import Queue
from redislease.worker.process import calm_collector
from redislease.worker.worker import GRACE_S, Worker

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def _broken(module_name: str, problem: Exception) -> ConfigurationError:
    """An application that cannot be imported: its own fault, told with the place where it happened."""
    where = traceback.extract_tb(problem.__traceback__)[-1]
    place = "" if isinstance(problem, SyntaxError) else f" ({where.filename}, line {where.lineno})"
    return ConfigurationError(
        f"{module_name} cannot be imported: {type(problem).__name__}: {problem}{place}; "
        "REDISLEASE_TRACEBACK=1 shows the way there"
    )


def load(target: str) -> Any:
    """The object that `MODULE:OBJECT` names; the current directory is searched first.

    Raises:
        click.UsageError: There is none.
        ConfigurationError: The module cannot be imported.
    """
    module_name, colon, path = target.partition(":")
    if not (module_name and colon and path):
        raise click.UsageError(f"{target!r} is not MODULE:OBJECT")
    here = os.getcwd()  # noqa: PTH109 - what goes into sys.path is a string
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name and module_name.split(".")[: len(problem.name.split("."))] == problem.name.split("."):
            raise click.UsageError(f"there is no module {problem.name!r}") from problem
        raise _broken(module_name, problem) from problem
    except Exception as problem:
        raise _broken(module_name, problem) from problem
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise click.UsageError(f"{module_name!r} has no {path!r}") from None
    return found


def queues_of(targets: Iterable[str]) -> Worker | list[Queue | AsyncQueue]:
    """The queues that the targets name, in order; or the one worker.

    Raises:
        click.UsageError: A target is neither a queue, nor a list of queues, nor a worker alone.
    """
    queues: list[Queue | AsyncQueue] = []
    named = list(targets)
    for target in named:
        found = load(target)
        if isinstance(found, Worker):
            if len(named) > 1:
                raise click.UsageError(f"{target} is a Worker, which knows its queues: name nothing beside it")
            return found
        several = list(found) if isinstance(found, list | tuple) else [found]
        if not several or not all(isinstance(one, Queue | AsyncQueue) for one in several):
            raise click.UsageError(f"{target} is a {type(found).__name__}: name a Queue, a list of queues, or a Worker")
        queues += several
    return queues


def _weights(_: click.Context, __: click.Parameter, value: str | None) -> list[float] | None:
    if value is None:
        return None
    try:
        return [float(part) for part in value.split(",")]
    except ValueError:
        raise click.BadParameter("numbers with commas between them, one for each queue") from None


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="MODULE:OBJECT...")
@click.option("--concurrency", "-c", type=int, metavar="N", help="Handlers at once (100; 16 with plain functions).")
@click.option("--grace", "grace_s", type=float, metavar="S", help=f"Seconds for handlers after SIGTERM ({GRACE_S:g}).")
@click.option("--name", metavar="NAME", help="What this worker's identities start with; host and process by default.")
@click.option(
    "--weights",
    callback=_weights,
    metavar="W,W...",
    help="Each queue's share of the places while several have work; without them an earlier queue goes first.",
)
@click.option("--listen", metavar="[HOST:]PORT", help="Answer /healthz there, and /metrics (extra `metrics`).")
@click.option("--log-level", default="INFO", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR (INFO).")
def worker(
    targets: tuple[str, ...],
    concurrency: int | None,
    grace_s: float | None,
    name: str | None,
    weights: list[float] | None,
    listen: str | None,
    log_level: str,
) -> ExitCode:
    """Runs the handlers of one or several queues.

    MODULE:OBJECT names a Queue, a list of queues, or a Worker in a Python module. SIGTERM and SIGINT stop claims and
    give handlers their grace; a second one ends the grace.
    """
    try:
        logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    except ValueError:
        raise click.UsageError(f"there is no log level {log_level!r}") from None
    found = queues_of(targets)
    if not isinstance(found, Worker):
        grace = GRACE_S if grace_s is None else grace_s
        found = Worker(found, concurrency=concurrency, grace=grace, name=name, weights=weights, listen=listen)
    elif any(value is not None for value in (concurrency, grace_s, name, weights, listen)):
        raise ConfigurationError("a Worker has its settings in the code: name its queues to set them here")
    calm_collector()
    found.run()
    if found.abandoned:
        # A handler that swallows everything would keep the interpreter from ending.
        logging.shutdown()
        os._exit(ExitCode.DONE)
    return ExitCode.DONE
