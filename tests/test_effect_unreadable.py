"""Records in `effects:ID` that somebody else has written: what they may mean stays a question, and can be answered."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from leasing import again, leased
from virtual_clock import VirtualClock

from redislease import AmbiguousEffect, Done, EffectError, NotAllowedNow, NotDone, ServerError
from redislease.commands.effects import Intent, Verdict, intent, outcome
from redislease.keys import QueueKeys

pytestmark = [pytest.mark.contract, pytest.mark.broken_keys]

RUBBISH = [
    b"",
    b"rubbish",
    b"\xff\x00\n\n\n",
    b"open 1",
    b"open 1 2 n d 3 0 0",
    b"weird 1 2 n d 3 0 0\npay\n\n",
    b"open x 2 n d 3 0 0\npay\n\n",
    b"open 1 2 n d 3 0 0\npay\n\n\n\n",
]
every_rubbish = pytest.mark.parametrize("rubbish", RUBBISH, ids=repr)


@pytest.fixture
def broken(queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock) -> Any:
    """A task whose effect `pay` somebody has written over, while it was open or when it was done."""

    def make(side_effect: str, rubbish: bytes, *, was_open: bool) -> Any:
        lease = leased(queue, side_effect)
        if was_open:
            lease.effect("pay").__enter__()
        else:
            lease.run_effect("pay", lambda effect: 1)
        redis_client.hset(keys.effects(lease.id), "pay", rubbish)
        return lease

    return make


class TestIdempotent:
    @every_rubbish
    @pytest.mark.parametrize("was_open", [True, False])
    def test_the_next_attempt_does_it_again(
        self, queue: Any, broken: Any, clock: VirtualClock, rubbish: bytes, was_open: bool
    ) -> None:
        lease = broken("idempotent", rubbish, was_open=was_open)
        later = again(queue, clock)
        assert later.run_effect("pay", lambda effect: effect.again) is True
        assert queue.get(lease.id).open_effects == 0
        told = [(line["event"], line.get("effect")) for line in queue.evidence(lease.id)]
        assert told[-3:] == [("unreadable_effect", "pay"), ("intent", "pay"), ("outcome", "pay")]

    def test_a_try_that_did_not_happen_leaves_the_question(self, queue: Any, broken: Any, clock: VirtualClock) -> None:
        lease = broken("idempotent", b"rubbish", was_open=True)
        later = again(queue, clock)

        def never(effect: Any) -> None:
            raise NotDone("no route")

        with pytest.raises(NotDone):
            later.run_effect("pay", never)
        assert [(one.state, one.reason) for one in queue.effects(lease.id)] == [("open", None)]
        assert later.complete().open_effects == 1
        queue.resolve(lease.id, "done", by="ops", effects={"pay": "not_done"})
        assert queue.tasks("unsettled") == []

    def test_its_own_outcome_is_refused(
        self, queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
    ) -> None:
        lease = leased(queue)
        effect = lease.effect("pay")
        effect.__enter__()
        redis_client.hset(keys.effects(lease.id), "pay", b"rubbish")
        with pytest.raises(EffectError):
            effect.record("paid")
        assert redis_client.hget(keys.effects(lease.id), "pay") == b"rubbish"


class TestNonIdempotent:
    @every_rubbish
    @pytest.mark.parametrize("verdict", ["not_done", Done(7)], ids=["not done", "done"])
    def test_a_person_decides(self, queue: Any, broken: Any, clock: VirtualClock, rubbish: bytes, verdict: Any) -> None:
        lease = broken("non_idempotent", rubbish, was_open=True)
        assert again(queue, clock) is None
        assert queue.get(lease.id).status == "reconciling"
        assert [(one.key, one.state, one.opened_at) for one in queue.effects(lease.id)] == [("pay", "unreadable", 0)]
        with pytest.raises(NotAllowedNow):
            queue.resolve(lease.id, "retry", by="ops")
        assert queue.resolve(lease.id, "retry", by="ops", effects={"pay": verdict}).status == "ready"
        (later,) = queue.claim()
        assert later.run_effect("pay", lambda effect: "now", request={"any": "thing"}) == (
            7 if isinstance(verdict, Done) else "now"
        )
        assert later.complete().open_effects == 0

    def test_one_that_was_done_is_not_done_again(self, queue: Any, broken: Any, clock: VirtualClock) -> None:
        lease = broken("non_idempotent", b"rubbish", was_open=False)
        assert lease.fail("no").status == "scheduled"
        clock.advance_ms(60_000)
        (later,) = queue.claim()
        with pytest.raises(AmbiguousEffect):
            later.run_effect("pay", lambda effect: 1 / 0)
        assert queue.get(lease.id).open_effects == 1, "from now on it is a question"
        assert later.fail("ambiguous").status == "reconciling"
        assert queue.resolve(lease.id, "retry", by="ops", effects={"pay": Done(1)}).status == "ready"
        (last,) = queue.claim()
        assert last.run_effect("pay", lambda effect: 1 / 0) == 1
        assert last.complete().open_effects == 0

    def test_one_that_counts_and_one_that_does_not(
        self, queue: Any, broken: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
    ) -> None:
        lease = broken("non_idempotent", b"rubbish", was_open=False)
        lease.effect("mail").__enter__()
        lease.effect("call").__enter__()
        redis_client.hset(keys.effects(lease.id), "mail", b"rubbish")
        assert again(queue, clock) is None
        for part in ({"pay": "done", "mail": "done"}, {"mail": "done", "call": "done"}):
            with pytest.raises(NotAllowedNow):
                queue.resolve(lease.id, "retry", by="ops", effects=part)
        found = {"pay": "done", "mail": "not_done", "call": "done"}
        assert queue.resolve(lease.id, "retry", by="ops", effects=found).status == "ready"
        assert {one.key: one.state for one in queue.effects(lease.id)} == found
        assert queue.get(lease.id).open_effects == 0


def test_others_are_still_shown(queue: Any, broken: Any, clock: VirtualClock) -> None:
    lease = broken("idempotent", b"rubbish", was_open=True)
    lease.run_effect("mail", lambda effect: "sent")
    assert {one.key: one.state for one in queue.effects(lease.id)} == {"pay": "unreadable", "mail": "done"}
    assert "outcome" in [line["event"] for line in queue.evidence(lease.id)]


def test_of_an_ended_task(queue: Any, broken: Any, clock: VirtualClock) -> None:
    lease = broken("idempotent", b"rubbish", was_open=True)
    assert lease.complete().open_effects == 1
    assert queue.resolve(lease.id, "done", by="ops", effects={"pay": "done"}, accept_late=True).status == "completed"
    assert queue.tasks("unsettled") == []


def test_deciding_one_of_two_leaves_the_other_in_doubt(
    queue: Any, broken: Any, redis_client: redis.Redis, keys: QueueKeys
) -> None:
    lease = broken("non_idempotent", b"rubbish", was_open=False)
    lease.effect("mail").__enter__()
    redis_client.hset(keys.effects(lease.id), "mail", b"rubbish")
    assert lease.fail("x").status == "reconciling"
    queue.resolve(lease.id, "done", by="ops", effects={"pay": "done"})
    assert [task.id for task in queue.tasks("unsettled")] == [lease.id]
    queue.resolve(lease.id, "done", by="ops", effects={"mail": "done"})
    assert queue.tasks("unsettled") == []


def test_in_one_call_with_a_new_one(queue: Any, broken: Any) -> None:
    lease = broken("idempotent", b"rubbish", was_open=False)
    held = lease._handle
    queue.run(intent([Intent(held, key, "n", key, "-") for key in ("mail", "call", "pay")]))
    assert {one.key: one.state for one in queue.effects(lease.id)} == dict.fromkeys(("mail", "call", "pay"), "open")
    assert queue.get(lease.id).open_effects == 3


@pytest.mark.parametrize("where", [1, 2, 3], ids=["name", "outcome", "testimony"])
def test_a_part_that_cannot_be_read_hides_nothing_else(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock, where: int
) -> None:
    lease = leased(queue, "non_idempotent")
    lease.run_effect("pay", lambda effect: 1)
    lease.effect("mail").__enter__()
    for key in ("pay", "mail"):
        parts = redis_client.hget(keys.effects(lease.id), key).split(b"\n")
        parts[where] = b"done 5 \xff"
        redis_client.hset(keys.effects(lease.id), key, b"\n".join(parts))
    assert again(queue, clock) is None
    assert {one.key: one.state for one in queue.effects(lease.id)} == {"pay": "done", "mail": "open"}
    with pytest.raises(NotAllowedNow):
        queue.resolve(lease.id, "retry", by="ops", accept_late=True)
    assert queue.resolve(lease.id, "retry", by="ops", effects={"mail": "done"}).status == "ready"
    (later,) = queue.claim()
    if where == 2:
        with pytest.raises(ServerError):
            later.run_effect("pay", lambda effect: 1 / 0)
    else:
        assert later.run_effect("pay", lambda effect: 1 / 0) == 1


@pytest.mark.parametrize("key", ["a\nb", "x" * 129])
def test_what_nobody_can_name_is_no_effect(
    queue: Any, broken: Any, redis_client: redis.Redis, keys: QueueKeys, key: str
) -> None:
    lease = broken("idempotent", b"rubbish", was_open=False)
    redis_client.hset(keys.effects(lease.id), key, b"rubbish")
    lease.run_effect("pay", lambda effect: 1)
    assert lease.complete().open_effects == 0


def test_a_read_only_task_has_none(queue: Any, redis_client: redis.Redis, keys: QueueKeys) -> None:
    lease = leased(queue, "read_only", records_effects=False)
    redis_client.hset(keys.effects(lease.id), "pay", b"rubbish")
    with pytest.raises(NotAllowedNow):
        lease.run_effect("pay", lambda effect: 1)
    assert lease.complete().open_effects == 0


def test_a_hash_without_a_status(queue: Any, redis_client: redis.Redis, keys: QueueKeys) -> None:
    lease = leased(queue, "idempotent")
    effect = lease.effect("pay")
    effect.__enter__()
    effect.record(1)
    redis_client.hdel(keys.task(lease.id), "status")
    verdict = Verdict(lease._handle, "pay", effect._nonce, "done", b'{"value":1}')
    (answer,) = queue.run(outcome([verdict]))
    assert (answer.word, answer.replay) == ("ok", True)
    redis_client.hset(keys.task(lease.id), "status", "leased")
