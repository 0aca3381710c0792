"""Every exception that redislease raises, under one root.

The first paragraph of a class's docstring is its default message, so that the documentation and what a person reads
cannot drift apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager


class RedisLeaseError(Exception):
    """Something went wrong in redislease."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or default_message(type(self)))


def default_message(kind: type[BaseException]) -> str:
    """The first paragraph of the docstring, on one line."""
    paragraph = (inspect.getdoc(kind) or kind.__name__).split("\n\n", 1)[0]
    return " ".join(paragraph.split())


class InvalidInput(RedisLeaseError, ValueError):
    """An argument is not acceptable; nothing was sent to the server."""


class PayloadInvalid(InvalidInput):
    """The value cannot be stored as strict JSON without changing it."""


class PayloadTooLarge(InvalidInput):
    """The value is larger than its limit."""


class LeaseLost(RedisLeaseError):
    """This lease no longer gives authority over its task; nothing was changed.

    Attributes:
        task_id: The task.
        reason: Why, as one word: `unknown`, `not_issued`, `not_owner`, `settled`, `reclaimed`, `expired`,
            `max_runtime`, `revoked`, `cancelled`, `superseded`; or, decided locally, `deadline`, `forked` and
            `shutdown`.
        generation: The claim generation that this lease was given.
        current_generation: The generation that the server holds now, if the task still exists.
        status: The task's state now, if it still exists.
    """

    def __init__(
        self,
        reason: str,
        *,
        task_id: str = "",
        generation: int | None = None,
        current_generation: int | None = None,
        status: str | None = None,
    ) -> None:
        now = f"; the task is {status}" if status else ""
        if current_generation is not None:
            now += f" at generation {current_generation}"
        mine = f" of generation {generation}" if generation is not None else ""
        super().__init__(f"the lease{mine} on {task_id or 'the task'} is lost: {reason}{now}")
        self.task_id = task_id
        self.reason = reason
        self.generation = generation
        self.current_generation = current_generation
        self.status = status


class LeaseEnded(LeaseLost):
    """The lease was already settled by its own holder, with another verb."""


class TaskConflict(RedisLeaseError):
    """A task with this id already exists and is a different one."""

    def __init__(self, message: str | None = None, *, task_id: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id


class IdempotencyConflict(RedisLeaseError):
    """This idempotency key already belongs to a task with another name, class or payload."""

    def __init__(self, message: str | None = None, *, task_id: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id


class NotAllowedNow(RedisLeaseError):
    """The state of the task or of the queue does not allow this decision; nothing was changed.

    Attributes:
        reason: One word: `status`, `token`, `open_effects`, `effect`, `epoch`, `read_only`.
        status: The state of the task now.
        decided_by: Who decided before, if somebody did.
        decided: What they decided.
        decided_at_ms: When, in milliseconds of the server's clock.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        reason: str = "",
        status: str = "",
        decided_by: str = "",
        decided: str = "",
        decided_at_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.decided_by = decided_by
        self.decided = decided
        self.decided_at_ms = decided_at_ms


class TaskUnknown(RedisLeaseError):
    """There is no task with this id (it was never enqueued, or its retention has ended)."""

    def __init__(self, message: str | None = None, *, task_id: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id


class TaskNotCompleted(RedisLeaseError):
    """The task has ended without a result.

    Attributes:
        task_id: The task.
        status: `dead` or `cancelled`.
        last_error: Why, if something is recorded.
    """

    def __init__(self, *, task_id: str = "", status: str = "", last_error: str | None = None) -> None:
        why = f": {last_error}" if last_error else ""
        super().__init__(f"task {task_id} is {status}{why}" if task_id else None)
        self.task_id = task_id
        self.status = status
        self.last_error = last_error


class WorkerUnknown(RedisLeaseError):
    """The queue does not know this owner: it was silent for an hour and removed, or never registered."""


class QueuePaused(RedisLeaseError):
    """The queue is paused by an operator."""


class QueueExhausted(RedisLeaseError):
    """A counter of the queue has reached its limit; nothing was changed."""


class WaitTimeout(RedisLeaseError, TimeoutError):
    """The task had not ended within the time given."""


class EffectError(RedisLeaseError):
    """Something is wrong about an effect.

    Attributes:
        effect: The effect's key.
        generation: The claim generation that recorded it before, where that matters.
        at_ms: When that was, in milliseconds of the server's clock.
    """

    def __init__(
        self, message: str | None = None, *, effect: str = "", generation: int | None = None, at_ms: int | None = None
    ) -> None:
        super().__init__(f"{effect}: {message or default_message(type(self))}" if effect else message)
        self.effect = effect
        self.generation = generation
        self.at_ms = at_ms


class AmbiguousEffect(EffectError):
    """An earlier attempt may or may not have done this, and it must not happen twice: a person decides."""


class EffectAlreadyDone(EffectError):
    """An earlier attempt has done this; take its outcome."""


class EffectNotRecorded(EffectError):
    """The block ended without record() or not_done(): what became of the effect is unknown, and it stays open."""


class EffectReused(EffectError):
    """This attempt has already used the effect; give each call its own key."""


class EffectConflict(EffectError):
    """An earlier attempt recorded this effect with another request.

    Make what differs each time an effect of its own, so that the next attempt reads it instead of making it anew.
    """


class OutcomeNotStored(EffectError):
    """An earlier attempt has done this, but its outcome was too large or not JSON, so only its digest was kept."""


class TooManyEffects(EffectError):
    """The task has recorded a thousand effects."""


class NotDone(RedisLeaseError):
    """Raise this where an effect certainly never left: it is closed as not done, and may be tried again.

    It speaks of the innermost effect that it leaves; for one around that it is an exception like any other. Where it
    leaves a handler without having met an effect, it speaks of the attempt, as `fail(not_done=True)` does.

    Attributes:
        heard: Whether an effect was closed by it.
    """

    heard = False


class ServerError(RedisLeaseError):
    """The server could not do it."""


class ServerUnavailable(ServerError):
    """The server cannot be reached, or did not answer in time."""


class ServerReadOnly(ServerError):
    """The server is a read-only replica."""


class ServerOutOfMemory(ServerError):
    """The server is at maxmemory and refused the write; nothing was stored."""


class ServerLoading(ServerError):
    """The server is still loading its data."""


class NotReplicated(ServerError):
    """The write was made but not confirmed by the replicas that were asked for in time; repeating it is safe.

    Attributes:
        answer: What the call answered, so that a claim can be given back.
    """

    def __init__(self, message: str | None = None, *, answer: object = None) -> None:
        super().__init__(message)
        self.answer = answer


class PermissionDenied(ServerError):
    """The server refuses the user: a wrong password, or an ACL that does not allow this."""


class ConfigurationError(RedisLeaseError):
    """The configuration cannot work."""


class LayoutMismatch(ConfigurationError):
    """The queue's keys were written by a version with another key layout; nothing was done."""


UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What reading raises when something is not of the form that it should have."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Makes a `ServerError` of whatever goes wrong while something is read that the server holds or answers.

    Args:
        what: What to call it in the error.

    Raises:
        ServerError: It is not of the form that it should have.
    """
    try:
        yield
    except RedisLeaseError:
        raise
    except UNREADABLE as problem:
        raise ServerError(f"{what} cannot be read") from problem
