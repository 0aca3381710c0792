"""Storing tasks. Script: `enqueue`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Required, TypedDict

from redislease import encoding, ids, limits, validation
from redislease.backoff import Backoff
from redislease.commands.call import Call, Reply
from redislease.commands.replies import groups, texts
from redislease.errors import InvalidInput, PayloadTooLarge
from redislease.models import Conflict, Enqueued, SideEffect
from redislease.scripts import Arg, shipped

Seconds = int | float | timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueRequest:
    """A task to be stored. Durations are seconds or `timedelta`s.

    Attributes:
        name: What handler it is for.
        payload: A JSON object, or something that becomes one.
        side_effect: What the task may do outside; there is no default.
        records_effects: The handler records each effect, so nothing is assumed of an attempt that recorded none.
        idempotency_key: What makes this task the same as another, here and at the receiver; it does not begin with a
            colon. A task without one shares its key with no other, not even with a later one of the same id: give one
            where the same work may be enqueued again.
        task_id: An id of your own.
        priority: -100 to 100; higher goes first.
        delay: How long to wait first.
        at: When to start, as a date with a time zone; not together with `delay`.
        lease_duration: How long a claim or renewal lasts.
        max_attempts: Failures until the task is dead.
        max_expirations: Expired leases until the task is dead.
        max_runtime: The longest that one attempt may take, renewed or not.
        max_same_error: Equal failures in a row until the task is dead; off by default.
        retry: How long to wait after a failure.
        credential: The credential that the task needs.
    """

    name: str
    payload: Any = None
    side_effect: SideEffect | str
    records_effects: bool = False
    idempotency_key: str | None = None
    task_id: str | None = None
    priority: int = 0
    delay: Seconds | None = None
    at: datetime | None = None
    lease_duration: Seconds | None = None
    max_attempts: int | None = None
    max_expirations: int | None = None
    max_runtime: Seconds | None = None
    max_same_error: int | None = None
    retry: Backoff | None = None
    credential: str | None = None


class EnqueueOptions(TypedDict, total=False):
    """The keyword arguments of `enqueue`: the attributes of `EnqueueRequest` but for name and payload."""

    side_effect: Required[SideEffect | str]
    records_effects: bool
    idempotency_key: str | None
    task_id: str | None
    priority: int
    delay: Seconds | None
    at: datetime | None
    lease_duration: Seconds | None
    max_attempts: int | None
    max_expirations: int | None
    max_runtime: Seconds | None
    max_same_error: int | None
    retry: Backoff | None
    credential: str | None


_NOT_STORED = frozenset(("id", "nonce", "payload", "digest", "delay_ms", "at_ms"))
_FIELDS = frozenset(field.name for field in fields(EnqueueRequest))


@dataclass(frozen=True, slots=True)
class Item:
    """A checked request: one group of the script's arguments.

    Attributes:
        id: The task id, drawn before the first send.
        args: The group.
        size: Bytes of the payload.
    """

    id: str
    args: tuple[Arg, ...]
    size: int


def request(value: EnqueueRequest | Mapping[str, Any]) -> EnqueueRequest:
    """A request from a mapping of its fields.

    Raises:
        InvalidInput: A field is missing or not known.
    """
    if isinstance(value, EnqueueRequest):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(f"a task must be an EnqueueRequest or a mapping, not {type(value).__name__}")
    unknown = [str(key) for key in value if key not in _FIELDS]
    if unknown:
        raise InvalidInput(f"no such field: {', '.join(unknown)[:100]}")
    missing = [name for name in ("name", "side_effect") if name not in value]
    if missing:
        raise InvalidInput(f"missing: {', '.join(missing)}")
    return EnqueueRequest(**value)


def side_effect(value: Any) -> str:
    """A side-effect class.

    Raises:
        InvalidInput: It is not one of the three.
    """
    try:
        return SideEffect(value).value
    except ValueError:
        known = ", ".join(SideEffect)
        raise InvalidInput(f"side_effect must be one of {known}, not {validation.shown(value)}") from None


def _count(value: int | None, what: str, default: int | None) -> Arg:
    if value is None or validation.integer(value, what, low=1, high=limits.COUNT_MAX) == default:
        return ""
    return value


def _due(asked: EnqueueRequest) -> tuple[Arg, Arg]:
    if asked.delay is not None and asked.at is not None:
        raise InvalidInput("give delay or at, not both")
    delay: Arg = "" if asked.delay is None else validation.delay_ms(asked.delay)
    at: Arg = "" if asked.at is None else validation.at_ms(asked.at)
    return delay, at


def due_at(asked: EnqueueRequest, now: int) -> int:
    """When a task becomes ready that was stored at `now`, in milliseconds of the server's clock."""
    delay, at = _due(asked)
    return int(at) if at != "" else now + int(delay or 0)


