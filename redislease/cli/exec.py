"""The verb `exec`: a program of any language as a worker."""

from __future__ import annotations

import signal
from dataclasses import asdict

import click

from redislease.cli import options, output
from redislease.cli.errors import ExitCode
from redislease.cli.session import Session
from redislease.exec.program_file import cannot_run
from redislease.exec.runner import CommandNotStarted, Report, TaskRunner, Verdict
from redislease.exec.slots import Slots, Until
from redislease.exec.stop import StopOrder
from redislease.exec.watchdog import Watchdog
from redislease.queue import Queue

GRACE_S = 25.0
PUT_OFF_S = 30.0
CONCURRENCY_MAX = 50

_CODES = {
    Verdict.DONE: ExitCode.DONE,
    Verdict.FAILED: ExitCode.REFUSED,
    Verdict.PUT_OFF: ExitCode.REFUSED,
    Verdict.INTERRUPTED: ExitCode.INTERRUPTED,
    Verdict.LOST: ExitCode.LEASE_LOST,
    Verdict.UNKNOWN: ExitCode.SERVER,
}


@click.command("exec", context_settings={"allow_interspersed_args": False})
@click.option("--once", "until", flag_value=Until.ONCE, type=Until, help="Run one task and end.")
@click.option("--drain", "until", flag_value=Until.DRAINED, type=Until, help="End when nothing is ready.")
@click.option(
    "--wait",
    "wait_s",
    type=options.Seconds(0, 86_400),
    default=0.0,
    metavar="S",
    help="With --once or --drain: seconds to wait for a task.",
)
@click.option(
    "--concurrency", "-c", type=click.IntRange(1, CONCURRENCY_MAX), default=1, metavar="N", help="Commands at once (1)."
)
@click.option("--name", metavar="NAME", help="What this worker's identity starts with; host and process by default.")
@click.option(
    "--grace",
    "grace_s",
    type=options.Seconds(0, 86_400),
    default=GRACE_S,
    metavar="S",
    help=f"Seconds between SIGTERM and SIGKILL when this program is to end ({GRACE_S:g}).",
)
@click.option(
    "--put-off",
    "delay_s",
    type=options.Seconds(0, 86_400),
    default=PUT_OFF_S,
    metavar="S",
    help=f"Seconds until a task is ready again after its first exit status 75 ({PUT_OFF_S:g}).",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@options.common
@options.pass_session
def exec_command(
    session: Session,
    until: Until | None,
    wait_s: float,
    concurrency: int,
    name: str | None,
    grace_s: float,
    delay_s: float,
    command: tuple[str, ...],
) -> ExitCode:
    """Runs a program for each task.

    The payload comes as JSON on its standard input, the lease in its environment: REDISLEASE_QUEUE, _URL, _TASK_ID,
    _TASK_NAME, _OWNER, _GENERATION, _FENCING_TOKEN, _IDEMPOTENCY_KEY, _ATTEMPT and _HANDLE. The lease is renewed while
    it runs.

    \b
    Exit status 0   the task is completed, also after a SIGTERM: a program that stops half-way must end with another
                    status; standard output is the result: JSON, else text, else (not UTF-8) {"base64": "..."}; what
                    is larger than 1 MiB, as it is stored, fails the attempt
    Exit status 75  nothing was done, and it cannot be done now: the task waits for --put-off seconds, and twice as
                    long each further time, up to 10 minutes; given back as often as it may fail, it has failed
    any other       the attempt failed, with the end of standard error

    A lost lease ends the program and all that it started: SIGTERM, and SIGKILL 2 s later. SIGTERM or SIGINT to this
    process is passed on, with SIGKILL --grace seconds later, and an unfinished task is given back; a second one kills
    at once. Should this process be killed itself, the program is killed too, unless it has left its process group.

    Ends with 0 when it is told to by SIGTERM, or with --drain when nothing is ready. With --once: 0 the task is
    completed, 1 it failed or was put off, 3 its lease was lost, 4 there was none.
    """
    until = until or Until.FOREVER
    if until is Until.ONCE and concurrency > 1:
        raise click.UsageError("--once runs one task: --concurrency does not go with it")
    if not session.queue_name:
        raise click.UsageError("which queue? Type --queue NAME, or set REDISLEASE_QUEUE")
    if problem := cannot_run(command[0]):
        raise click.UsageError(problem)
    reports: list[Report] = []
    stop = StopOrder()

    def say(report: Report) -> None:
        if until is Until.ONCE:
            reports.append(report)
        if session.format != "text":
            output.write(output.document(asdict(report)))
        elif report.verdict is not Verdict.DONE:
            output.complain(_sentence(report))

    with (
        Queue(
            session.queue_name,
            redis_url=session.server,
            prefix=session.prefix,
            worker_name=name,
            retry_for_s=session.timeout_s,
        ) as queue,
        Watchdog() as watchdog,
        stop.on_signals(),
    ):
        # Says at once what is wrong with the server, before the loops that have patience with it.
        queue.claim(0)
        runner = TaskRunner(queue, session.server, command, watchdog, stop, grace_s=grace_s, delay_s=delay_s)
        slots = Slots(queue, runner, stop, until=until, wait_s=wait_s, say=say, complain=output.complain)
        try:
            slots.run(concurrency)
        except CommandNotStarted as not_started:
            output.complain(str(not_started))
            return ExitCode.USAGE
        stats = queue.stats() if until is not Until.FOREVER and stop.signal is None and not reports else None
    if until is Until.ONCE and reports:
        return _CODES[reports[0].verdict]
    if stop.signal is not None:
        return ExitCode.DONE if stop.signal == signal.SIGTERM and until is Until.FOREVER else ExitCode.INTERRUPTED
    if stats and stats.pause:
        output.complain(f"queue {session.queue_name} is paused ({stats.pause})")
        return ExitCode.REFUSED
    if stats and until is Until.ONCE:
        output.complain(session.nothing_ready(stats))
        return ExitCode.NOTHING
    return ExitCode.DONE


def _sentence(report: Report) -> str:
    now = f", now {report.status}" if report.status else ""
    detail = f": {report.detail}" if report.detail else ""
    return f"{report.id} {report.verdict}{now}{detail}"
