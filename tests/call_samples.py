"""One call of every script, made by the function that makes it in production."""

from __future__ import annotations

from redislease.commands import claim, effects, enqueue, hold, inspect, operate, settle, sweep
from redislease.commands.enqueue import EnqueueRequest
from redislease.handle import Handle

HANDLES = [Handle("q", f"task-{number}", "worker-1", 1, 1_000 + number) for number in range(2)]
ITEMS = [
    enqueue.item(EnqueueRequest(name="n", payload={"x": 1}, side_effect="idempotent", idempotency_key="k")),
    enqueue.item(EnqueueRequest(name="n", side_effect="read_only", task_id="t", delay=1, max_runtime=90)),
]
DECISION = {"by": "ann", "reason": "seen"}

CALLS = [
    claim.register("worker"),
    claim.claim("worker-1", 1, limit=3),
    enqueue.enqueue(ITEMS),
    hold.renew([(handle, None) for handle in HANDLES]),
    hold.progress(HANDLES[0], 1, 1, 2, "half"),
    settle.complete([settle.Completion(handle) for handle in HANDLES]),
    settle.complete([settle.Completion(HANDLES[0], b"{}")], settle.NextClaim("worker-1", 2, 5)),
    settle.fail([settle.Failure(handle, "no") for handle in HANDLES]),
    settle.release([settle.Return(handle, delay_ms=5) for handle in HANDLES]),
    effects.intent([effects.Intent(handle, "smtp.send", "nonce", "smtp.send", "d" * 32) for handle in HANDLES]),
    effects.outcome([effects.Verdict(handle, "smtp.send", "nonce", "done", b"{}") for handle in HANDLES]),
    operate.cancel("t", **DECISION),
    operate.revoke("t", 7, **DECISION),
    operate.requeue("t", None, **DECISION),
    operate.resolve("t", "retry", 7, effects={"handler": "not_done"}, **DECISION),
    operate.pause("claims", 0, **DECISION),
    sweep.reap(),
    sweep.purge(),
    inspect.stats("q"),
    inspect.check("ready"),
]
