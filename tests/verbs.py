"""Every verb of the protocol, once: how to get ready for it, the call itself, and what one effect of it looks like.

A `Call` is made once and can be sent again: that is what a lost reply, a late packet and a retry do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from virtual_clock import VirtualClock

from redislease.commands import claim, effects, enqueue, hold, inspect, operate, settle, sweep
from redislease.commands.call import Call
from redislease.handle import Handle

OPS = "ops"


@dataclass
class Stage:
    """An empty queue of either flavour, on a clock that the test sets."""

    queue: Any
    clock: VirtualClock

    def lease(self, task_id: str = "t", **options: Any) -> Any:
        """A task that is leased."""
        options = {"side_effect": "idempotent", "lease_duration": 600, "max_expirations": 99, **options}
        self.queue.enqueue("work", {"n": 1}, task_id=task_id, **options)
        (lease,) = self.queue.claim()
        return lease

    def handle(self, task_id: str = "t", **options: Any) -> Handle:
        """The handle of such a task."""
        return Handle.decode(self.lease(task_id, **options).handle())


def _register(stage: Stage) -> Call[Any]:
    return claim.register("w")


def _draw(stage: Stage) -> Call[Any]:
    return claim.register("w", owner=stage.queue.register("w").name)


def _enqueue(stage: Stage) -> Call[Any]:
    asked = [
        {"name": "now", "side_effect": "idempotent", "payload": {"a": [1]}, "idempotency_key": "k"},
        {"name": "later", "side_effect": "idempotent", "delay": 600, "task_id": "later"},
    ]
    return enqueue.enqueue([enqueue.item(enqueue.request(one)) for one in asked])


def _ready(stage: Stage, amount: int) -> None:
    for number in range(amount):
        stage.queue.enqueue("work", {"n": number}, task_id=f"ready-{number}", side_effect="idempotent")


def _claim(stage: Stage) -> Call[Any]:
    _ready(stage, 3)
    owner = stage.queue.register("w")
    return claim.claim(owner.name, owner.request_number, limit=2)


def _claim_in_doubt(stage: Stage) -> Call[Any]:
    stage.queue.enqueue("work", task_id="t", side_effect="non_idempotent")
    owner = stage.queue.register("w")
    return claim.claim(owner.name, owner.request_number)


def _renew(stage: Stage) -> Call[Any]:
    handle = stage.handle()
    stage.clock.advance_ms(1_000)
    return hold.renew([(handle, None)])


def _progress(stage: Stage) -> Call[Any]:
    return hold.progress(stage.handle(), 1, 1, 2, "half")


def _complete(stage: Stage) -> Call[Any]:
    return settle.complete([settle.Completion(stage.handle(), b'{"r":1}')])


def _complete_and_claim(stage: Stage) -> Call[Any]:
    handle = stage.handle()
    _ready(stage, 2)
    owner = stage.queue.register("w")
    following = settle.NextClaim(owner.name, owner.request_number, 1)
    return settle.complete([settle.Completion(handle, b'{"r":1}')], following)


def _fail(stage: Stage) -> Call[Any]:
    return settle.fail([settle.Failure(stage.handle(), "it\nbroke", delay_ms=5_000, fingerprint="f")])


def _fail_for_good(stage: Stage) -> Call[Any]:
    return settle.fail([settle.Failure(stage.handle(), "it broke", retry=False)])


def _release(stage: Stage) -> Call[Any]:
    return settle.release([settle.Return(stage.handle())])


def _return(stage: Stage) -> Call[Any]:
    return settle.release([settle.Return(stage.handle(), delay_ms=1_000, never_started=True, fresh=True)])


def _intent_of(handle: Handle) -> effects.Intent:
    return effects.Intent(handle, "smtp.send", "nonce0", "smtp.send", effects.request_digest({"to": "a"}))


def _intent(stage: Stage) -> Call[Any]:
    return effects.intent([_intent_of(stage.handle(side_effect="non_idempotent", records_effects=True))])


def _intent_again(stage: Stage) -> Call[Any]:
    first = stage.handle(lease_duration=1)
    stage.queue.run(effects.intent([_intent_of(first)]))
    stage.clock.advance_ms(2_000)
    (lease,) = stage.queue.claim()
    handle = Handle.decode(lease.handle())
    return effects.intent([effects.Intent(handle, "smtp.send", "nonce1", "smtp.send", _intent_of(first).digest)])


def _outcome(stage: Stage) -> Call[Any]:
    handle = stage.handle(side_effect="non_idempotent", records_effects=True)
    stage.queue.run(effects.intent([_intent_of(handle)]))
    return effects.outcome([effects.Verdict(handle, "smtp.send", "nonce0", "done", effects.encode_outcome({"id": 7}))])


def _cancel(stage: Stage) -> Call[Any]:
    return operate.cancel(stage.lease().id, by=OPS, reason="no")


def _revoke(stage: Stage) -> Call[Any]:
    lease = stage.lease()
    return operate.revoke(lease.id, lease.fencing_token, by=OPS, reason="no")


def _in_doubt(stage: Stage) -> Any:
    lease = stage.lease(side_effect="non_idempotent")
    lease.fail("boom")
    return lease


def _resolve(stage: Stage) -> Call[Any]:
    lease = _in_doubt(stage)
    return operate.resolve(lease.id, "retry", lease.fencing_token, by=OPS, effects={"handler": "not_done"})


def _resolve_done(stage: Stage) -> Call[Any]:
    lease = _in_doubt(stage)
    return operate.resolve(lease.id, "done", lease.fencing_token, by=OPS, effects={"handler": "done"}, result=[1])


def _requeue(stage: Stage) -> Call[Any]:
    lease = stage.lease()
    lease.fail("boom", retry=False)
    return operate.requeue(lease.id, lease.fencing_token, by=OPS)


def _pause(stage: Stage) -> Call[Any]:
    return operate.pause("effects", stage.queue.stats().epoch, by=OPS)


def _resume(stage: Stage) -> Call[Any]:
    stage.queue.pause(by=OPS)
    _ready(stage, 1)
    return operate.pause("", stage.queue.stats().epoch, by=OPS)


def _reap(stage: Stage) -> Call[Any]:
    stage.lease(lease_duration=1)
    stage.queue.enqueue("work", side_effect="idempotent", task_id="due", delay=1)
    stage.clock.advance_ms(2_000)
    return sweep.reap()


def _purge(stage: Stage) -> Call[Any]:
    stage.lease(idempotency_key="k").complete({"r": 1})
    stage.clock.advance_ms(61_000)
    return sweep.purge(completed_ms=60_000, by=OPS)


def _stats(stage: Stage) -> Call[Any]:
    _ready(stage, 1)
    return inspect.stats(stage.queue.name)


def _check(stage: Stage) -> Call[Any]:
    _ready(stage, 1)
    return inspect.check("ready")


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes:
        name: What the tests call it.
        prepare: Sets the stage, and makes the call.
        effect: How `tally` differs after the call took effect once.
        when_full: At maxmemory it `works`, is `refused` whole, or only `reads`.
        repeated: Sent again it gets the `same` answer, finds nothing more to do (`swept`), is one more heartbeat
            (`beat`), or draws one more identity or number (`spare`): sweeps, renewals and register are no decisions.
    """

    name: str
    prepare: Callable[[Stage], Call[Any]]
    effect: Mapping[str, int]
    when_full: str = "works"
    repeated: str = "same"


