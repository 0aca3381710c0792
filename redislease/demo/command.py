"""The command `redislease demo`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from redislease.cli import output
from redislease.cli.errors import ExitCode, exit_code
from redislease.cli.options import pass_session
from redislease.cli.session import Session
from redislease.connection.urls import parse_url
from redislease.demo import acts
from redislease.demo.process import WorkerSilent
from redislease.demo.record import Record
from redislease.demo.rendering import Timeline
from redislease.demo.stage import Stage
from redislease.errors import ConfigurationError, RedisLeaseError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("demo")
@click.option("--url", metavar="URL", help="Run on this server, in a queue of its own. Default: a private server.")
@click.option("--json", "as_json", is_flag=True, help="Print events and checks as one JSON document.")
@pass_session
@click.pass_context
def demo(context: click.Context, session: Session, url: str | None, as_json: bool) -> int:
    """Stop a worker, recover its task, and let the first one try everything.

    Real processes on a real server: worker A is stopped by SIGSTOP, its lease ends, worker B takes the task over, and A
    goes on. Everything that A may no longer do is tried. Then a worker dies in the middle of a payment.

    It starts a private server and removes it; REDISLEASE_URL does not count here. With --url, its keys are removed.

    Exit code 0: everything was refused that had to be, each for the right reason. 1: something was not, and is named.
    """
    if url is None and _was_typed(context.parent, "url"):
        url = session.url
    try:
        with _interruptible():
            return _run(url, session.timeout_s, as_json or session.format != "text")
    except _Interrupted:
        output.complain("interrupted")
        return ExitCode.INTERRUPTED


def _was_typed(context: click.Context | None, option: str) -> bool:
    return context is not None and context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


def _run(url: str | None, patience_s: float, as_json: bool) -> ExitCode:
    if url is not None and parse_url(url).scheme == "memory":
        raise ConfigurationError("the demonstration needs a server that several processes can reach")
    timeline = None if as_json else Timeline()
    record = Record(timeline.show, timeline.heading) if timeline else Record()
    engine, problem, code = "", "", ExitCode.DONE
    try:
        with Stage(url, patience_s=patience_s) as stage:
            engine = stage.engine
            if timeline:
                timeline.begin(engine)
            _perform(stage, record)
    except acts.Stopped:
        problem = "The demonstration ended here, because what comes next would make no sense."
    except WorkerSilent as silence:
        problem, code = str(silence), ExitCode.REFUSED
    except RedisLeaseError as error:
        problem, code = str(error), exit_code(error)
    if record.failures:
        code = ExitCode.REFUSED
    if timeline:
        timeline.end(record, problem)
    else:
        output.write(output.document(_as_data(record, engine, problem, code)))
    return code


def _perform(stage: Stage, record: Record) -> None:
    a, b, c = stage.start("A", "B", "C")
    acts.StaleWorker(stage, record, a, b).play()
    acts.DoubtfulPayment(stage, record, b, c).play()


def _as_data(record: Record, engine: str, problem: str, code: int) -> dict[str, object]:
    return {
        "engine": engine,
        "duration_s": round(record.elapsed_s, 3),
        "events": [event.as_data() for event in record.events],
        "checks": [event.as_check() for event in record.checks],
        "failed": [event.fault for event in record.failures],
        "problem": problem or None,
        "exit": int(code),
    }


class _Interrupted(BaseException):
    """A signal asked the demonstration to end."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turns the first signal into an exception, so that everything is cleaned up, and ignores those that follow."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        raise _Interrupted

    before = {one: signal.getsignal(one) for one in _SIGNALS}
    for one, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
