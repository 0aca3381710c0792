"""Testimony of several attempts at one effect: whose word is kept, and what it can answer."""

from __future__ import annotations

from typing import Any

import pytest
from leasing import again, leased
from virtual_clock import VirtualClock

from redislease import Done, LeaseLost, NotAllowedNow, NotDone
from redislease.commands import effects as commands

pytestmark = pytest.mark.contract


def never(effect: Any) -> None:
    raise NotDone("no route")


def lost_with_open_charge(queue: Any, clock: VirtualClock, **options: Any) -> tuple[Any, Any]:
    """A lease that has expired while its effect `charge` was open, and that effect."""
    lease = leased(queue, "non_idempotent")
    effect = lease.effect("charge", **options).__enter__()
    clock.advance_ms(60_001)
    queue.reap()
    return lease, effect


def test_it_survives_a_try_that_did_not_happen(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue, "idempotent")
    first = lease.effect("charge").__enter__()
    clock.advance_ms(60_001)
    queue.reap()
    with pytest.raises(LeaseLost):
        first.record({"charge": "ch_1"})
    assert queue.effects(lease.id)[0].testimony.outcome == {"charge": "ch_1"}
    (second,) = queue.claim()
    with pytest.raises(NotDone):
        second.run_effect("charge", never)
    second.fail("no route", retry=False)
    (record,) = queue.effects(lease.id)
    assert (record.state, record.generation) == ("open", 1)
    assert record.testimony is not None


def test_the_attempt_that_is_in_doubt_is_heard(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue, "idempotent")
    first = lease.effect("charge").__enter__()
    second = again(queue, clock)
    with pytest.raises(NotDone):
        second.run_effect("charge", never)
    second.fail("no route", retry=False)
    with pytest.raises(LeaseLost):
        first.record({"charge": "ch_1"})
    (record,) = queue.effects(lease.id)
    assert (record.state, record.generation) == ("open", 1)
    assert record.testimony is not None


def test_a_late_not_done_says_nothing_of_the_try_before(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue, "idempotent", max_expirations=2)
    lease.effect("charge").__enter__()
    second = again(queue, clock).effect("charge").__enter__()
    assert second.again
    clock.advance_ms(60_001)
    queue.reap()
    with pytest.raises(LeaseLost):
        second.not_done("no route")
    with pytest.raises(NotAllowedNow):
        queue.resolve(lease.id, "dead", by="ops", accept_late=True)
    assert queue.effects(lease.id)[0].state == "open"


def test_an_outcome_is_kept_also_after_the_decision(queue: Any, clock: VirtualClock) -> None:
    lease, first = lost_with_open_charge(queue, clock)
    queue.resolve(lease.id, "retry", by="ops", effects={"charge": "not_done"})
    (second,) = queue.claim()
    second.run_effect("charge", lambda e: {"charge": "ch_2"})
    second.complete()
    with pytest.raises(LeaseLost):
        first.record({"charge": "ch_1"})
    assert "ch_1" in f"{queue.evidence(lease.id)} {queue.effects(lease.id)}"


def test_an_operators_own_finding_is_no_testimony(queue: Any, clock: VirtualClock) -> None:
    lease, effect = lost_with_open_charge(queue, clock)
    with pytest.raises(LeaseLost):
        effect.record()
    queue.resolve(lease.id, "done", by="ops", effects={"charge": "done"})
    (line,) = [one for one in queue.evidence(lease.id) if one["event"] == "effects_decided"]
    assert line["testimony"] == []


def test_that_it_was_done_counts_more_than_that_it_was_not(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue, "non_idempotent")
    effect = lease.effect("charge").__enter__()
    held, nonce = lease._handle, effect._nonce
    clock.advance_ms(60_001)
    queue.reap()
    said = [("not_done", b'"no route"'), ("done", b'{"value":7}'), ("not_done", b'"no"'), ("done", b'{"value":8}')]
    for verdict, stored in said:
        queue.run(commands.outcome([commands.Verdict(held, "charge", nonce, verdict, stored)]))
    (record,) = queue.effects(lease.id)
    assert (record.state, record.testimony.verdict, record.testimony.outcome) == ("open", "done", 7)
    told = [line["verdict"] for line in queue.evidence(lease.id) if line["event"] == "late_outcome"]
    assert told == ["not_done", "done"]


class TestLaterAttempts:
    """Whose word it is decides what it can answer."""

    def decided(self, queue: Any, clock: VirtualClock, **options: Any) -> Any:
        """The second attempt's lease, after an operator said that the first one's charge was not done, and it was."""
        lease, first = lost_with_open_charge(queue, clock, **options)
        queue.resolve(lease.id, "retry", by="ops", effects={"charge": "not_done"})
        with pytest.raises(LeaseLost):
            first.record("ch_1")
        (second,) = queue.claim()
        return second

    def test_a_word_that_was_judged_answers_no_later_try(self, queue: Any, clock: VirtualClock) -> None:
        second = self.decided(queue, clock, request={"amount": 100})
        second.effect("charge", request={"amount": 200}).__enter__()
        clock.advance_ms(60_001)
        queue.reap()
        (record,) = queue.effects(second.id)
        assert (record.state, record.testimony.outcome) == ("open", "ch_1"), "it is still shown"
        with pytest.raises(NotAllowedNow):
            queue.resolve(second.id, "retry", by="ops", accept_late=True)

    def test_the_try_in_question_counts_more_than_the_one_before(self, queue: Any, clock: VirtualClock) -> None:
        second = self.decided(queue, clock)
        late = second.effect("charge").__enter__()
        clock.advance_ms(60_001)
        queue.reap()
        with pytest.raises(LeaseLost):
            late.record("ch_2")
        queue.resolve(second.id, "retry", by="ops", accept_late=True)
        (third,) = queue.claim()
        assert third.run_effect("charge", lambda effect: 1 / 0) == "ch_2"

    def test_the_one_before_answers_while_its_try_was_never_decided(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue, "idempotent", max_expirations=2)
        first = lease.effect("charge").__enter__()
        again(queue, clock).effect("charge").__enter__()
        clock.advance_ms(60_001)
        queue.reap()
        with pytest.raises(LeaseLost):
            first.record("ch_1")
        assert queue.resolve(lease.id, "done", by="ops", accept_late=True).status == "dead"
        assert [(one.state, one.outcome) for one in queue.effects(lease.id)] == [("done", "ch_1")]

    def test_a_try_that_never_left_stands_before_nobody(self, queue: Any, clock: VirtualClock) -> None:
        lease, first = lost_with_open_charge(queue, clock)
        queue.resolve(lease.id, "retry", by="ops", effects={"charge": "not_done"})
        (second,) = queue.claim()
        with pytest.raises(NotDone):
            second.run_effect("charge", never)
        second.fail("no route")
        clock.advance_ms(60_000)
        (third,) = queue.claim()
        third.run_effect("charge", lambda effect: "ch_3")
        with pytest.raises(LeaseLost):
            first.record("ch_1")
        (record,) = queue.effects(lease.id)
        assert (record.outcome, record.testimony.outcome) == ("ch_3", "ch_1")

    @pytest.mark.parametrize("outcome", [None, 7])
    def test_an_operators_finding_of_the_same_bytes_is_no_answer(
        self, queue: Any, clock: VirtualClock, outcome: Any
    ) -> None:
        lease, late = lost_with_open_charge(queue, clock)
        queue.resolve(lease.id, "dead", by="ops", effects={"charge": Done(outcome)})
        with pytest.raises(LeaseLost):
            late.record(outcome)
        assert "late_outcome" in [line["event"] for line in queue.evidence(lease.id)]
