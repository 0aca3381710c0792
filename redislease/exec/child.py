"""A command that runs for one task, with every process that it starts."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from redislease.exec.watchdog import VARIABLE, Watchdog

POLL_S = 0.1
"""How often a running command's lease and the wish to end are looked at."""

LOST_GRACE_S = 2.0
"""How long a command may clean up after its lease was lost: it has no authority any more."""

DRAIN_S = 1.0
"""How long to read on after the command has ended, if something else holds its pipes open."""

CHUNK = 65_536

Order = Literal["", "lost", "stop", "kill"]
"""Why a command should end: its lease was lost, this process is to end, or is to end at once."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        returncode: Its exit status; negative: the signal that killed it.
        stdout: What it printed, cut behind the limit.
        overflow: Whether it printed more than that.
        stderr: The end of what it complained about.
        order: Why it was asked to end; '' if it ended by itself.
    """

    returncode: int
    stdout: bytes
    overflow: bool
    stderr: bytes
    order: Order


class Child:
    """A command in a session and process group of its own, in which it is signalled as a whole.

    It has ended when its first process has; what is left of the group then is killed, since nothing may go on under a
    lease that has been settled. A process that leaves the group is out of reach.

    Args:
        command: Program and arguments.
        environment: All of it.
        payload: What it reads on its standard input.
        watchdog: Kills the group if this process dies.
        stdout_limit: Bytes of standard output that are kept.
        stderr_tail: Bytes of the end of standard error that are kept; all of it is passed on.

    Raises:
        OSError: It could not be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        payload: bytes,
        watchdog: Watchdog,
        *,
        stdout_limit: int,
        stderr_tail: int,
    ) -> None:
        self._watchdog = watchdog
        self._mark = watchdog.expect()
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment, VARIABLE: self._mark},
                start_new_session=True,
            )
        except BaseException:
            watchdog.forget(self._mark)
            raise
        watchdog.confirm(self._mark, self._process.pid)
        self._payload = memoryview(payload)
        self._stdout_limit = stdout_limit
        self._stderr_tail = stderr_tail
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._overflow = False
        self._order: Order = ""
        self._kill_at_s: float | None = None

    def wait(self, order: Callable[[], Order], grace_s: float) -> Ended:
        """Feeds it, reads it and waits for its end.

        Args:
            order: Is asked again and again whether it should end.
            grace_s: Seconds that it has between SIGTERM and SIGKILL when this process is to end.
        """
        try:
            with selectors.DefaultSelector() as selector:
                self._register(selector)
                while self._process.poll() is None:
                    self._transfer(selector, POLL_S)
                    self._obey(order(), grace_s)
                self._signal(signal.SIGKILL)
                deadline = time.monotonic() + DRAIN_S
                while self._readers(selector) and time.monotonic() < deadline:
                    self._transfer(selector, POLL_S)
        finally:
            self._end()
        return Ended(self._process.returncode, bytes(self._stdout), self._overflow, bytes(self._stderr), self._order)

    def _end(self) -> None:
        # Once it has been waited for, its number may soon be another's.
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._watchdog.forget(self._mark)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                with suppress(OSError):
                    pipe.close()

    def _register(self, selector: selectors.BaseSelector) -> None:
        process = self._process
        for pipe, event, transfer in (
            (process.stdin, selectors.EVENT_WRITE, self._feed),
            (process.stdout, selectors.EVENT_READ, self._keep),
            (process.stderr, selectors.EVENT_READ, self._pass_on),
        ):
            assert pipe
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, event, transfer)

    @staticmethod
    def _readers(selector: selectors.BaseSelector) -> bool:
        return any(key.events == selectors.EVENT_READ for key in selector.get_map().values())

    def _transfer(self, selector: selectors.BaseSelector, timeout_s: float) -> None:
        """Moves what can be moved; with all pipes closed, waits for the end alone."""
        if not selector.get_map():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
            return
        for key, _ in selector.select(timeout_s):
            if not key.data():
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]

    def _feed(self) -> bool:
        assert self._process.stdin
        try:
            written = os.write(self._process.stdin.fileno(), self._payload[:CHUNK])
        except BlockingIOError:
            return True
        except OSError:  # it does not read its input, which is its own business
            return False
        self._payload = self._payload[written:]
        return len(self._payload) > 0

    def _keep(self) -> bool:
        assert self._process.stdout
        chunk = os.read(self._process.stdout.fileno(), CHUNK)
        room = self._stdout_limit - len(self._stdout)
        self._overflow = self._overflow or len(chunk) > room
        self._stdout += chunk[:room]
        return chunk != b""

    def _pass_on(self) -> bool:
        assert self._process.stderr
        chunk = os.read(self._process.stderr.fileno(), CHUNK)
        self._stderr += chunk
        del self._stderr[: -self._stderr_tail]
        with suppress(OSError, ValueError):
            sys.stderr.buffer.write(chunk)
            sys.stderr.buffer.flush()
        return chunk != b""

    def _obey(self, order: Order, grace_s: float) -> None:
        if not order:
            return
        now_s = time.monotonic()
        graces_s = {"lost": LOST_GRACE_S, "stop": grace_s, "kill": 0.0}
        if not self._order:
            self._signal(signal.SIGTERM)
        if order != self._order:
            # A worse order shortens the grace and never extends it.
            kill_at_s = now_s + graces_s[order]
            self._kill_at_s = kill_at_s if self._kill_at_s is None else min(self._kill_at_s, kill_at_s)
            self._order = order
        if self._kill_at_s is not None and now_s >= self._kill_at_s:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