def _moved(origin: str, to: str, **more: int) -> dict[str, int]:
    return {origin: -1, to: 1, **more}


VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("register", _register, {"workers": 1, "counted worker_sequence": 1, "requests": 1}, repeated="spare"),
        Verb("draw", _draw, {"requests": 1}, repeated="spare"),
        Verb("enqueue", _enqueue, {"ready": 1, "scheduled": 1, "counted enqueued": 2}, "refused"),
        Verb(
            "claim",
            _claim,
            {"ready": -2, "leased": 2, "attempts": 2, "claim_generation": 2, "counted claimed": 2},
        ),
        Verb(
            "claim in doubt",
            _claim_in_doubt,
            _moved("ready", "leased", attempts=1, claim_generation=1, open_effects=1) | {"counted claimed": 1},
        ),
        Verb("renew", _renew, {"renewals": 1}, repeated="beat"),
        Verb("progress", _progress, {"progress": 1}),
        Verb("complete", _complete, _moved("leased", "completed", results=1) | {"counted completed": 1}),
        Verb(
            "complete+claim",
            _complete_and_claim,
            {"completed": 1, "ready": -1, "results": 1, "attempts": 1, "claim_generation": 1}
            | {"counted completed": 1, "counted claimed": 1},
        ),
        Verb("fail", _fail, _moved("leased", "scheduled", failures=1, same_errors=1) | {"counted failed": 1}),
        Verb("fail for good", _fail_for_good, _moved("leased", "dead", failures=1) | {"counted fatal": 1}),
        Verb("release", _release, _moved("leased", "ready", releases=1) | {"counted released": 1}),
        Verb("return", _return, _moved("leased", "scheduled", attempts=-1) | {"counted returned": 1}),
        Verb("intent", _intent, {"open_effects": 1, "effects": 1}, "refused"),
        Verb("intent again", _intent_again, {}, "refused"),
        Verb("outcome", _outcome, {"open_effects": -1}),
        Verb("cancel", _cancel, _moved("leased", "cancelled", audit=1) | {"counted cancelled": 1}),
        Verb("revoke", _revoke, _moved("leased", "ready", releases=1, audit=1) | {"counted revoked": 1}),
        Verb(
            "resolve",
            _resolve,
            _moved("reconciling", "ready", failures=-1, same_errors=-1, open_effects=-1, audit=1)
            | {"counted resolved": 1},
        ),
        Verb(
            "resolve done",
            _resolve_done,
            _moved("reconciling", "completed", failures=-1, same_errors=-1, open_effects=-1, audit=1)
            | {"counted resolved": 1, "results": 1},
        ),
        Verb("requeue", _requeue, _moved("dead", "ready", failures=-1, audit=1) | {"counted requeued": 1}),
        Verb("pause", _pause, {"counted epoch": 1, "audit": 1}),
        Verb("resume", _resume, {"counted epoch": 1, "audit": 1}),
        Verb(
            "reap",
            _reap,
            {"leased": -1, "scheduled": -1, "ready": 2, "expirations": 1}
            | {"counted expired": 1, "counted promoted": 1},
            repeated="swept",
        ),
        Verb(
            "purge",
            _purge,
            {"completed": -1, "results": -1, "attempts": -1, "claim_generation": -1, "audit": 1},
            repeated="swept",
        ),
        Verb("stats", _stats, {}, "reads"),
        Verb("check", _check, {}, "reads"),
    )
}

WRITING = {name: verb for name, verb in VERBS.items() if verb.when_full != "reads"}
