"""Runs the command for one lease, and settles the lease by how it ended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from redislease.commands.settle import release
from redislease.errors import InvalidInput, LeaseLost, ServerError, TaskUnknown
from redislease.exec.child import Child, Ended, Order
from redislease.exec.result import STDERR_BYTES, STDOUT_BYTES, error_of, result_of
from redislease.exec.stop import StopOrder
from redislease.exec.watchdog import Watchdog
from redislease.lease import Lease
from redislease.models import Settled
from redislease.queue import Queue

PUT_OFF_S_MAX = 600.0
"""How long a task waits at most that is put off again and again, unless the first wait is longer."""


class Verdict(StrEnum):
    """What became of one task."""

    DONE = "done"
    FAILED = "failed"
    PUT_OFF = "put off"
    """The command said that it cannot be done now (exit status 75)."""
    INTERRUPTED = "interrupted"
    LOST = "lost"
    UNKNOWN = "unknown"
    """The server could not be told in time; the lease ends on its deadline."""


@dataclass(frozen=True, slots=True)
class Report:
    """What to say about one task.

    Attributes:
        id: The task.
        name: Its name.
        verdict: What became of it here.
        status: Its state on the server afterwards, if it is known.
        detail: Why, in one line.
    """

    id: str
    name: str
    verdict: Verdict
    status: str | None = None
    detail: str = ""


def put_off_s(first_s: float, times: int) -> float:
    """How many seconds a task waits that was given back so many times before."""
    return min(first_s * 2.0 ** min(times, 40), max(first_s, PUT_OFF_S_MAX))


class CommandNotStarted(Exception):
    """The command cannot be started; the task was given back."""


class TaskRunner:
    """Runs one command for task after task; used by several threads.

    Args:
        queue: Where the tasks come from.
        url: The server's URL, for the command.
        command: Program and arguments.
        watchdog: Kills commands if this process dies.
        stop: The wish to end.
        grace_s: Seconds that a command has between SIGTERM and SIGKILL when this process is to end.
        delay_s: Seconds that a task waits after its first exit status 75.
    """

    def __init__(
        self,
        queue: Queue,
        url: str,
        command: Sequence[str],
        watchdog: Watchdog,
        stop: StopOrder,
        *,
        grace_s: float,
        delay_s: float,
    ) -> None:
        self._queue = queue
        self._url = url
        self._command = list(command)
        self._watchdog = watchdog
        self._stop = stop
        self._grace_s = grace_s
        self._delay_s = delay_s

    def run(self, lease: Lease) -> Report:
        """Runs the command for one lease and settles it.

        Raises:
            CommandNotStarted: It cannot be started.
        """
        try:
            payload = json.dumps(lease.payload, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        except InvalidInput as problem:
            text = str(problem)
            return self._settle(lease, Verdict.FAILED, lambda: lease.fail(text, retry=False, not_done=True), text)
        with self._queue.keep_alive(lease):
            try:
                child = Child(
                    self._command,
                    environment_of(lease, self._url),
                    payload,
                    self._watchdog,
                    stdout_limit=STDOUT_BYTES,
                    stderr_tail=STDERR_BYTES,
                )
            except (OSError, ValueError) as problem:
                self.give_back(lease)
                raise CommandNotStarted(f"cannot start {self._command[0]!r}: {_why_not(problem)}") from problem
            ended = child.wait(lambda: self._order(lease), self._grace_s)
        return self._conclude(lease, ended)

    def give_back(self, lease: Lease) -> None:
        """Returns a task for which nothing was started."""
        try:
            self._queue.run(release([lease.giving_back(never_started=True)]))
        except (LeaseLost, ServerError):
            return

    def _order(self, lease: Lease) -> Order:
        if lease.lost:
            return "lost"
        if self._stop.now:
            return "kill"
        return "stop" if self._stop.asked else ""

    def _conclude(self, lease: Lease, ended: Ended) -> Report:
        if lease.lost and (ended.order == "lost" or lease.lost_reason != "deadline"):
            # Also when the command was done in spite of it: without authority nothing is recorded. Only where nothing
            # but the local deadline has passed, the server has the last word.
            return self._report(lease, Verdict.LOST, detail=lease.lost_reason or "")
        error = error_of(ended.returncode, ended.stderr)
        if ended.returncode == 0:
            return self._complete(lease, ended)
        if ended.returncode == os.EX_TEMPFAIL:
            return self._put_off(lease, error)
        if ended.order:
            return self._settle(lease, Verdict.INTERRUPTED, lambda: lease.release(interrupted=True), error)
        return self._settle(lease, Verdict.FAILED, lambda: lease.fail(error), error)

    def _complete(self, lease: Lease, ended: Ended) -> Report:
        try:
            result = result_of(ended.stdout, overflow=ended.overflow)
            lease.completion(result)
        except InvalidInput as problem:
            text = str(problem)
            return self._settle(lease, Verdict.FAILED, lambda: lease.fail(text), text)
        return self._settle(lease, Verdict.DONE, lambda: lease.complete(result))

    def _put_off(self, lease: Lease, error: str) -> Report:
        """Lets the task wait, longer each time; too often put off, it failed.

        Without a bound a program that always ends so would be started for ever. What counts is how often the task was
        given back: the server keeps no other count, and an interruption more only makes the wait longer.
        """
        delay_s, too_often = self._delay_s, False
        with suppress(TaskUnknown, ServerError):  # the release itself tells better, and tries longer
            task = self._queue.get(lease.id)
            delay_s, too_often = put_off_s(self._delay_s, task.releases), task.releases >= task.max_attempts
        if not too_often:
            return self._settle(lease, Verdict.PUT_OFF, lambda: lease.release(delay_s), error)
        text = f"put off too often ({error})"
        return self._settle(lease, Verdict.FAILED, lambda: lease.fail(text, delay=delay_s, not_done=True), text)

    def _settle(self, lease: Lease, verdict: Verdict, settle: Callable[[], Settled], detail: str = "") -> Report:
        try:
            settled = settle()
        except LeaseLost as lost:
            return self._report(lease, Verdict.LOST, lost.status, lost.reason)
        except ServerError as problem:
            return self._report(lease, Verdict.UNKNOWN, detail=str(problem))
        return self._report(lease, verdict, settled.status, detail)

    @staticmethod
    def _report(lease: Lease, verdict: Verdict, status: str | None = None, detail: str = "") -> Report:
        return Report(lease.id, lease.task.name, verdict, status, detail.partition("\n")[0])


def _why_not(problem: OSError | ValueError) -> str:
    """Why a program that is there could not be started."""
    if isinstance(problem, FileNotFoundError):
        return "its interpreter (the first line, behind #!) does not exist"
    return problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)


def environment_of(lease: Lease, url: str) -> dict[str, str]:
    """The environment of a command: this process's own, and the lease."""
    task = lease.task
    return {
        **os.environ,
        "REDISLEASE_QUEUE": task.queue,
        "REDISLEASE_URL": url,
        "REDISLEASE_TASK_ID": task.id,
        "REDISLEASE_TASK_NAME": task.name,
        "REDISLEASE_OWNER": lease.owner,
        "REDISLEASE_GENERATION": str(lease.generation),
        "REDISLEASE_FENCING_TOKEN": str(lease.fencing_token),
        "REDISLEASE_IDEMPOTENCY_KEY": task.idempotency_key,
        "REDISLEASE_ATTEMPT": str(task.attempts),
        "REDISLEASE_HANDLE": lease.handle(),
    }
