"""What a worker said of its effect too late: shown with the effects, and taken in when an operator says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from virtual_clock import VirtualClock

from redislease import Done, EffectError, LeaseLost, NotAllowedNow, NotDone, TaskUnknown
from redislease.keys import QueueKeys

pytestmark = pytest.mark.contract


def never(effect: Any) -> None:
    raise NotDone("no route")


def leased(queue: Any, side_effect: str = "non_idempotent", **options: Any) -> Any:
    queue.enqueue("mail", side_effect=side_effect, **({"records_effects": True} | options))
    (lease,) = queue.claim()
    return lease


def in_doubt(queue: Any, clock: VirtualClock, **late: Any) -> Any:
    """A task in reconciling whose worker has said what became of some effects after it had lost the lease.

    Args:
        queue: Where.
        clock: Its clock.
        late: For each effect `...` for silence, an exception for not done, or its outcome.
    """
    lease = leased(queue)
    effects = {key: lease.effect(key) for key in late}
    for effect in effects.values():
        effect.__enter__()
    clock.advance_ms(60_001)
    queue.reap()
    for key, outcome in late.items():
        with pytest.raises(LeaseLost):
            if isinstance(outcome, NotDone):
                effects[key].not_done(str(outcome))
            elif outcome is not ...:
                effects[key].record(outcome)
            else:
                lease.renew()
    assert queue.get(lease.id).status == "reconciling"
    return lease


class TestListing:
    def test_what_is_kept_of_each(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue)
        lease.run_effect("mail", lambda e: {"message": 5}, key="mail-1")
        clock.advance_ms(10)
        lease.run_effect("big", lambda e: "x" * 20_000)
        clock.advance_ms(10)
        with lease.effect("refused") as effect:
            effect.not_done("no route")
        clock.advance_ms(10)
        with pytest.raises(ZeroDivisionError), lease.effect("open"):
            1 / 0  # noqa: B018
        mail, big, refused, still = queue.effects(lease.id)
        start = VirtualClock.START_MS
        assert dict(mail) == {
            "key": "mail-1",
            "name": "mail",
            "state": "done",
            "generation": 1,
            "token": lease.fencing_token,
            "opened_at": start,
            "digest": mail.digest,
            "closed_at": start,
            "left_open_by": None,
            "outcome": {"message": 5},
            "not_stored": None,
            "reason": None,
            "testimony": None,
        }
        assert (big.state, big.outcome, big.not_stored["length"], big.not_stored["type"]) == (
            "done",
            None,
            20_002,
            "str",
        )
        assert (len(mail.digest), refused.digest) == (32, None)
        assert (refused.state, refused.reason, refused.closed_at) == ("not_done", "no route", start + 20)
        assert (still.state, still.opened_at, still.closed_at, still.outcome) == ("open", start + 30, None, None)

    def test_the_implicit_one_while_it_is_open(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue, records_effects=False)
        (handler,) = queue.effects(lease.id)
        assert (handler.key, handler.state, handler.generation) == ("handler", "open", 1)
        assert (handler.token, handler.opened_at) == (lease.fencing_token, VirtualClock.START_MS)
        lease.complete()
        assert queue.effects(lease.id) == []

    def test_testimony(self, queue: Any, clock: VirtualClock) -> None:
        lease = in_doubt(queue, clock, charge={"n": 7}, mail=NotDone("no route"), call=...)
        found = {one.key: one.testimony for one in queue.effects(lease.id)}
        assert (found["charge"].verdict, found["charge"].outcome, found["charge"].at) == (
            "done",
            {"n": 7},
            clock.now_ms,
        )
        assert (found["mail"].verdict, found["mail"].reason, found["call"]) == ("not_done", "no route", None)

    def test_tasks_that_are_not_there(self, queue: Any) -> None:
        with pytest.raises(TaskUnknown):
            queue.effects("nothing")
        assert queue.effects(queue.enqueue("work", side_effect="read_only").id) == []


class TestTakingItIn:
    def test_the_next_attempt_reads_it(self, queue: Any, clock: VirtualClock) -> None:
        lease = in_doubt(queue, clock, charge={"n": 7}, mail=NotDone("no route"))
        assert queue.resolve(lease.id, "retry", by="ops", accept_late=True).status == "ready"
        (later,) = queue.claim()
        assert later.run_effect("charge", lambda e: 1 / 0) == {"n": 7}
        assert later.run_effect("mail", lambda e: "sent") == "sent"
        later.complete()
        assert queue.get(lease.id).open_effects == 0

    def test_the_evidence_says_whose_word_it_was(self, queue: Any, clock: VirtualClock) -> None:
        lease = in_doubt(queue, clock, charge={"n": 7}, mail=NotDone("no route"), call=1)
        queue.resolve(lease.id, "done", by="ops", effects={"call": "not_done"}, accept_late=True)
        (line,) = [line for line in queue.evidence(lease.id) if line["event"] == "effects_decided"]
        assert line["effects"] == {"charge": "done", "mail": "not_done", "call": "not_done"}
        assert sorted(line["testimony"]) == ["charge", "mail"]

    def test_only_when_it_is_asked_for(self, queue: Any, clock: VirtualClock) -> None:
        lease = in_doubt(queue, clock, charge=1)
        with pytest.raises(NotAllowedNow) as refused:
            queue.resolve(lease.id, "retry", by="ops")
        assert refused.value.reason == "open_effects"

    def test_what_the_operator_found_out_counts_more(self, queue: Any, clock: VirtualClock) -> None:
        lease = in_doubt(queue, clock, charge=1, mail=2)
        found = {"charge": Done("by hand"), "mail": "not_done"}
        queue.resolve(lease.id, "retry", by="ops", effects=found, accept_late=True)
        (later,) = queue.claim()
        assert later.run_effect("charge", lambda e: 1 / 0) == "by hand"
        assert later.run_effect("mail", lambda e: "now") == "now"

    def test_silence_is_no_testimony(self, queue: Any, clock: VirtualClock) -> None:
        lease = in_doubt(queue, clock, charge=1, mail=...)
        with pytest.raises(NotAllowedNow):
            queue.resolve(lease.id, "retry", by="ops", accept_late=True)
        queue.resolve(lease.id, "dead", by="ops", accept_late=True)
        assert [(one.key, one.state) for one in queue.effects(lease.id)] == [("charge", "done"), ("mail", "open")]
        assert [one.id for one in queue.tasks("unsettled")] == [lease.id]
        queue.resolve(lease.id, "dead", by="ops", effects={"mail": "done"}, accept_late=True)
        assert queue.tasks("unsettled") == []

    def test_an_outcome_that_was_not_kept_stays_one(self, queue: Any, clock: VirtualClock) -> None:
        lease = in_doubt(queue, clock, charge="x" * 20_000)
        queue.resolve(lease.id, "done", by="ops", accept_late=True)
        (charge,) = queue.effects(lease.id)
        assert (charge.state, charge.outcome, charge.not_stored["length"]) == ("done", None, 20_002)

    def test_on_an_ended_task(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue)
        effect = lease.effect("charge")
        effect.__enter__()
        queue.cancel(lease.id, by="ops")
        with pytest.raises(LeaseLost):
            effect.record("charged")
        assert queue.resolve(lease.id, "done", by="ops", accept_late=True).status == "cancelled"
        assert queue.tasks("unsettled") == []
        assert queue.effects(lease.id)[0].outcome == "charged"

    def test_a_later_attempt_is_safe_from_a_late_decision(
        self, queue: Any, clock: VirtualClock, redis_client: redis.Redis, keys: QueueKeys
    ) -> None:
        """The decision carries the token that was seen: testimony of the attempt before decides nothing of this one."""
        lease = in_doubt(queue, clock, charge=1)
        seen = queue.get(lease.id).fencing_token
        queue.resolve(lease.id, "retry", by="ops", effects={"charge": "not_done"})
        (later,) = queue.claim()
        later.effect("charge").__enter__()
        later.fail("x")
        before = redis_client.hgetall(keys.effects(lease.id))
        with pytest.raises(NotAllowedNow) as refused:
            queue.resolve(lease.id, "retry", token=seen, by="late", accept_late=True)
        assert (refused.value.reason, refused.value.decided_by) == ("token", "ops")
        assert redis_client.hgetall(keys.effects(lease.id)) == before


class TestLateOutcomes:
    """Refused, and never without a trace."""

    def late_lines(self, queue: Any, task_id: str) -> list[tuple[str, str]]:
        lines = queue.evidence(task_id)
        return [(line["effect"], line["verdict"]) for line in lines if line["event"] == "late_outcome"]

    def test_of_an_effect_that_the_next_attempt_has_begun_again(self, queue: Any, clock: VirtualClock) -> None:
        """The record is the next attempt's by now, and says who had begun it before: both are heard."""
        lease = leased(queue, "idempotent")
        late = lease.effect("charge")
        late.__enter__()
        clock.advance_ms(60_001)
        (later,) = queue.claim()
        with later.effect("charge") as effect:
            with pytest.raises(LeaseLost):
                late.record("late")
            assert queue.effects(lease.id)[0].testimony.outcome == "late"
            effect.record("in time")
        assert self.late_lines(queue, lease.id) == [("charge", "done")]
        (record,) = queue.effects(lease.id)
        assert (record.outcome, record.testimony.outcome) == ("in time", "late"), "it happened twice: both are known"

    @pytest.mark.parametrize("verdict", ["done", "not_done"])
    def test_of_an_effect_that_an_operator_has_decided_alike(
        self, queue: Any, clock: VirtualClock, verdict: str
    ) -> None:
        """What the worker says is not what the operator found, although the verdict is the same."""
        lease = leased(queue)
        late = lease.effect("charge")
        late.__enter__()
        clock.advance_ms(60_001)
        queue.reap()
        queue.resolve(lease.id, "dead", by="ops", effects={"charge": verdict})
        with pytest.raises(LeaseLost):
            late.record("late") if verdict == "done" else late.not_done("late")
        assert self.late_lines(queue, lease.id) == [("charge", verdict)]
        (record,) = queue.effects(lease.id)
        assert (record.state, record.outcome) == (verdict, None)
        assert (record.testimony is not None) == (verdict == "done"), "an outcome is kept, whatever was decided"

    def test_keys_with_quotes(
        self, queue: Any, clock: VirtualClock, redis_client: redis.Redis, keys: QueueKeys
    ) -> None:
        """The head of the evidence stays JSON whatever effects are called."""
        lease = in_doubt(queue, clock, **{'say "hi" \\': "said"})
        assert self.late_lines(queue, lease.id) == [('say "hi" \\', "done")]
        assert json.loads(redis_client.lindex(keys.evidence(lease.id), 0))["late"] == 1


def test_an_outcome_is_recorded_once(queue: Any) -> None:
    """The same again is a replay; another one is not taken for it."""
    lease = leased(queue)
    with lease.effect("charge") as effect:
        effect.record("first")
        effect.record("first")
        with pytest.raises(EffectError, match="recorded as done already"):
            effect.record("second")
        with pytest.raises(EffectError, match="recorded as done already"):
            effect.not_done()
    assert queue.effects(lease.id)[0].outcome == "first"
