"""Looks at every key of a queue and says what should not be so: leaked keys, and indexes that disagree with hashes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import redis

from redislease.keys import STATES, QueueKeys

ENDED = ("dead", "completed", "cancelled")
NEVER_SWEPT = 2**53 - 1
_EXPONENT = re.compile(rb"\d[eE]\+\d")

KINDS = {
    **dict.fromkeys((*STATES, "unsettled", "orphans", "workers", "wake", "wake:approved"), "zset"),
    **dict.fromkeys(("meta", "payloads", "results", "progress"), "hash"),
    "audit": "list",
}
KINDS_BY_PREFIX = {"task": "hash", "worker": "hash", "effects": "hash", "evidence": "list", "idempotency": "string",
                   "signal": "zset"}  # fmt: skip


READ = {"hash": "hgetall", "zset": "zrange", "string": "get"}
"""How the whole of a key is read; lists are evidence, which nothing here looks at."""


class Keyspace:
    """All keys of a queue, read once, in three round trips."""

    def __init__(self, client: redis.Redis, keys: QueueKeys) -> None:
        self.keys = keys
        self.names = sorted(
            name.decode().removeprefix(keys.base) for name in client.scan_iter(f"{keys.base}*", count=1000)
        )
        with client.pipeline(transaction=False) as pipe:
            for name in self.names:
                pipe.type(keys.base + name)
                pipe.ttl(keys.base + name)
            answers = pipe.execute()
            self._types = dict(zip(self.names, (kind.decode() for kind in answers[::2]), strict=True))
            self._ttls = dict(zip(self.names, answers[1::2], strict=True))
            readable = [name for name, kind in self._types.items() if kind in READ]
            for name in readable:
                kind = self._types[name]
                more: Any = {"start": 0, "end": -1, "withscores": True} if kind == "zset" else {}
                getattr(pipe, READ[kind])(keys.base + name, **more)
            self._values = dict(zip(readable, pipe.execute(), strict=True))
        self.tasks = {name.removeprefix("task:"): self._hash(name) for name in self.names if name.startswith("task:")}

    def _hash(self, name: str) -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self._value(name, "hash", {}).items()}

    def index(self, name: str) -> dict[str, float]:
        """The members of a sorted set with their scores."""
        return {k.decode(): s for k, s in self._value(name, "zset", [])}

    def _value(self, name: str, kind: str, nothing: Any) -> Any:
        found = self._types.get(name, kind)
        if found != kind:
            raise redis.ResponseError(f"{name} is a {found}, not a {kind}")
        return self._values.get(name, nothing)

    def problems(self) -> list[str]:
        """Everything that is wrong, as sentences."""
        return [*self._foreign(), *self._homeless(), *self._misplaced(), *self._numbers()]

    def _foreign(self) -> Iterator[str]:
        for name in self.names:
            kind = KINDS.get(name) or KINDS_BY_PREFIX.get(name.split(":", 1)[0])
            found = self._types[name]
            if kind is None:
                yield f"nobody knows the key {name}"
            elif kind != found:
                yield f"{name} is a {found}, not a {kind}"
            live = not name.startswith(("signal:", "evidence:"))
            if live and self._ttls[name] != -1:
                yield f"{name} expires"
            if name.startswith("signal:") and self._ttls[name] == -1:
                yield f"{name} does not expire"

    def _homeless(self) -> Iterator[str]:
        for hash_name in ("payloads", "results", "progress"):
            for task_id in self._hash(hash_name):
                if task_id not in self.tasks:
                    yield f"{hash_name} holds {task_id}, which has no task"
        for name in self.names:
            prefix, _, task_id = name.partition(":")
            if prefix == "evidence" and task_id not in self.tasks and self._ttls[name] < 0:
                yield f"{name} has no task and does not expire"
            if prefix == "effects" and task_id not in self.tasks:
                yield f"{name} has no task"
            if prefix == "idempotency":
                holder = self._value(name, "string", b"").decode().split(" ")[0]
                if self.tasks.get(holder, {}).get("idempotency_key") != task_id:
                    yield f"{name} names {holder}, which does not name it"
        owners = {name.removeprefix("worker:") for name in self.names if name.startswith("worker:")}
        if owners != set(self.index("workers")):
            yield f"workers and worker:* disagree: {owners ^ set(self.index('workers'))}"

    def _misplaced(self) -> Iterator[str]:
        indexes = {state: self.index(state) for state in STATES}
        unsettled = self.index("unsettled")
        for state, members in indexes.items():
            for task_id in members:
                if task_id not in self.tasks:
                    yield f"{state} holds {task_id}, which has no task"
        for task_id in unsettled.keys() - self.tasks.keys():
            yield f"unsettled holds {task_id}, which has no task"
        for task_id, fields in self.tasks.items():
            homes = [state for state, members in indexes.items() if task_id in members]
            if homes != [fields.get("status")]:
                yield f"{task_id} is {fields.get('status')} and stands in {homes}"
                continue
            yield from self._task(task_id, fields, indexes[homes[0]][task_id], task_id in unsettled)

    def _task(self, task_id: str, fields: dict[str, str], score: float, unsettled: bool) -> Iterator[str]:
        status = fields["status"]
        open_effects = int(fields.get("open_effects", "0"))
        if status == "leased":
            if score != int(fields["lease_expires_at"]):
                yield f"{task_id} expires at {fields['lease_expires_at']} by its hash and at {score} by its index"
            for name in ("lease_owner", "fencing_token", "claim_generation", "claimed_at"):
                if name not in fields:
                    yield f"{task_id} is leased without {name}"
        elif "lease_expires_at" in fields or "runtime_deadline" in fields:
            yield f"{task_id} is {status} and still expires"
        if open_effects < 0:
            yield f"{task_id} has {open_effects} open effects"
        in_doubt = status in ENDED and open_effects > 0
        if in_doubt != unsettled:
            yield f"{task_id} is {status} with {open_effects} open effects, unsettled: {unsettled}"
        if in_doubt and score != NEVER_SWEPT:
            yield f"{task_id} is in doubt and a sweep would meet it"
        if status == "reconciling" and not open_effects:
            yield f"{task_id} is reconciling without an open effect"

    def _numbers(self) -> Iterator[str]:
        for task_id, fields in {**self.tasks, "meta": self._hash("meta")}.items():
            for name, value in fields.items():
                if name not in ("name", "idempotency_key", "last_error") and _EXPONENT.search(value.encode()):
                    yield f"{task_id} has {name}={value}"
