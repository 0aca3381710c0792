"""Reading without writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redislease import effect_records, encoding, limits, timeline, validation
from redislease.commands.replies import text
from redislease.effect_records import EffectRecord, Kept
from redislease.errors import InvalidInput, ServerError, TaskUnknown, reading
from redislease.flow import Flow, Read
from redislease.flows.context import QueueContext
from redislease.keys import STATES
from redislease.models import Task, TaskDetail

LISTED = (*STATES, "unsettled")


def _fields(raw: Mapping[bytes, bytes]) -> dict[str, str]:
    return {text(name): text(value) for name, value in raw.items()}


def _task(context: QueueContext, task_id: str, raw: Mapping[bytes, bytes], due: bytes | None) -> Task:
    if not raw:
        raise TaskUnknown(f"there is no task {task_id} in queue {context.name}", task_id=task_id)
    return Task.from_hash(context.name, task_id, _fields(raw), available_at=_score(due) if due else None)


def get(context: QueueContext, task_id: str) -> Flow[Task]:
    """A task as the server holds it."""
    checked = validation.task_id(task_id)
    keys = context.keys
    raw, due = yield Read([("HGETALL", keys.task(checked)), ("ZSCORE", keys.index("scheduled"), checked)])
    return _task(context, checked, raw, due)


def detail(context: QueueContext, task_id: str) -> Flow[TaskDetail]:
    """A task with its payload, result and progress."""
    checked = validation.task_id(task_id)
    keys = context.keys
    raw, due, payload, result, progress = yield Read(
        [
            ("HGETALL", keys.task(checked)),
            ("ZSCORE", keys.index("scheduled"), checked),
            ("HGET", keys.payloads, checked),
            ("HGET", keys.results, checked),
            ("HGET", keys.progress, checked),
        ]
    )
    return TaskDetail(
        task=_task(context, checked, raw, due),
        payload=encoding.payload_from_json(payload or b""),
        result=encoding.from_json(result, "result") if result else None,
        progress=_progress(progress) if progress else None,
    )


def _score(value: bytes) -> int:
    with reading("a score"):
        return int(float(value))


def _progress(stored: bytes) -> dict[str, Any]:
    with reading("the progress"):
        token, number, at, body = stored.split(b" ", 3)
        said = encoding.from_json(body, "progress")
        found = {"token": int(token), "number": int(number), "at": int(at)}
        return found | {"done": said["done"], "total": said.get("total"), "note": said.get("note")}


def result(context: QueueContext, task_id: str) -> Flow[Any]:
    """The result of a task; None if it has none."""
    found: TaskDetail = yield from detail(context, task_id)
    return found.result


def tasks(context: QueueContext, status: str, *, limit: int = 100, offset: int = 0) -> Flow[list[Task]]:
    """The tasks of a state in the order of its index; `unsettled` lists ended tasks with effects in doubt."""
    if status not in LISTED:
        raise InvalidInput(f"status must be one of {', '.join(LISTED)}, not {validation.shown(status)}")
    first = validation.integer(offset, "offset", low=0, high=2**53 - 1)
    last = first + validation.integer(limit, "limit", low=1, high=limits.BATCH) - 1
    keys = context.keys
    (members,) = yield Read([("ZRANGE", keys.index(str(status)), first, last, "WITHSCORES")])
    ids = [text(member) for member in members[::2]]
    if not ids:
        return []
    hashes = yield Read([("HGETALL", keys.task(task_id)) for task_id in ids])
    scheduled = status == "scheduled"
    return [
        Task.from_hash(context.name, task_id, _fields(raw), available_at=_score(score) if scheduled else None)
        for task_id, raw, score in zip(ids, hashes, members[1::2], strict=True)
        if raw and b"status" in raw
    ]


def effects(context: QueueContext, task_id: str) -> Flow[list[EffectRecord]]:
    """The effects of a task, the one opened first first; the implicit one is among them while it is open."""
    checked = validation.task_id(task_id)
    keys = context.keys
    wanted = ("status", "handler_open", "claim_generation", "fencing_token", "claimed_at")
    task, stored = yield Read([("HMGET", keys.task(checked), *wanted), ("HGETALL", keys.effects(checked))])
    status, handler_open, *claim = task
    if status is None:
        raise TaskUnknown(f"there is no task {checked} in queue {context.name}", task_id=checked)
    found = [effect_records.read_any(text(key), record) for key, record in stored.items()]
    if handler_open:
        with reading("the implicit effect"):
            found.append(effect_records.implicit(*(int(value) for value in claim)))
    return sorted(found, key=lambda one: (one.opened_at, one.key))


def testimony(context: QueueContext, task_id: str) -> Flow[dict[str, Kept]]:
    """What was said too late about effects that are still open, as verdicts by key."""
    (stored,) = yield Read([("HGETALL", context.keys.effects(validation.task_id(task_id)))])
    verdicts = {text(key): effect_records.late_verdict(record) for key, record in stored.items()}
    return {key: verdict for key, verdict in verdicts.items() if verdict}


def evidence(context: QueueContext, task_id: str) -> Flow[list[dict[str, Any]]]:
    """The evidence of a task in the order in which it was written, also after the task itself was purged."""
    checked = validation.task_id(task_id)
    keys = context.keys
    log, effects_of_task = ("LRANGE", keys.evidence(checked), 0, -1), ("HGETALL", keys.effects(checked))
    try:
        lines, stored = yield Read([log, effects_of_task])
    except ServerError as trouble:
        if type(trouble) is not ServerError:
            raise
        lines, of_log = yield from _if_readable(log, [])
        stored, of_effects = yield from _if_readable(effects_of_task, {})
        return [*timeline.of_task(lines, stored), *of_log, *of_effects]
    return timeline.of_task(lines, stored)


def _if_readable(command: tuple[Any, ...], empty: Any) -> Flow[tuple[Any, list[dict[str, Any]]]]:
    """A reply; for a key of a foreign type, which hides only what it holds, `empty` and an event that tells of it."""
    try:
        (found,) = yield Read([command])
    except ServerError as trouble:
        if type(trouble) is not ServerError:
            raise
        return empty, [timeline.unreadable(str(trouble))]
    return found, []


def audit(context: QueueContext, *, limit: int = 100) -> Flow[list[dict[str, Any]]]:
    """The last decisions of operators, oldest first."""
    wanted = validation.integer(limit, "limit", low=1, high=limits.BATCH)
    (lines,) = yield Read([("LRANGE", context.keys.audit, -wanted, -1)])
    return [timeline.line(line) for line in lines]


def workers(context: QueueContext, *, limit: int = 100) -> Flow[list[dict[str, Any]]]:
    """Registered owners, the one seen last first."""
    wanted = validation.integer(limit, "limit", low=1, high=limits.BATCH)
    (members,) = yield Read([("ZREVRANGE", context.keys.workers, 0, wanted - 1, "WITHSCORES")])
    pairs = zip(members[::2], members[1::2], strict=True)
    return [{"owner": text(owner), "seen_at": _score(score)} for owner, score in pairs]
