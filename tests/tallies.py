"""What a queue holds, as numbers and byte for byte: what changed, and whether anything did."""

from __future__ import annotations

from collections import Counter
from typing import Any

import redis

from redislease.commands import claim, effects, settle
from redislease.keys import STATES, QueueKeys

_OF_TASKS = (
    *("attempts", "claim_generation", "renewals", "failures", "expirations", "releases", "same_errors"),
    *("open_effects", "effects"),
)
_NOT_COUNTED = {"layout", "fence", "sequence", "confirmed", "pause_nonce", "paused_at", "paused_epoch"}


def tally(client: redis.Redis, keys: QueueKeys) -> Counter[str]:
    """What a queue holds, as numbers: sizes of indexes, counters, and the sums of what tasks count."""
    found: Counter[str] = Counter()
    for index in (*STATES, "unsettled", "orphans", "workers"):
        found[index] = client.zcard(keys.index(index))
    for name in ("results", "progress"):
        found[name] = client.hlen(keys.base + name)
    found["audit"] = client.llen(keys.audit)
    for name, value in client.hgetall(keys.meta).items():
        if value.isdigit() and name.decode() not in _NOT_COUNTED:
            found[f"counted {name.decode()}"] = int(value)
    for key in client.scan_iter(f"{keys.base}task:*", count=1000):
        for name, value in zip(_OF_TASKS, client.hmget(key, _OF_TASKS), strict=True):
            found[name] += int(value or 0)
    for key in client.scan_iter(f"{keys.base}worker:*", count=1000):
        found["requests"] += int(client.hget(key, "requests") or 0)
    return found


def difference(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """What changed from one tally to another."""
    return {name: after[name] - before[name] for name in before | after if after[name] != before[name]}


def stored(client: redis.Redis, keys: QueueKeys, *, evidence: bool = True) -> dict[bytes, bytes | None]:
    """Every key of a queue, byte for byte; what proves that a write reached the replicas is left out."""
    names = sorted(client.scan_iter(f"{keys.base}*", count=1000))
    found = {}
    for name in names:
        if not evidence and name.startswith(keys.evidence("").encode()):
            continue
        if name == keys.meta.encode():
            meta = client.hgetall(name)
            found[name] = repr(sorted((k, v) for k, v in meta.items() if k != b"confirmed")).encode()
        else:
            found[name] = client.dump(name)
    return found


def without_replay(answer: Any) -> Any:
    """An answer in a form that can be compared: whether it is a repetition does not matter."""
    if isinstance(answer, settle.Settled):
        return (answer.status, answer.due_at, answer.open_effects)
    if isinstance(answer, effects.Recorded):
        return (answer.word, answer.detail)
    if isinstance(answer, claim.Claimed):
        return answer.grants
    if isinstance(answer, list | tuple):
        return [without_replay(item) for item in answer]
    return answer
