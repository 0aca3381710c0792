"""The program: lists the verbs, loads the one that was asked for, and turns whatever happens into an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import click

from redislease.cli import errors, options, output
from redislease.cli.errors import ExitCode
from redislease.cli.session import Session

NAME = "redislease"


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is, and what `--help` says about it.

    Attributes:
        where: Module and name of its click command.
        about: The first sentence of its own help.
    """

    where: str
    about: str

    @property
    def module(self) -> str:
        """The module alone."""
        return self.where.partition(":")[0]

    def present(self) -> bool:
        """Whether this installation has it."""
        try:
            return find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False

    def load(self) -> click.Command:
        """Imports it."""
        command: click.Command = getattr(import_module(self.module), self.where.partition(":")[2])
        return command


def _here(where: str, about: str) -> Verb:
    return Verb(f"redislease.cli.{where}", about)


SECTIONS: dict[str, dict[str, Verb]] = {
    "To start": {
        "demo": Verb(
            "redislease.demo.command:demo", "Stop a worker, recover its task, and let the first one try everything."
        ),
    },
    "Producers": {
        "enqueue": _here("producing:enqueue", "Stores a task, or many."),
    },
    "Workers": {
        "worker": _here("worker:worker", "Runs the handlers of one or several queues."),
        "exec": _here("exec:exec_command", "Runs a program for each task."),
        "register": _here("holding:register", "Registers an identity to claim as."),
        "claim": _here("holding:claim", "Leases tasks."),
        "renew": _here("holding:renew", "Extends leases."),
        "progress": _here("holding:progress", "Reports how far the work is."),
        "complete": _here("holding:complete", "Ends leases: the work is done."),
        "fail": _here("holding:fail", "Ends leases: the attempt failed."),
        "release": _here("holding:release", "Gives leases back."),
    },
    "Looking": {
        "queues": _here("looking:queues", "Lists the queues."),
        "stats": _here("looking:stats", "Shows a queue at a glance."),
        "tasks": _here("looking:tasks", "Lists the tasks of a state."),
        "show": _here("looking:show", "Shows a task."),
        "why": _here("looking:why", "Says where a task is, and what moves it."),
        "evidence": _here("history:evidence", "Shows what happened to a task."),
        "watch": _here("following:watch", "Shows what is running, again and again."),
        "tail": _here("following:tail", "Shows what happens to a task as it happens."),
        "workers": _here("looking:workers", "Lists registered workers."),
        "audit": _here("history:audit", "Lists what operators decided."),
        "check": _here("looking:check", "Compares every index with its tasks."),
    },
    "Deciding": {
        "reconcile": _here("reconciling:reconcile", "Decides tasks whose effects are in doubt."),
        "requeue": _here("operating:requeue", "Makes dead tasks ready again."),
        "cancel": _here("operating:cancel", "Cancels tasks for good."),
        "revoke": _here("operating:revoke", "Takes leases away."),
        "pause": _here("operating:pause", "Stops claims."),
        "resume": _here("operating:resume", "Ends a pause."),
        "reaper": _here(
            "reaper:reaper", "Recovers expired leases, promotes due tasks and deletes what has outlived its retention."
        ),
        "reap": _here("sweeping:reap", "Recovers expired leases."),
        "purge": _here("sweeping:purge", "Deletes what has outlived its retention."),
    },
    "Inside": {
        "lua": _here("lua:lua", "Prints a script as the server gets it."),
    },
}

_VERBS = {name: verb for section in SECTIONS.values() for name, verb in section.items()}


class Verbs(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, verb in _VERBS.items() if verb.present()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = _VERBS.get(cmd_name)
        return verb.load() if verb and verb.present() else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in SECTIONS.items():
            rows = [(name, verb.about) for name, verb in verbs.items() if verb.present()]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


@click.group(
    NAME,
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 refused by the state of things, 2 wrong usage or input, 3 lease lost, 4 nothing "
    "there, 5 server unreachable or unable, 6 check found something, 130 interrupted.",
)
@click.version_option(package_name=NAME, message="%(prog)s %(version)s")
@options.before_the_verb
def program() -> None:
    """A lease queue on Redis for work with consequences."""


def run(arguments: Sequence[str]) -> int:
    """Runs the program with some arguments, and returns its exit code."""
    if f"_{NAME.upper()}_COMPLETE" in os.environ:
        program.main(prog_name=NAME)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # An encoding that lacks a character shows it as an escape.
            stream.reconfigure(errors="backslashreplace")
    try:
        with closing(Session()) as session:
            code = _invoke(arguments, session)
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        # Else the interpreter would try to write the rest once more, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.CLOSED_PIPE
    return code


def _invoke(arguments: Sequence[str], session: Session) -> int:
    try:
        with program.make_context(NAME, list(arguments), obj=session) as context:
            return int(program.invoke(context) or ExitCode.DONE)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        raise
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except Exception as error:  # noqa: BLE001 - no traceback reaches a person
        if os.environ.get("REDISLEASE_TRACEBACK"):
            traceback.print_exception(error)
        return report(error, session)


def report(error: Exception, session: Session) -> int:
    """Tells what went wrong, also to a program that asked for JSON, and answers the exit code."""
    output.complain(errors.message(error))
    if session.format != "text":
        output.write(output.document(errors.describe(error)))
    return errors.exit_code(error)
