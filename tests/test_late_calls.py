"""G7: calls that come after the task has lived on, was purged, or the queue was paused change nothing."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from tallies import stored, without_replay
from verbs import VERBS, WRITING, Stage
from virtual_clock import VirtualClock

from redislease import NotAllowedNow, RedisLeaseError
from redislease.commands import effects, hold, operate, settle
from redislease.commands.call import Call
from redislease.keys import QueueKeys
from redislease.models import Claimed, Lost

pytestmark = pytest.mark.contract


@pytest.fixture
def stage(queue: Any, clock: VirtualClock) -> Stage:
    return Stage(queue, clock)


def live_on(stage: Stage, other: Any) -> None:
    """Every lease ends, and every task is worked on by somebody else until nothing is left."""
    stage.clock.advance_ms(1_200_000)
    if stage.queue.stats().pause:
        stage.queue.resume(by="ops")
    stage.queue.reap()
    while leases := other.claim(10):
        other.complete_many([(lease, "theirs") for lease in leases])


ANSWERS_LATER = {
    # what a call that comes after a later lease of its task has ended is answered; None: as before
    "renew": "superseded",
    "progress": "superseded",
    "complete": None,
    "complete+claim": None,
    "fail": "superseded",
    "fail for good": None,
    "release": "superseded",
    "return": "superseded",
    "intent": "expired",
    "intent again": "superseded",
    "outcome": None,
}


@pytest.mark.parametrize("name", [name for name, verb in WRITING.items() if verb.repeated != "spare"])
def test_a_late_call_changes_nothing_after_a_later_lease_and_a_purge(
    stage: Stage, other: Any, redis_client: redis.Redis, keys: QueueKeys, name: str
) -> None:
    verb = WRITING[name]
    call = verb.prepare(stage)
    stage.queue.run(call)
    live_on(stage, other)
    before = stored(redis_client, keys, evidence=False)
    answer = outcome_of(stage.queue, call)
    assert stored(redis_client, keys, evidence=False) == before
    if ANSWERS_LATER.get(verb.name):
        assert [one.reason for one in answer if isinstance(one, Lost)] == [ANSWERS_LATER[verb.name]]
    elif isinstance(answer, Claimed):
        assert answer.grants == []
    if verb.name == "enqueue":
        return  # purged, the id is free again: that is what retention means
    stage.clock.advance_ms(8 * 86_400_000)
    stage.queue.purge(completed=60, cancelled=60, dead=60, evidence=0)
    before = stored(redis_client, keys)
    outcome_of(stage.queue, call)
    assert stored(redis_client, keys) == before


def outcome_of(queue: Any, call: Call[Any]) -> Any:
    """What a call answers or raises; of a batch, its items."""
    try:
        answer = queue.run(call)
    except RedisLeaseError as refusal:
        return refusal
    return answer[0] if isinstance(answer, tuple) else answer


@pytest.mark.parametrize("level", ["claims", "effects"])
@pytest.mark.parametrize(
    "name", [name for name, verb in WRITING.items() if verb.repeated == "same" and name not in ("pause", "resume")]
)
def test_a_pause_in_between_changes_no_answer(
    stage: Stage, redis_client: redis.Redis, keys: QueueKeys, name: str, level: str
) -> None:
    call = WRITING[name].prepare(stage)
    answer = stage.queue.run(call)
    stage.queue.pause(level, by="ops")
    before = stored(redis_client, keys)
    assert without_replay(stage.queue.run(call)) == without_replay(answer)
    assert stored(redis_client, keys) == before
    stage.queue.resume(by="ops")
    assert without_replay(stage.queue.run(call)) == without_replay(answer)


def test_a_late_pause_does_not_undo_a_newer_resume(stage: Stage, redis_client: redis.Redis, keys: QueueKeys) -> None:
    late = operate.pause("effects", stage.queue.stats().epoch, by="ops")
    stage.queue.pause(by="ops")
    stage.queue.resume(by="ops")
    before = stored(redis_client, keys)
    with pytest.raises(NotAllowedNow):
        stage.queue.run(late)
    stage.queue.run(VERBS["pause"].prepare(stage))
    stage.queue.resume(by="ops")
    with pytest.raises(NotAllowedNow):
        stage.queue.run(late)
    assert stage.queue.stats().pause == ""
    assert before != stored(redis_client, keys)


def test_a_late_renewal_never_takes_a_task_back(stage: Stage, other: Any, redis_client: redis.Redis) -> None:
    handle = stage.handle(lease_duration=60)
    stage.clock.advance_ms(60_001)
    (theirs,) = other.claim()
    assert stage.queue.run(hold.renew([(handle, 43_200_000)])) == [Lost("reclaimed", "leased", 2)]
    assert stage.queue.get(handle.id).lease_expires_at == theirs.expires_at


def test_an_intent_that_comes_after_its_outcome_opens_nothing(stage: Stage) -> None:
    for verdict in ("done", "not_done"):
        handle = stage.handle(verdict, side_effect="non_idempotent", records_effects=True)
        intent = effects.Intent(handle, "mail", "n1", "mail", effects.request_digest(None))
        stage.queue.run(effects.intent([intent]))
        stage.queue.run(effects.outcome([effects.Verdict(handle, "mail", "n1", verdict)]))
        assert stage.queue.run(effects.intent([intent]))[0].word == "reused"
        assert stage.queue.get(verdict).open_effects == 0


def test_a_completion_is_replayed_until_the_purge(stage: Stage) -> None:
    call = settle.complete([settle.Completion(stage.handle(), b"1")])
    for _ in range(2):
        ((settled,), _) = stage.queue.run(call)
        assert settled.status == "completed"
        stage.clock.advance_ms(29_000)
        assert stage.queue.purge(completed=0).completed == 0
    stage.clock.advance_ms(2_000)
    assert stage.queue.purge(completed=0).completed == 1
    assert stage.queue.run(call)[0] == [Lost("unknown", None, None)]


def test_an_intent_that_comes_after_later_tries_of_its_attempt_opens_nothing(stage: Stage, clock: VirtualClock) -> None:
    """Each try has a nonce, and those that were closed as not done are remembered while the attempt lasts."""
    handle = stage.handle("a", side_effect="idempotent", records_effects=True)
    tries = [effects.intent([effects.Intent(handle, "mail", f"nonce-0{n}", "mail", "d")]) for n in range(8)]
    for number, one in enumerate(tries):
        assert stage.queue.run(one)[0].word == "open"
        verdict = effects.Verdict(handle, "mail", f"nonce-0{number}", "not_done", b'"no"')
        stage.queue.run(effects.outcome([verdict]))
        assert [stage.queue.run(late)[0].word for late in tries[: number + 1]] == ["reused"] * (number + 1)
    assert stage.queue.get("a").open_effects == 0
    (record,) = stage.queue.effects("a")
    assert (record.key, record.state) == ("mail", "not_done")
    clock.advance_ms(1_200_000)
    (later,) = stage.queue.claim()
    with later.effect("mail") as effect:
        effect.record(1)
    later.complete()
