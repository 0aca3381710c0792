"""The real queue beside the reference, and the comparison of everything that it holds."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from both import Both
from keyspace import Keyspace
from servers import Engine
from virtual_clock import VirtualClock

from redislease import AsyncLease, AsyncQueue, Lease, Queue, ids
from redislease.keys import STATES, QueueKeys
from redislease.scripts import ScriptLibrary

from .queue import ModelQueue
from .recorder import Recorder
from .task import HANDLER, ModelTask

LATE_EVENTS = ("late_result", "late_outcome", "refused")
LATE_LINES = 20


@dataclass(frozen=True)
class Stage:
    """Where machines run: an engine, a flavour, a set of scripts."""

    engine: Engine
    both: Both
    library: ScriptLibrary
    client: redis.Redis


class World:
    """A queue of its own on a clock of its own, with two workers and an operator."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.name = f"m-{uuid.uuid4().hex[:12]}"
        self.keys = QueueKeys(self.name)
        self.clock = VirtualClock(stage.client, self.keys)
        self.model = ModelQueue(self.clock.set_ms())
        self.queues = [self._open(name) for name in ("one", "two")]
        self.recorders = [Recorder(queue, stage.library, is_async=stage.both.is_async) for queue in self.queues]

    def _open(self, worker_name: str) -> Any:
        make = self.stage.both.pick(Queue, AsyncQueue)
        return make(self.name, redis_url=self.stage.engine.url, scripts=self.stage.library, worker_name=worker_name)

    def lease(self, who: int, owner: str, grant: Any) -> Any:
        """A lease object made from a grant, true or made up."""
        return self.stage.both.pick(Lease, AsyncLease)(self.queues[who], owner, grant, 0.0)

    def advance_ms(self, step_ms: int) -> None:
        """Moves the time of both sides."""
        self.model.now = self.clock.advance_ms(step_ms)

    def close(self) -> list[str]:
        """Ends it, and answers what is wrong with its keys."""
        for queue in self.queues:
            queue.close()
        problems = Keyspace(self.stage.client, self.keys).problems()
        left = list(self.stage.client.scan_iter(f"{self.keys.base}*", count=1000))
        self.clock.release()
        if left:
            self.stage.client.delete(*left)
        return problems

    def hashes(self) -> list[Any]:
        """The hashes of all tasks as they are stored, with fields that the library does not show."""
        pipeline = self.stage.client.pipeline(transaction=False)
        for task_id in self.model.tasks:
            pipeline.hgetall(self.keys.task(task_id))
        return list(pipeline.execute())

    def evidence_problems(self, ids: Sequence[str]) -> list[str]:
        """What is wrong with the evidence of tasks: refusals are noted at most twenty times, and each once."""
        problems = []
        for task_id in ids:
            lines = [line for line in self.queues[0].evidence(task_id) if line["event"] in LATE_EVENTS]
            known = [tuple(line.get(name) for name in ("token", "verb", "effect")) for line in lines]
            if len(known) > LATE_LINES or len(set(known)) < len(known):
                problems.append(f"the refusals noted of {task_id} are {known}")
        return problems

    def differences(self) -> list[str]:
        """Everything in which the queue and the reference differ."""
        return [*self._indexes(), *self._stats(), *self._tasks()]

    def _indexes(self) -> Iterator[str]:
        pipeline = self.stage.client.pipeline(transaction=False)
        for name in (*STATES, "unsettled"):
            pipeline.zrange(self.keys.index(name), 0, -1, withscores=True)
        *states, unsettled = pipeline.execute()
        for state, members in zip(STATES, states, strict=True):
            found = [(task_id.decode(), int(score)) for task_id, score in members]
            tasks = self.model.standing(state)
            if state == "ready":
                # The score holds a place in the order, whose numbers are nobody's business.
                expected: list[Any] = [task.id for task in tasks]
                found = [task_id for task_id, _ in found]
            else:
                expected = [(task.id, self.model.score(task)) for task in tasks]
            if found != expected:
                yield f"{state} holds {found}, not {expected}"
        known = {task.id: task.unsettled_since for task in self.model.tasks.values() if task.unsettled_since}
        listed = {task_id.decode(): int(score) for task_id, score in unsettled}
        if listed != known:
            yield f"unsettled holds {listed}, not {known}"

    def _stats(self) -> Iterator[str]:
        stats, model = self.queues[0].stats(), self.model
        leased, due = model.standing("leased"), model.standing("scheduled")
        doubt = model.standing("reconciling")
        expected = {
            "now": model.now,
            "states": {state: len(model.standing(state)) for state in STATES},
            "unsettled": sum(task.unsettled_since is not None for task in model.tasks.values()),
            "orphans": 0,
            "expired": sum(not model.lives(task) for task in leased),
            "overdue": sum(model.score(task) <= model.now for task in due),
            "next_due_at": model.score(due[0]) if due else None,
            "next_expiry_at": model.score(leased[0]) if leased else None,
            "oldest_reconciling_at": model.score(doubt[0]) if doubt else None,
            "fence": model.fence,
            "pause": model.pause,
            "epoch": model.epoch,
            "counters": {name: model.counters[name] for name in stats.counters},
        }
        for name, value in expected.items():
            if getattr(stats, name) != value:
                yield f"stats: {name} is {getattr(stats, name)}, not {value}"

    def _tasks(self) -> Iterator[str]:
        for task in self.model.tasks.values():
            detail = self.queues[0].detail(task.id)
            for name, value in _expected(task).items():
                found = getattr(detail.task, name)
                if found != value:
                    yield f"{task.id}: {name} is {found!r}, not {value!r}"
            if (detail.payload, detail.result) != (task.options.payload or {}, task.result):
                yield f"{task.id}: payload {detail.payload} and result {detail.result}"
            yield from self._effects(task)

    def _effects(self, task: ModelTask) -> Iterator[str]:
        if not task.effects and not task.handler_open:
            return
        found = {}
        for one in self.queues[0].effects(task.id):
            told = one.testimony and (one.testimony.verdict, one.testimony.outcome or one.testimony.reason)
            found[one.key] = one.state, one.generation, one.token, one.outcome or one.reason, told
        expected = {
            key: (one.state, one.generation, one.token, one.outcome, one.testimony) for key, one in task.effects.items()
        }
        if task.handler_open:
            expected[HANDLER] = "open", task.generation, task.token or 0, None, None
        if found != expected:
            yield f"{task.id}: effects are {found}, not {expected}"


def _expected(task: ModelTask) -> dict[str, Any]:
    options = task.options
    found = {name: getattr(task, name) for name in _AS_THEY_ARE}
    return found | {
        "idempotency_key": options.key or ids.own_key(task.id, "" if task.nonce == task.id else task.nonce),
        "name": options.name,
        "side_effect": options.side_effect,
        "records_effects": options.records_effects,
        "priority": options.priority,
        "lease_ms": options.lease_ms,
        "max_attempts": options.max_attempts,
        "max_expirations": options.max_expirations,
        "max_runtime_ms": options.max_runtime_ms,
        "max_same_error": options.max_same_error,
        "available_at": task.due_at if task.status == "scheduled" else None,
        "lease_owner": task.owner,
        "lease_expires_at": task.expires_at,
        "runtime_deadline": task.deadline,
        "claim_generation": task.generation,
        "fencing_token": task.token,
    }


_AS_THEY_ARE = (
    "status", "created_at", "claimed_at", "renewed_at", "renewals", "attempts", "failures", "expirations", "releases",
    "open_effects", "result_ref",
)  # fmt: skip
