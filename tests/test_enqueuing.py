"""Putting tasks in: recognised, conflicting, repeated, delayed, bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from losing import dump
from servers import once
from virtual_clock import VirtualClock

from redislease import (
    Backoff,
    Conflict,
    EnqueueRequest,
    IdempotencyConflict,
    InvalidInput,
    PayloadInvalid,
    PayloadTooLarge,
    TaskConflict,
)
from redislease.commands import enqueue as commands
from redislease.keys import QueueKeys

pytestmark = pytest.mark.contract


def item(**options: Any) -> commands.Item:
    return commands.item(EnqueueRequest(**({"name": "work", "side_effect": "idempotent"} | options)))


def test_what_is_answered_is_what_is_stored(queue: Any, clock: VirtualClock) -> None:
    task = queue.enqueue(
        "send", {"to": "a@b"}, side_effect="non_idempotent", records_effects=True, idempotency_key="k", task_id="me",
        priority=7, delay=timedelta(seconds=3), lease_duration=2, max_attempts=9, max_expirations=8, max_runtime=60,
        max_same_error=4, retry=Backoff(2.5, 3, 99, 0.25), credential="smtp",
    )  # fmt: skip
    stored = queue.get("me")
    assert task.created
    assert stored == task.model_copy(update={"created": False})
    assert stored.available_at == clock.now_ms + 3_000
    assert (stored.lease_ms, stored.max_runtime_ms, stored.records_effects) == (2_000, 60_000, True)
    assert queue.detail("me").payload == {"to": "a@b"}


def test_defaults_are_not_stored(queue: Any, redis_client: redis.Redis, keys: QueueKeys) -> None:
    """An absent field means a constant of the protocol; this is also what makes a waiting task small."""
    task = queue.enqueue(
        "send", {}, side_effect="read_only", lease_duration=60, max_attempts=5, max_expirations=3, priority=0,
        retry=Backoff(),
    )  # fmt: skip
    assert set(redis_client.hgetall(keys.task(task.id))) == {b"name", b"side_effect", b"created_at", b"status"}
    assert not redis_client.exists(keys.payloads)


def test_a_key_is_recognised_in_every_state(queue: Any, clock: VirtualClock) -> None:
    def again() -> Any:
        return queue.enqueue("work", {"n": 1}, side_effect="idempotent", idempotency_key="k")

    first = again()
    assert first.created
    (lease,) = queue.claim()
    assert (again().id, again().created, again().status) == (first.id, False, "leased")
    lease.complete()
    assert again().status == "completed"
    clock.advance_ms(59_000)
    queue.purge(completed=0)
    assert again().status == "completed"
    clock.advance_ms(2_000)
    queue.purge(completed=0)
    renewed = again()
    assert renewed.created
    assert renewed.id != first.id


@pytest.mark.parametrize(
    "other", [{"payload": {"n": 2}}, {"name": "else"}, {"side_effect": "read_only"}, {"payload": {"n": "1"}}]
)
def test_the_same_key_for_something_else_is_a_conflict(
    queue: Any, other: dict[str, Any], redis_client: redis.Redis, keys: QueueKeys
) -> None:
    mine = {"name": "work", "payload": {"n": 1}, "side_effect": "idempotent"}
    first = queue.enqueue(**mine, idempotency_key="k")
    before = dump(redis_client, keys.base)
    with pytest.raises(IdempotencyConflict) as refused:
        queue.enqueue(**(mine | other), idempotency_key="k")
    assert refused.value.task_id == first.id
    assert dump(redis_client, keys.base) == before


def test_an_id_of_ones_own(queue: Any) -> None:
    first = queue.enqueue("work", {"n": 1}, side_effect="idempotent", task_id="mine")
    again = queue.enqueue("work", {"n": 1}, side_effect="idempotent", task_id="mine")
    assert (first.created, again.created) == (True, False)
    for other in ({"n": 2}, None):
        with pytest.raises(TaskConflict):
            queue.enqueue("work", other, side_effect="idempotent", task_id="mine")
    with pytest.raises(TaskConflict):
        queue.enqueue("work", {"n": 1}, side_effect="idempotent", task_id="mine", idempotency_key="k")


@pytest.mark.parametrize("options", [{}, {"task_id": "mine"}, {"idempotency_key": "k"}, {"delay": 5}])
def test_sent_twice_it_is_stored_once_and_answered_alike(queue: Any, options: dict[str, Any]) -> None:
    """G7: the reply was lost, and the client sends the very same call again."""
    call = commands.enqueue([item(**options, payload={"n": 1})])
    first, again = queue.run(call), queue.run(call)
    assert first == again
    assert again[0].created
    stats = queue.stats()
    assert stats.states["ready"] + stats.states["scheduled"] == 1
    assert stats.counters["enqueued"] == 1


def test_items_of_one_call_know_each_other(queue: Any) -> None:
    same = {"name": "work", "side_effect": "idempotent", "payload": {"n": 1}}
    answers = queue.enqueue_many(
        [
            same | {"idempotency_key": "k"},
            same | {"idempotency_key": "k"},
            same | {"idempotency_key": "k", "payload": {"n": 2}},
            same | {"task_id": "mine"},
            same | {"task_id": "mine"},
            same | {"task_id": "mine", "name": "else"},
        ]
    )
    assert [type(one).__name__ for one in answers] == ["Enqueued", "Enqueued", "Conflict"] * 2
    assert [one.created for one in answers if not isinstance(one, Conflict)] == [True, False, True, False]
    assert [one.reason for one in answers if isinstance(one, Conflict)] == ["key_conflict", "task_conflict"]
    assert queue.stats().states["ready"] == 2


def test_many_are_checked_before_the_first_is_sent(queue: Any) -> None:
    good = {"name": "work", "side_effect": "idempotent"}
    for bad in ({"name": ""}, {"side_effect": "none"}, {"payload": [1]}, {"nmae": "x"}, {"delay": -1}):
        with pytest.raises(InvalidInput):
            queue.enqueue_many([good, good | bad])
    with pytest.raises(InvalidInput):
        queue.enqueue_many([good, 5])
    with pytest.raises(InvalidInput):
        queue.enqueue_many([good, {"name": "work"}])
    assert queue.stats().states["ready"] == 0


def test_long_lists_are_cut(queue: Any) -> None:
    assert len(queue.enqueue_many([{"name": "work", "side_effect": "read_only"}] * 1_201)) == 1_201
    big = {"x": "y" * 1_000_000}
    queue.enqueue_many([{"name": "big", "side_effect": "read_only", "payload": big}] * 9)
    assert queue.stats().states["ready"] == 1_210
    assert queue.enqueue_many([]) == []


def test_a_date_that_the_user_chose(queue: Any, clock: VirtualClock) -> None:
    at = datetime.fromtimestamp(clock.now_ms / 1000 + 86_400, UTC)
    assert queue.enqueue("work", side_effect="read_only", at=at).available_at == clock.now_ms + 86_400_000
    past = datetime.fromtimestamp(clock.now_ms / 1000 - 1, UTC)
    assert queue.enqueue("work", side_effect="read_only", at=past).status == "ready"
    assert queue.enqueue("work", side_effect="read_only", delay=0).status == "ready"


DURATIONS = [-1, -0.001, float("nan"), float("inf"), -float("inf"), True, False, "30", b"1", 1e18, [], ...]


@once
@pytest.mark.parametrize("value", DURATIONS, ids=repr)
@pytest.mark.parametrize("name", ["delay", "lease_duration", "max_runtime"])
def test_odd_durations_are_refused(queue: Any, name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=name):
        queue.enqueue("work", side_effect="read_only", **{name: value})


@once
@pytest.mark.parametrize(
    "options",
    [
        {"lease_duration": 0}, {"lease_duration": 0.099}, {"lease_duration": 43_201}, {"max_runtime": 60},
        {"max_attempts": 0}, {"max_attempts": 10_001}, {"max_attempts": 1.0}, {"max_attempts": True},
        {"max_expirations": "3"}, {"priority": 101}, {"priority": -101}, {"priority": 0.5},
        {"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, {"at": datetime(2030, 1, 1)}, {"at": 5},
        {"side_effect": "none"}, {"side_effect": None}, {"records_effects": 1}, {"retry": 5},
        {"idempotency_key": ""}, {"idempotency_key": "a\nb"}, {"idempotency_key": "é" * 65}, {"idempotency_key": 5},
        {"task_id": "a:b"}, {"task_id": "a{b"}, {"task_id": "a b"}, {"task_id": ""}, {"task_id": "x" * 129},
        {"task_id": "a\x00"}, {"task_id": "\ud800"}, {"task_id": 5}, {"credential": "x" * 65}, {"unknown": 1},
    ],
    ids=repr,
)  # fmt: skip
def test_odd_options_are_refused(queue: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        queue.enqueue("work", **({"side_effect": "read_only"} | options))
    assert queue.stats().counters["enqueued"] == 0


@once
@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", "a\x1b[31m", None, 5, "\ud800"], ids=repr)
def test_odd_names_are_refused(queue: Any, name: Any) -> None:
    with pytest.raises(InvalidInput):
        queue.enqueue(name, side_effect="read_only")


@once
@pytest.mark.parametrize(
    "payload",
    [{"x": float("nan")}, {"x": [float("inf")]}, {1: 2, "1": 3}, {"x": "\ud800"}, [1], "x", 5, {"x": print}],
    ids=repr,
)
def test_payloads_that_json_would_change_are_refused(queue: Any, payload: Any) -> None:
    with pytest.raises(PayloadInvalid):
        queue.enqueue("work", payload, side_effect="read_only")


@pytest.mark.parametrize(
    "payload",
    [
        {"x": 2**60, "y": 1.0, "z": -0.0, "e": [], "o": {}, "n": None, "b": [True, False]},
        {'é\x00\x1b[31m"\\': "\n\u2028 emoji 🦊 {braces} :colons:"},
        {"deep": [[[[{"a": [{}]}]]]], "": "", "big": 10**40, "tiny": 5e-324},
    ],
    ids=repr,
)
def test_payloads_come_back_as_they_were(queue: Any, payload: Any) -> None:
    task = queue.enqueue("work", payload, side_effect="read_only")
    (lease,) = queue.claim()
    for seen in (lease.payload, queue.detail(task.id).payload):
        assert repr(seen) == repr(payload)
    lease.complete(payload)
    assert repr(queue.result(task.id)) == repr(payload)


def test_the_limit_of_a_payload_is_exact(queue: Any) -> None:
    room = 1_048_576 - len('{"x":""}')
    queue.enqueue("work", {"x": "y" * room}, side_effect="read_only")
    with pytest.raises(PayloadTooLarge):
        queue.enqueue("work", {"x": "y" * (room + 1)}, side_effect="read_only")


def test_the_sequence_ends_clearly(queue: Any, redis_client: redis.Redis, keys: QueueKeys) -> None:
    queue.enqueue("work", side_effect="read_only")
    redis_client.hset(keys.meta, "sequence", 2**44 - 2)
    answers = queue.enqueue_many([{"name": "work", "side_effect": "read_only"}] * 2)
    assert [getattr(one, "reason", "") for one in answers] == ["", "exhausted"]
    assert redis_client.hget(keys.meta, "sequence") == str(2**44 - 1).encode()


def test_ids_sort_as_their_times_do() -> None:
    from redislease import ids

    drawn = [ids.task_id() for _ in range(1000)]
    assert all(len(one) == 20 for one in drawn)
    assert len(set(drawn)) == 1000
    assert [one[:10] for one in drawn] == sorted(one[:10] for one in drawn)