def item(asked: EnqueueRequest) -> Item:
    """Checks a request and makes its arguments.

    Raises:
        InvalidInput: Something in it is not acceptable.
    """
    name = validation.task_name(asked.name)
    kind = side_effect(asked.side_effect)
    if not isinstance(asked.records_effects, bool):
        raise InvalidInput("records_effects must be True or False")
    payload = encoding.payload_to_json(asked.payload)
    key = "" if asked.idempotency_key is None else validation.idempotency_key(asked.idempotency_key)
    task_id = ids.task_id() if asked.task_id is None else validation.task_id(asked.task_id)
    digest = hashlib.sha256(b"\0".join((name.encode(), kind.encode(), payload))).hexdigest() if key else ""
    lease = limits.LEASE_MS if asked.lease_duration is None else validation.lease_ms(asked.lease_duration)
    runtime: Arg = ""
    if asked.max_runtime is not None:
        runtime = validation.duration_ms(asked.max_runtime, "max_runtime", low_ms=1, high_ms=limits.DELAY_MS_MAX)
        if runtime <= lease:
            raise InvalidInput("max_runtime must be longer than lease_duration")
    if asked.retry is not None and not isinstance(asked.retry, Backoff):
        raise InvalidInput("retry must be a Backoff")
    credential = asked.credential
    delay, at = _due(asked)
    args: tuple[Arg, ...] = (
        task_id,
        "" if asked.task_id is None else ids.nonce(),
        name,
        kind,
        payload,
        digest,
        key,
        validation.integer(asked.priority, "priority", low=-limits.PRIORITY_MAX, high=limits.PRIORITY_MAX),
        delay,
        at,
        "1" if asked.records_effects else "",
        "" if lease == limits.LEASE_MS else lease,
        _count(asked.max_attempts, "max_attempts", limits.MAX_ATTEMPTS),
        _count(asked.max_expirations, "max_expirations", limits.MAX_EXPIRATIONS),
        runtime,
        _count(asked.max_same_error, "max_same_error", None),
        asked.retry.encode() if asked.retry else "",
        "" if credential is None else validation.text(credential, "credential", max_bytes=limits.CREDENTIAL_BYTES),
    )
    return Item(task_id, args, len(payload))


def stored_fields(one: Item) -> dict[str, Arg]:
    """What the task's hash will hold, by name; '' is not stored."""
    names = shipped()["enqueue"].header.group
    return {name: value for name, value in zip(names, one.args, strict=True) if name not in _NOT_STORED}


def batches(items: Sequence[Item]) -> list[list[Item]]:
    """Items cut into calls of at most 500 tasks and 4 MiB of payload."""
    cut: list[list[Item]] = []
    size = 0
    for one in items:
        if not cut or len(cut[-1]) >= limits.ENQUEUE_BATCH or size + one.size > limits.CALL_BYTES:
            cut.append([])
            size = 0
        cut[-1].append(one)
        size += one.size
    return cut


def enqueue(items: Sequence[Item]) -> Call[list[Enqueued | Conflict]]:
    """Stores up to 500 tasks in one call. Script: `enqueue`.

    Raises:
        InvalidInput: There are none, or more than 500.
        PayloadTooLarge: Their payloads exceed 4 MiB.
    """
    if not 1 <= len(items) <= limits.ENQUEUE_BATCH:
        raise InvalidInput(f"a call takes 1 to {limits.ENQUEUE_BATCH} tasks, not {len(items)}")
    if len(items) > 1 and sum(one.size for one in items) > limits.CALL_BYTES:
        raise PayloadTooLarge(f"a call takes {limits.CALL_BYTES} bytes of payload")
    return Call(
        "enqueue", shipped()["enqueue"].bind([one.args for one in items]), lambda reply: _parse(reply, len(items))
    )


def _parse(reply: Reply, count: int) -> list[Enqueued | Conflict]:
    answers: list[Enqueued | Conflict] = []
    for word, task_id, status in groups(texts(reply), 3, 3, count):
        if word in ("created", "existing"):
            answers.append(Enqueued(task_id, word == "created", status, int(reply[1])))
        else:
            answers.append(Conflict(task_id, word))
    return answers
