"""Operators: decisions that stand, are made once, and never hit a later attempt."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from losing import dump
from servers import once
from virtual_clock import VirtualClock

from redislease import InvalidInput, NotAllowedNow, TaskUnknown
from redislease.commands import operate
from redislease.keys import QueueKeys

pytestmark = pytest.mark.contract


def leased(queue: Any, side_effect: str = "idempotent", **options: Any) -> Any:
    queue.enqueue("work", {"n": 1}, side_effect=side_effect, **options)
    (lease,) = queue.claim()
    return lease


def in_doubt(queue: Any) -> Any:
    lease = leased(queue, "non_idempotent")
    lease.fail("connection reset")
    return lease


def test_cancel_from_every_live_state(queue: Any) -> None:
    queue.enqueue("work", side_effect="read_only", task_id="waits")
    queue.enqueue("work", side_effect="read_only", task_id="later", delay=9)
    for task_id in ("waits", "later"):
        assert queue.cancel(task_id, by="ops").status == "cancelled"
    for lease in (leased(queue), in_doubt(queue)):
        assert queue.cancel(lease.id, by="ops").status == "cancelled"
    assert queue.stats().states["cancelled"] == 4
    assert queue.stats().unsettled == 1


@pytest.mark.parametrize("ended", ["completed", "dead", "cancelled"])
def test_cancel_is_refused_for_what_has_ended(
    queue: Any, ended: str, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    lease = leased(queue)
    if ended == "completed":
        lease.complete()
    elif ended == "dead":
        lease.fail("x", retry=False)
    else:
        queue.cancel(lease.id, by="first", reason="spam")
    before = dump(redis_client, keys.base)
    with pytest.raises(NotAllowedNow) as refused:
        queue.cancel(lease.id, by="second")
    assert (refused.value.reason, refused.value.status) == ("status", ended)
    assert refused.value.decided_by == ("first" if ended == "cancelled" else "")
    assert dump(redis_client, keys.base) == before


@pytest.mark.parametrize("verb", ["cancel", "revoke", "requeue", "resolve"])
def test_sent_twice_a_decision_has_one_effect_and_one_answer(queue: Any, verb: str) -> None:
    lease = in_doubt(queue) if verb == "resolve" else leased(queue)
    token = lease.fencing_token
    if verb == "requeue":
        lease.fail("x", retry=False)
    call = {
        "cancel": lambda: operate.cancel(lease.id, by="ops"),
        "revoke": lambda: operate.revoke(lease.id, token, by="ops"),
        "requeue": lambda: operate.requeue(lease.id, token, by="ops"),
        "resolve": lambda: operate.resolve(lease.id, "done", token, by="ops", effects={"handler": "done"}),
    }[verb]()
    first, again = queue.run(call), queue.run(call)
    assert first == again
    assert len([line for line in queue.evidence(lease.id) if line["event"] == verb]) == 1
    assert len(queue.audit()) == 1


@pytest.mark.parametrize("verb", ["revoke", "requeue", "resolve"])
def test_a_late_decision_never_hits_a_later_attempt(queue: Any, clock: VirtualClock, verb: str) -> None:
    """It names the token that the operator saw; the duplicate that arrives after a new claim is refused."""
    lease = leased(queue)
    token = lease.fencing_token
    clock.advance_ms(60_001)
    (second,) = queue.claim()
    if verb == "requeue":
        second.fail("x", retry=False)
    with pytest.raises(NotAllowedNow) as refused:
        if verb == "resolve":
            queue.resolve(lease.id, "done", token=token, by="ops")
        else:
            getattr(queue, verb)(lease.id, token=token, by="ops")
    assert refused.value.reason == "token"
    if verb != "requeue":
        second.complete()


def test_two_operators(queue: Any) -> None:
    """The second is told who decided what, and when."""
    lease = in_doubt(queue)
    queue.resolve(lease.id, "dead", by="anna", reason="bounced", token=lease.fencing_token)
    with pytest.raises(NotAllowedNow) as refused:
        queue.resolve(lease.id, "retry", by="ben", token=lease.fencing_token, effects={"handler": "not_done"})
    assert (refused.value.decided_by, refused.value.decided) == ("anna", "resolve")
    assert refused.value.decided_at_ms == queue.stats().now
    assert "anna decided resolve" in str(refused.value)


def test_resolve_done(queue: Any, clock: VirtualClock) -> None:
    lease = in_doubt(queue)
    decided = queue.resolve(lease.id, "done", by="ops", effects={"handler": "done"}, result={"id": 5})
    assert decided.status == "completed"
    assert queue.result(lease.id) == {"id": 5}
    assert queue.get(lease.id).open_effects == 0
    clock.advance_ms(61_000)
    assert queue.purge(completed=0).completed == 1


def test_resolve_retry_needs_every_effect_decided(queue: Any) -> None:
    lease = in_doubt(queue)
    with pytest.raises(NotAllowedNow) as refused:
        queue.resolve(lease.id, "retry", by="ops")
    assert refused.value.reason == "open_effects"
    with pytest.raises(InvalidInput):
        queue.resolve(lease.id, "retry", by="ops", effects={"handler": "done"})
    assert queue.resolve(lease.id, "retry", by="ops", effects={"handler": "not_done"}).status == "ready"
    task = queue.get(lease.id)
    assert (task.failures, task.open_effects) == (0, 0)
    (again,) = queue.claim()
    assert again.generation == 2
    again.complete()


@pytest.mark.parametrize("decision", ["done", "dead"])
def test_undecided_effects_stay_unsettled_until_they_are_closed(queue: Any, clock: VirtualClock, decision: str) -> None:
    lease = in_doubt(queue)
    queue.resolve(lease.id, decision, by="ops")
    clock.advance_ms(10**9)
    queue.purge(completed=60, dead=60)
    assert [one.id for one in queue.tasks("unsettled")] == [lease.id]
    status = queue.get(lease.id).status
    closing = queue.resolve(lease.id, "done", by="ops", effects={"handler": "not_done"})
    assert closing.status == status
    assert queue.tasks("unsettled") == []
    clock.advance_ms(61_000)
    purged = queue.purge(completed=60, dead=60)
    assert purged.completed + purged.dead == 1


def test_resolve_of_what_is_not_in_doubt(queue: Any) -> None:
    lease = leased(queue, "non_idempotent")
    with pytest.raises(NotAllowedNow):
        queue.resolve(lease.id, "done", by="ops")
    lease.complete()
    with pytest.raises(NotAllowedNow):
        queue.resolve(lease.id, "retry", by="ops")
    lease = in_doubt(queue)
    for effects in ({"other": "done"}, {"handler": "done", "other": "done"}):
        with pytest.raises(InvalidInput, match="other"):
            queue.resolve(lease.id, "done", by="ops", effects=effects)
    with pytest.raises(InvalidInput):
        queue.resolve(lease.id, "maybe", by="ops")
    with pytest.raises(InvalidInput):
        queue.resolve(lease.id, "done", by="ops", effects={"handler": "perhaps"})


def test_requeue_gives_a_clean_record_and_a_place_at_the_back(queue: Any) -> None:
    lease = leased(queue, max_attempts=1)
    assert lease.fail("x").status == "dead"
    queue.enqueue("waits", side_effect="read_only")
    assert queue.requeue(lease.id, by="ops", reason="fixed").status == "ready"
    assert queue.get(lease.id).failures == 0
    assert [one.task.name for one in queue.claim(5)] == ["waits", "work"]


def test_requeue_of_a_task_in_doubt_is_refused(queue: Any) -> None:
    lease = in_doubt(queue)
    queue.resolve(lease.id, "dead", by="ops")
    with pytest.raises(NotAllowedNow) as refused:
        queue.requeue(lease.id, by="ops")
    assert refused.value.reason == "open_effects"


def test_revoke_lets_the_policy_decide(queue: Any) -> None:
    safe = leased(queue, "idempotent")
    assert queue.revoke(safe.id, by="ops").status == "ready"
    assert queue.get(safe.id).last_error == "revoked"
    queue.claim()[0].complete()
    risky = leased(queue, "non_idempotent")
    assert queue.revoke(risky.id, by="ops").status == "reconciling"
    with pytest.raises(NotAllowedNow):
        queue.revoke(risky.id, by="ops")


@pytest.mark.parametrize("verb", ["cancel", "revoke", "requeue", "resolve"])
def test_an_unknown_task(queue: Any, verb: str) -> None:
    arguments = ("nobody", "done") if verb == "resolve" else ("nobody",)
    with pytest.raises(TaskUnknown):
        getattr(queue, verb)(*arguments, by="ops")


@once
@pytest.mark.parametrize("by", ["", "x" * 65, "a\nb", None, 5, "\ud800"], ids=repr)
def test_who_decides_must_have_a_name(queue: Any, by: Any) -> None:
    lease = leased(queue)
    for verb in (queue.cancel, queue.revoke, queue.requeue):
        with pytest.raises(InvalidInput):
            verb(lease.id, by=by)
    with pytest.raises(InvalidInput):
        queue.pause(by=by)
    with pytest.raises(InvalidInput):
        queue.cancel(lease.id, by="ops", reason="x" * 1_025)


def test_reasons_are_kept_as_they_are(queue: Any) -> None:
    reason = 'said "no"\\\n\tand\x00left\x1b[31m 🦊 {x}: é'
    lease = leased(queue)
    queue.cancel(lease.id, by="ánna", reason=reason)
    assert [(line["by"], line["reason"]) for line in queue.audit()] == [("ánna", reason)]
    assert queue.evidence(lease.id)[-1]["reason"] == reason


class TestPause:
    def test_a_paused_queue_hands_nothing_out(self, queue: Any, clock: VirtualClock) -> None:
        lease = leased(queue)
        queue.enqueue("work", side_effect="read_only")
        assert queue.pause(by="ops", reason="incident").level == "claims"
        assert queue.claim(5) == []
        lease.complete()
        stats = queue.stats()
        assert (stats.pause, stats.paused_by, stats.paused_reason) == ("claims", "ops", "incident")
        queue.resume(by="ops")
        assert len(queue.claim(5)) == 1

    def test_time_goes_on_while_paused(self, queue: Any, clock: VirtualClock) -> None:
        """A paused claim still promotes and recovers; it rings nobody."""
        leased(queue)
        queue.enqueue("work", side_effect="read_only", delay=5)
        queue.pause(by="ops")
        clock.advance_ms(60_001)
        assert queue.claim(5) == []
        assert queue.stats().states["ready"] == 2

    def test_resume_rings(self, queue: Any, redis_client: redis.Redis, keys: QueueKeys) -> None:
        queue.enqueue("work", side_effect="read_only")
        queue.pause(by="ops")
        redis_client.delete(keys.wake())
        queue.claim()
        assert redis_client.zcard(keys.wake()) == 0
        queue.resume(by="ops")
        assert redis_client.zcard(keys.wake()) == 1

    def test_a_late_pause_does_not_undo_a_newer_resume(self, queue: Any) -> None:
        pause = operate.pause("claims", 0, by="anna")
        assert queue.run(pause) == queue.run(pause)
        resume = operate.pause("", 1, by="ben")
        assert queue.run(resume) == queue.run(resume)
        for late in (pause, operate.pause("effects", 1, by="carl")):
            with pytest.raises(NotAllowedNow) as refused:
                queue.run(late)
            assert (refused.value.reason, refused.value.decided_by) == ("epoch", "ben")
        assert queue.stats().pause == ""
        assert queue.pause("effects", by="dora").epoch == 3

    def test_odd_levels_are_refused(self, queue: Any) -> None:
        for level in ("everything", "", None, 5, ["claims"]):
            with pytest.raises(InvalidInput):
                queue.pause(level, by="ops")


def test_what_is_not_there_is_named(queue: Any) -> None:
    for decide in (
        lambda: queue.cancel("nope", by="me"),
        lambda: queue.revoke("nope", by="me", token=1),
        lambda: queue.requeue("nope", by="me", token=1),
        lambda: queue.resolve("nope", "dead", by="me", token=1),
    ):
        with pytest.raises(TaskUnknown, match="no task nope") as unknown:
            decide()
        assert unknown.value.task_id == "nope"
