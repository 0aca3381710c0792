"""Effects whose reply was lost, and what is said of them too late."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from leasing import leased
from losing import dump
from virtual_clock import VirtualClock

from redislease import (
    LeaseLost,
)
from redislease.commands import effects as commands
from redislease.handle import Handle
from redislease.keys import QueueKeys

pytestmark = pytest.mark.contract


class TestReplays:
    """G7: an intent or an outcome whose reply was lost."""

    def test_an_intent(self, queue: Any) -> None:
        handle = Handle.decode(leased(queue, "non_idempotent").handle())
        call = commands.intent([commands.Intent(handle, "pay", "n1", "pay", "d")])
        assert queue.run(call) == queue.run(call)
        assert queue.get(handle.id).open_effects == 1

    @pytest.mark.parametrize("verdict", ["done", "not_done"])
    def test_an_outcome_and_a_late_intent(self, queue: Any, verdict: str) -> None:
        lease = leased(queue, "non_idempotent")
        handle = Handle.decode(lease.handle())
        intent = commands.intent([commands.Intent(handle, "pay", "n1", "pay", "d")])
        outcome = commands.outcome([commands.Verdict(handle, "pay", "n1", verdict, b'{"value":1}')])
        queue.run(intent)
        first, second = queue.run(outcome)[0], queue.run(outcome)[0]
        assert (first.word, first.replay, second.word, second.replay) == ("ok", False, "ok", True)
        assert queue.run(intent)[0].word == "reused"
        assert queue.get(handle.id).open_effects == 0
        lease.complete()
        assert queue.run(outcome)[0].word == "ok"
        events = [line["event"] for line in queue.evidence(lease.id)]
        assert events == ["intent", "outcome", "completed"]

    def test_an_outcome_of_somebody_else(self, queue: Any) -> None:
        handle = Handle.decode(leased(queue).handle())
        queue.run(commands.intent([commands.Intent(handle, "pay", "n1", "pay", "d")]))
        for key, nonce in (("pay", "n2"), ("other", "n1")):
            verdict = commands.Verdict(handle, key, nonce, "done", b'{"value":1}')
            assert queue.run(commands.outcome([verdict]))[0].word == "unknown_effect"
        verdict = commands.Verdict(handle, "pay", "n1", "done", b'{"value":1}')
        assert queue.run(commands.outcome([verdict]))[0].word == "ok"
        verdict = commands.Verdict(handle, "pay", "n1", "not_done", b'""')
        assert queue.run(commands.outcome([verdict]))[0].word == "closed"


class TestTestimony:
    """What a holder says about its effect after it lost the lease is kept, and decides nothing."""

    @pytest.mark.parametrize("way", ["expired", "reconciling", "cancelled", "revoked", "resolved", "reclaimed"])
    def test_it_is_kept_for_the_reconciler(
        self, queue: Any, other: Any, clock: VirtualClock, way: str, redis_client: redis.Redis, keys: QueueKeys
    ) -> None:
        lease = leased(queue, "idempotent" if way == "reclaimed" else "non_idempotent")
        effect = lease.effect("pay", request=1)
        effect.__enter__()
        if way in ("expired", "reconciling", "resolved", "reclaimed"):
            clock.advance_ms(60_001)
        if way == "reclaimed":
            assert other.claim()
        elif way in ("reconciling", "resolved"):
            queue.reap()
        elif way in ("cancelled", "revoked"):
            getattr(queue, {"cancelled": "cancel", "revoked": "revoke"}[way])(lease.id, by="ops")
        if way == "resolved":
            queue.resolve(lease.id, "done", by="ops", effects={"pay": "not_done"})
        before = {name: value for name, value in dump(redis_client, keys.base).items() if b":effects:" not in name}
        with pytest.raises(LeaseLost):
            effect.record({"charge": 7})
        after = {name: value for name, value in dump(redis_client, keys.base).items() if b":effects:" not in name}
        assert before == after
        state, late = redis_client.hget(keys.effects(lease.id), "pay").decode().split("\n")[0::3]
        assert state.split(" ")[0] == ("not_done" if way == "resolved" else "open")
        assert late.startswith("done ")
        assert [line["effect"] for line in queue.evidence(lease.id) if line["event"] == "late_outcome"] == ["pay"]

    def test_after_purge_and_the_same_id_again(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue, task_id="mine")
        effect = lease.effect("pay")
        effect.__enter__()
        queue.cancel("mine", by="ops")
        queue.resolve("mine", "done", by="ops", effects={"pay": "not_done"})
        clock.advance_ms(61_000)
        queue.purge(cancelled=0)
        with pytest.raises(LeaseLost, match="unknown"):
            effect.record()
        fresh = leased(queue, task_id="mine")
        with pytest.raises(LeaseLost):
            effect.record()
        assert fresh.run_effect("pay", lambda e: "fresh") == "fresh"
