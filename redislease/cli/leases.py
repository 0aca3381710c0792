"""The verbs of a holder on many leases at once, each in one round trip."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, TypeVar

from redislease import limits, validation
from redislease.backoff import Backoff
from redislease.cli import batches
from redislease.cli.session import Session
from redislease.commands import hold, settle
from redislease.errors import InvalidInput, LeaseLost
from redislease.flows import settling
from redislease.flows.attaching import last_report
from redislease.handle import Handle
from redislease.lease import Lease
from redislease.models import Lost, Renewed, Settled

T = TypeVar("T")


def record(lease: Lease) -> dict[str, Any]:
    """A lease as `claim` prints it: everything that the later verbs need."""
    task = lease.task
    fields = {
        "handle": lease.handle(),
        "id": lease.id,
        "name": task.name,
        "side_effect": task.side_effect,
        "idempotency_key": task.idempotency_key,
        "owner": lease.owner,
        "generation": lease.generation,
        "fencing_token": lease.fencing_token,
        "expires_at": lease.expires_at,
        "remaining_ms": round(lease.remaining * 1000),
        "lease_ms": task.lease_ms,
        "attempts": task.attempts,
        "failures": task.failures,
        "backoff": lease._grant.retry,
    }
    try:
        return fields | {"payload": lease.payload}
    except InvalidInput as broken:
        return fields | {"payload": None, "payload_error": str(broken)}


_OF_CLAIM = frozenset(
    ("handle", "id", "name", "side_effect", "idempotency_key", "owner", "generation", "fencing_token", "token",
     "expires_at", "remaining_ms", "lease_ms", "attempts", "failures", "backoff", "payload", "payload_error")
)  # fmt: skip
"""What a line of `claim` may hold, so that it can be passed on as it is."""


def _handle(session: Session, line: Mapping[str, Any]) -> Handle:
    """The lease that a line names by its handle, else by id, owner, generation and token.

    Raises:
        InvalidInput: It names none, or one of another queue.
    """
    encoded = line.get("handle")
    if encoded is None:
        task_id, owner, generation = (line.get(name) for name in ("id", "owner", "generation"))
        token = line.get("fencing_token", line.get("token"))
        if task_id is None or owner is None or generation is None or token is None:
            raise InvalidInput("which lease? Give its handle, or its id, owner, generation and token")
        lease_ms = line.get("lease_ms", limits.LEASE_MS)
        encoded = Handle(session.queue.name, task_id, owner, generation, token, lease_ms).encode()
    handle = Handle.decode(encoded)
    session.adopt_queue(handle.queue)
    return handle


def _outcome(handle: Handle, answer: Renewed | Settled | Lost) -> batches.Outcome:
    if not isinstance(answer, Lost):
        return {"id": handle.id} | {name: value for name, value in asdict(answer).items() if value is not None}
    try:
        hold.raise_lost(handle, answer)
    except LeaseLost as lost:
        return lost
    raise AssertionError


class LeaseBatch(batches.Batch[tuple[Handle, T]]):
    """A verb on leases.

    Args:
        session: The invocation; the first lease names the queue if nothing else does.
        defaults: What a line leaves out.

    Attributes:
        fields: What a line may hold besides a lease, each with the type of its value in JSON.
    """

    fields: ClassVar[Mapping[str, type | tuple[type, ...]]] = {}

    def __init__(self, session: Session, defaults: Mapping[str, Any]) -> None:
        self._session = session
        self._defaults = defaults

    def read(self, line: Mapping[str, Any]) -> tuple[Handle, T]:
        if unknown := sorted(set(line) - _OF_CLAIM - set(self.fields)):
            raise InvalidInput(f"no such field: {', '.join(unknown)[:100]}")
        full = {**self._defaults, **line}
        for name, kind in self.fields.items():
            if full.get(name) is not None and not isinstance(full[name], kind):
                raise InvalidInput(f"{name} has a value of the wrong type")
        handle = _handle(self._session, full)
        return handle, self.prepare(handle, full)

    def carry_out(self, things: Sequence[tuple[Handle, T]]) -> list[batches.Outcome]:
        return [_outcome(handle, answer) for (handle, _), answer in zip(things, self.send(things), strict=True)]

    @abstractmethod
    def prepare(self, handle: Handle, line: Mapping[str, Any]) -> T:
        """What to send for one lease, checked."""

    @abstractmethod
    def send(self, things: Sequence[tuple[Handle, T]]) -> Sequence[Renewed | Settled | Lost]:
        """The one round trip."""


class Renewals(LeaseBatch[int | None]):
    """Extends leases."""

    fields: ClassVar = {"lease": (int, float)}

    def prepare(self, handle: Handle, line: Mapping[str, Any]) -> int | None:
        length = line.get("lease")
        return None if length is None else validation.lease_ms(length)

    def send(self, things: Sequence[tuple[Handle, int | None]]) -> Sequence[Renewed | Lost]:
        return self._session.queue.run(hold.renew(things))


class Reports(LeaseBatch[Mapping[str, Any]]):
    """Reports progress."""

    fields: ClassVar = {"done": (int, float), "total": (int, float), "note": str}

    def prepare(self, handle: Handle, line: Mapping[str, Any]) -> Mapping[str, Any]:
        if line.get("done") is None:
            raise InvalidInput("how much is done?")
        report: dict[str, Any] = {name: line.get(name) for name in self.fields}
        hold.progress(handle, 1, **report)
        return report

    def send(self, things: Sequence[tuple[Handle, Mapping[str, Any]]]) -> Sequence[Settled | Lost]:
        queue = self._session.queue
        (stored,) = self._session.read(("HMGET", queue.keys.progress, *(handle.id for handle, _ in things)))
        numbers: dict[tuple[str, int], int] = {}
        for (handle, _), last in zip(things, stored, strict=True):
            numbers[handle.id, handle.token] = last_report(handle, last)
        calls = []
        for handle, report in things:
            numbers[handle.id, handle.token] += 1
            calls.append(hold.progress(handle, numbers[handle.id, handle.token], **report))
        return [answers[0] for answers in queue._transport.run_many(calls)]


class Completions(LeaseBatch[settle.Completion]):
    """Completes leases."""

    fields: ClassVar = {"result": object, "result_ref": str}

    def prepare(self, handle: Handle, line: Mapping[str, Any]) -> settle.Completion:
        return settling.completion(handle, line.get("result"), line.get("result_ref"))

    def send(self, things: Sequence[tuple[Handle, settle.Completion]]) -> Sequence[Settled | Lost]:
        answers: list[Settled | Lost] = []
        for part in settling.cut_completions([one for _, one in things]):
            answers += self._session.queue.run(settle.complete(part))[0]
        return answers


class Failures(LeaseBatch[Mapping[str, Any]]):
    """Ends leases as failed."""

    fields: ClassVar = {"error": str, "fatal": bool, "delay": (int, float), "not_done": bool}

    def prepare(self, handle: Handle, line: Mapping[str, Any]) -> Mapping[str, Any]:
        if line.get("error") is None:
            raise InvalidInput("what happened? Give the error")
        if line.get("fatal") and line.get("delay") is not None:
            raise InvalidInput("a fatal failure is not tried again: fatal and delay do not go together")
        if line.get("delay") is not None:
            return {**line, "delay_ms": validation.delay_ms(line["delay"])}
        if line.get("backoff") is not None and line.get("failures") is not None:
            return {**line, "delay_ms": _delay_ms(line["backoff"], line["failures"])}
        return line

    def send(self, things: Sequence[tuple[Handle, Mapping[str, Any]]]) -> Sequence[Settled | Lost]:
        queue = self._session.queue
        unsaid = {handle.id for handle, line in things if "delay_ms" not in line}
        asked = [("HMGET", queue.keys.task(task_id), "retry", "failures") for task_id in unsaid]
        stored = dict(zip(unsaid, self._session.read(*asked), strict=True)) if asked else {}
        failures = []
        for handle, line in things:
            delay_ms = line.get("delay_ms")
            if delay_ms is None:
                retry, count = stored[handle.id]
                delay_ms = _delay_ms((retry or b"").decode(), int(count or 0))
            failures.append(
                settling.failure(
                    handle,
                    line["error"],
                    retry=not line.get("fatal", False),
                    delay_ms=delay_ms,
                    not_done=bool(line.get("not_done")),
                )
            )
        return queue.run(settle.fail(failures))


def _delay_ms(backoff: Any, failures: Any) -> int:
    """How long a task waits after one more failure, by its own backoff."""
    try:
        return Backoff.decode(backoff).delay_ms(failures + 1, random.random())
    except (TypeError, ValueError, AttributeError):
        raise InvalidInput("backoff and failures must be as claim answered them") from None


class Returns(LeaseBatch[settle.Return]):
    """Gives leases back."""

    fields: ClassVar = {"delay": (int, float), "interrupted": bool}

    def prepare(self, handle: Handle, line: Mapping[str, Any]) -> settle.Return:
        delay = line.get("delay")
        delay_ms = None if delay is None else validation.delay_ms(delay)
        return settle.Return(handle, delay_ms, bool(line.get("interrupted")), fresh=delay_ms is not None)

    def send(self, things: Sequence[tuple[Handle, settle.Return]]) -> Sequence[Settled | Lost]:
        return self._session.queue.run(settle.release([one for _, one in things]))
