"""G5: where a task goes when its lease ends, through a server. `test_policy_table.py` looks at every combination."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from virtual_clock import VirtualClock

from redislease import InvalidInput
from redislease.commands.claim import claim
from redislease.commands.effects import Intended, Intent, intent
from redislease.commands.settle import Return, release
from redislease.effect_records import HANDLER
from redislease.handle import Handle

pytestmark = pytest.mark.contract

CLASSES = ("read_only", "idempotent", "non_idempotent")


def leased(queue: Any, **options: Any) -> Any:
    queue.enqueue("work", **options)
    (lease,) = queue.claim()
    return lease


def end(queue: Any, clock: VirtualClock, lease: Any, ending: str) -> None:
    """Ends a lease in one of the ways there are."""
    if ending == "expired":
        clock.advance_ms(60_001)
        queue.reap()
    elif ending == "failed":
        lease.fail("x", delay=5)
    elif ending == "failed, not done":
        lease.fail("x", delay=5, not_done=True)
    elif ending == "fatal":
        lease.fail("x", retry=False)
    elif ending == "fatal, not done":
        lease.fail("x", retry=False, not_done=True)
    elif ending == "released":
        lease.release()
    elif ending == "released later":
        lease.release(delay=5)
    elif ending == "interrupted":
        lease.release(interrupted=True)
    elif ending == "revoked":
        queue.revoke(lease.id, by="ops")
    elif ending == "cancelled":
        queue.cancel(lease.id, by="ops")
    elif ending == "completed":
        lease.complete()


# What a raw claim of each class becomes. A raw claim may act at once, so a non-idempotent one is in doubt from then on
# unless its holder says otherwise.
SAFE = {
    "expired": "ready",
    "failed": "scheduled",
    "failed, not done": "scheduled",
    "fatal": "dead",
    "fatal, not done": "dead",
    "released": "ready",
    "released later": "scheduled",
    "interrupted": "ready",
    "revoked": "ready",
    "cancelled": "cancelled",
    "completed": "completed",
}
IN_DOUBT = {"expired", "failed", "fatal", "interrupted", "revoked"}


@pytest.mark.parametrize("ending", SAFE)
@pytest.mark.parametrize("side_effect", CLASSES)
@pytest.mark.parametrize("records_effects", [False, True])
def test_each_class_and_ending(
    queue: Any, clock: VirtualClock, side_effect: str, ending: str, records_effects: bool
) -> None:
    lease = leased(queue, side_effect=side_effect, records_effects=records_effects)
    end(queue, clock, lease, ending)
    task = queue.get(lease.id)
    implicit = side_effect == "non_idempotent" and not records_effects
    expected = "reconciling" if implicit and ending in IN_DOUBT else SAFE[ending]
    assert task.status == expected
    left_open = implicit and (ending in IN_DOUBT or ending == "cancelled")
    assert task.open_effects == (1 if left_open else 0)
    assert [one.id for one in queue.tasks("unsettled")] == ([lease.id] if left_open and task.status.ended else [])


@pytest.mark.parametrize(
    ("ending", "counted"),
    [
        ("expired", "expirations"),
        ("failed", "failures"),
        ("fatal", "failures"),
        ("released", "releases"),
        ("interrupted", "releases"),
        ("revoked", "releases"),
        ("completed", None),
        ("cancelled", None),
    ],
)
def test_what_counts_as_what(queue: Any, clock: VirtualClock, ending: str, counted: str | None) -> None:
    lease = leased(queue, side_effect="idempotent")
    end(queue, clock, lease, ending)
    task = queue.get(lease.id)
    counts = {name: getattr(task, name) for name in ("expirations", "failures", "releases") if getattr(task, name)}
    assert counts == ({counted: 1} if counted else {})
    assert task.attempts == 1


def test_a_deploy_burns_nothing(queue: Any) -> None:
    queue.enqueue("work", side_effect="idempotent", max_attempts=1, max_expirations=1)
    for _ in range(20):
        queue.claim()[0].release(interrupted=True)
    (lease,) = queue.claim()
    assert lease.task.attempts == 21
    assert queue.get(lease.id).failures == 0


def test_a_task_that_kills_its_worker_ends_in_dead(queue: Any, clock: VirtualClock) -> None:
    task = queue.enqueue("work", side_effect="idempotent", max_expirations=3)
    for _ in range(3):
        assert queue.claim()
        clock.advance_ms(60_001)
    assert queue.claim() == []
    assert (queue.get(task.id).status, queue.get(task.id).expirations) == ("dead", 3)


def test_failures_have_their_own_budget(queue: Any, clock: VirtualClock) -> None:
    task = queue.enqueue("work", side_effect="idempotent", max_attempts=2, max_expirations=2)
    queue.claim()[0].fail("x", delay=0)
    queue.claim()
    clock.advance_ms(60_001)
    assert queue.claim()[0].fail("x", delay=0).status == "dead"
    assert (queue.get(task.id).failures, queue.get(task.id).expirations) == (2, 1)


def test_the_same_error_too_often(queue: Any) -> None:
    queue.enqueue("work", side_effect="idempotent", max_same_error=3, max_attempts=100)
    for error in ("boom 1", "boom 2", "other", "boom 3", "boom 4"):
        assert queue.claim()[0].fail(error, delay=0).status == "scheduled"
    assert queue.claim()[0].fail("boom 5", delay=0).status == "dead"


def test_backoff_grows_and_is_spread(queue: Any, clock: VirtualClock) -> None:
    queue.enqueue("work", side_effect="idempotent", max_attempts=10)
    for failures in range(1, 9):
        settled = queue.claim()[0].fail("x")
        longest = min(1000 * 2 ** (failures - 1), 600_000)
        assert longest * 0.5 <= settled.due_at - clock.now_ms <= longest
        clock.set_ms(settled.due_at)


def test_an_expiry_never_undoes_a_decision(queue: Any, clock: VirtualClock) -> None:
    """G6: cancelled stays cancelled, dead stays dead, whatever time does."""
    cancelled = leased(queue, side_effect="non_idempotent")
    queue.cancel(cancelled.id, by="ops")
    dead = leased(queue, side_effect="read_only")
    dead.fail("x", retry=False)
    clock.advance_ms(10_000_000)
    queue.reap()
    assert queue.claim(5) == []
    assert (queue.get(cancelled.id).status, queue.get(dead.id).status) == ("cancelled", "dead")


def test_never_started_is_not_an_attempt(queue: Any) -> None:
    lease = leased(queue, side_effect="non_idempotent")
    given_back = Return(Handle.decode(lease.handle()), never_started=True)
    assert [answer.status for answer in queue.run(release([given_back]))] == ["ready"]
    task = queue.get(lease.id)
    assert (task.attempts, task.releases, task.open_effects, task.claim_generation) == (0, 0, 0, 1)


def reserved(queue: Any, owner: str, number: int) -> Any:
    """A claim as a worker makes it, which says later when each handler begins."""
    (grant,) = queue.run(claim(owner, number, started=False)).grants
    return grant


def begin(queue: Any, owner: str, grant: Any) -> str:
    """What a worker says right before a handler begins."""
    handle = Handle(queue.name, grant.id, owner, grant.generation, grant.token)
    (answer,) = queue.run(intent([Intent(handle, HANDLER, "-", HANDLER, "-")]))
    return answer.word if isinstance(answer, Intended) else answer.reason


@pytest.mark.parametrize("side_effect", CLASSES)
def test_what_never_began_is_not_dead_of_its_neighbours(queue: Any, clock: VirtualClock, side_effect: str) -> None:
    """Tasks that wait in a process which another task kills again and again."""
    task = queue.enqueue("work", side_effect=side_effect, max_expirations=3)
    owner = queue.register("me").name
    for number in range(1, 8):
        grant = reserved(queue, owner, number)
        assert grant.unstarted == (number > 2), "only the last expiration is looked at so closely"
        clock.advance_ms(60_001)
    queue.reap()
    state = queue.get(task.id)
    assert (state.status, state.expirations, state.attempts, state.claim_generation) == ("ready", 2, 2, 7)
    causes = [entry["event"] for entry in queue.evidence(task.id)]
    assert causes == ["expired", "expired", *["unstarted"] * 5]


def test_what_began_and_kills_its_worker_is_dead(queue: Any, clock: VirtualClock) -> None:
    task = queue.enqueue("work", side_effect="idempotent", max_expirations=2)
    owner = queue.register("me").name
    reserved(queue, owner, 1)
    clock.advance_ms(60_001)
    grant = reserved(queue, owner, 2)
    assert [begin(queue, owner, grant), begin(queue, owner, grant)] == ["open", "open"], "it may be said twice"
    clock.advance_ms(60_001)
    (recovery,) = queue.reap().recovered
    assert (recovery.cause, recovery.status, recovery.side_effect) == ("expired", "dead", "idempotent")
    assert begin(queue, owner, grant) == "expired"
    assert (queue.get(task.id).expirations, queue.get(task.id).open_effects) == (2, 0)


def test_whoever_acts_at_once_need_not_say_so(queue: Any, clock: VirtualClock) -> None:
    task = queue.enqueue("work", side_effect="idempotent", max_expirations=1)
    assert queue.claim()
    clock.advance_ms(60_001)
    assert queue.reap().recovered[0].status == "dead"
    assert queue.get(task.id).expirations == 1


def test_a_mark_is_gone_with_its_lease(queue: Any, redis_client: redis.Redis, clock: VirtualClock) -> None:
    task = queue.enqueue("work", side_effect="idempotent", max_expirations=1)
    owner = queue.register("me").name
    grant = reserved(queue, owner, 1)
    assert redis_client.hget(queue.keys.task(task.id), "unstarted") == b"1"
    handle = Handle(queue.name, grant.id, owner, grant.generation, grant.token)
    queue.run(release([Return(handle, never_started=True)]))
    assert redis_client.hget(queue.keys.task(task.id), "unstarted") is None
    queue.claim()
    clock.advance_ms(60_001)
    assert queue.reap().recovered[0].status == "dead"


@pytest.mark.parametrize(("side_effect", "open_effects"), [("idempotent", 0), ("non_idempotent", 1)])
def test_an_ending_answers_what_it_leaves_open(queue: Any, side_effect: str, open_effects: int) -> None:
    for how in ({"retry": False}, {"delay": 1}):
        lease = leased(queue, side_effect=side_effect)
        answer, again = lease.fail("x", **how), lease.fail("x", **how)
        assert (answer.open_effects, again.open_effects) == (open_effects, open_effects)
        assert (answer.due_at is not None) == (answer.status == "scheduled")
        assert answer.status == queue.get(lease.id).status


def test_a_failure_for_good_has_no_delay(queue: Any) -> None:
    lease = leased(queue, side_effect="idempotent")
    with pytest.raises(InvalidInput, match="for good"):
        lease.fail("x", retry=False, delay=5)
    assert lease.fail("x", retry=False).status == "dead"
