"""Holding a lease: renewing, progress, what is known locally, and blocks that keep a lease alive."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest
from servers import Engine, once, wait_until
from virtual_clock import VirtualClock

from redislease import InvalidInput, LeaseLost, Queue
from redislease.commands import hold
from redislease.handle import Handle
from redislease.scripts import ScriptLibrary

pytestmark = pytest.mark.contract


def leased(queue: Any, **options: Any) -> Any:
    queue.enqueue("work", {"n": 1}, **({"side_effect": "idempotent"} | options))
    (lease,) = queue.claim()
    return lease


def test_a_renewal_counts_from_now(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue)
    start = clock.now_ms
    clock.advance_ms(20_000)
    assert lease.renew().expires_at == start + 80_000
    assert lease.expires_at == start + 80_000
    assert 59 < lease.remaining <= 60


def test_a_renewal_never_shortens(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue)
    longer = lease.renew(3_600).expires_at
    assert longer == clock.now_ms + 3_600_000
    assert lease.renew(1).expires_at == longer
    clock.advance_ms(1_000)
    assert lease.renew().expires_at == longer


def test_a_clock_that_steps_back_shortens_nothing(queue: Any, clock: VirtualClock) -> None:
    """What was left stays left, and a lease does not become an hour longer either."""
    lease = leased(queue)
    clock.advance_ms(-3_600_000)
    assert lease.renew().remaining_ms == 60_000
    clock.advance_ms(-3_600_000)
    assert lease.renew(0.5).remaining_ms == 60_000
    clock.advance_ms(60_001)
    assert [one.id for one in queue.reap().recovered] == [lease.id]


def test_a_clock_that_jumps_forward_ends_each_lease_once(queue: Any, clock: VirtualClock) -> None:
    leases = [leased(queue) for _ in range(5)]
    clock.advance_ms(3_600_000)
    assert len(queue.reap().recovered) == 5
    assert queue.reap().recovered == []
    assert {lease.generation for lease in queue.claim(10)} == {2}
    for lease in leases:
        with pytest.raises(LeaseLost):
            lease.renew()


def test_the_longest_gap_is_remembered(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue)
    for step in (10_000, 40_000, 5_000):
        clock.advance_ms(step)
        lease.renew()
    lease.complete()
    (line,) = queue.evidence(lease.id)
    assert (line["renewals"], line["longest_gap_ms"]) == (3, 40_000)
    assert line["last_renewal_at"] - line["first_renewal_at"] == 45_000


def test_many_in_one_call(queue: Any, clock: VirtualClock) -> None:
    leases = [leased(queue) for _ in range(4)]
    clock.advance_ms(1_000)
    leases[2].complete()
    answers = queue.renew_many(leases)
    assert [getattr(answer, "reason", answer) == "settled" for answer in answers] == [False, False, True, False]
    assert [lease.expires_at - clock.now_ms for lease in leases] == [60_000, 60_000, 59_000, 60_000]


@once
@pytest.mark.parametrize("value", [0, 0.01, -1, float("nan"), float("inf"), True, "5", 43_201], ids=repr)
def test_odd_lengths_are_refused(queue: Any, value: Any) -> None:
    lease = leased(queue)
    before = lease.expires_at
    with pytest.raises(InvalidInput):
        lease.renew(value)
    assert queue.get(lease.id).lease_expires_at == before


def test_progress_is_not_a_heartbeat(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue)
    clock.advance_ms(30_000)
    lease.progress(3, 10, "third\npage")
    assert queue.get(lease.id).lease_expires_at == lease.expires_at == clock.now_ms + 30_000
    progress = queue.detail(lease.id).progress
    assert (progress["done"], progress["total"], progress["note"]) == (3, 10, "third\npage")


def test_progress_that_arrives_late_changes_nothing(queue: Any) -> None:
    lease = leased(queue)
    handle = Handle.decode(lease.handle())
    for number in (1, 3, 2, 3):
        queue.run(hold.progress(handle, number, number))
    assert queue.detail(lease.id).progress["done"] == 3


@once
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("x",), "done must be a number, not 'x'"),
        ((True,), "done must be a number, not True"),
        ((float("nan"),), "done must be finite"),
        ((float("inf"), float("inf")), "done must be finite"),
        ((1, float("nan")), "total must be finite"),
        ((1, "2"), "total must be a number"),
        ((-1,), "done must not be negative, not -1"),
        ((-1e-9, 1), "done must not be negative"),
        ((0, -1), "total must not be negative"),
        ((3, 2), "done must not be more than total: 3 of 2"),
        ((10**5000, 2), "done must not be more than total: <int> of 2"),
        ((1, 2, "n" * 1025), "the note has 1025 bytes"),
        ((1, 2, 5), "the note must be a string"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_odd_progress_is_refused(queue: Any, values: tuple[Any, ...], words: str) -> None:
    """Before anything is sent: what was reported before still stands."""
    lease = leased(queue)
    lease.progress(1, 1)
    with pytest.raises(InvalidInput, match=words):
        lease.progress(*values)
    assert queue.detail(lease.id).progress["done"] == 1


def test_check_says_no_before_the_server_does(queue: Any, clock: VirtualClock) -> None:
    """The local deadline runs on this machine's clock; the server's clock stands still here."""
    lease = leased(queue, lease_duration=0.1)
    lease.check()
    wait_until(lambda: lease.lost, what="the local deadline")
    assert (lease.lost_reason, lease.remaining) == ("deadline", 0.0)
    with pytest.raises(LeaseLost, match="deadline"):
        lease.check()
    lease.renew()
    lease.check()


def test_a_known_loss_stays(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue)
    queue.cancel(lease.id, by="ops")
    assert not lease.lost
    with pytest.raises(LeaseLost):
        lease.verify()
    assert (lease.lost, lease.lost_reason, lease.remaining) == (True, "cancelled", 0.0)
    with pytest.raises(LeaseLost, match="cancelled"):
        lease.check()


def test_a_settled_lease_is_not_lost_and_not_held(queue: Any) -> None:
    lease = leased(queue)
    lease.complete()
    assert (lease.settled, lease.lost, lease.remaining) == (True, False, 0.0)
    with pytest.raises(LeaseLost, match="settled"):
        lease.check()


def test_a_handle_serves_another_process(queue: Any, other: Any) -> None:
    lease = leased(queue)
    attached = other.attach(lease.handle())
    assert (attached.payload, attached.generation, attached.owner) == (lease.payload, 1, lease.owner)
    attached.complete("by the other")
    assert queue.result(lease.id) == "by the other"
    with pytest.raises(LeaseLost):
        other.attach(lease.handle())


@once
@pytest.mark.parametrize(
    "handle", ["", "x", "[]", "{}", "[1,2,3,4,5,6]", '["q","i","o-1",1]', None, 5, "[" * 9999], ids=repr
)
def test_odd_handles_are_refused(queue: Any, handle: Any) -> None:
    with pytest.raises(InvalidInput):
        queue.attach(handle)


def test_a_lease_used_in_a_forked_child_raises(engine: Engine, queue_name: str) -> None:
    with Queue(queue_name, redis_url=engine.url) as queue:
        lease = leased(queue)
        lease._pid = os.getpid() + 1  # what a child sees
        assert lease.lost_reason == "forked"
        for verb in (lease.check, lease.renew, lease.complete, lambda: lease.fail("x"), lease.release):
            with pytest.raises(LeaseLost, match="forked"):
                verb()
        assert queue.get(lease.id).status == "leased"


# Blocks that keep a lease alive run on the server's own clock: the heartbeat is a real thread.


@pytest.fixture
def real_queue(engine: Engine, both: Any, queue_name: str) -> Any:
    from redislease import AsyncQueue

    opened = both.pick(Queue, AsyncQueue)(queue_name, redis_url=engine.url)
    yield opened
    opened.close()


def test_a_block_outlives_its_lease_length(real_queue: Any) -> None:
    real_queue.enqueue("work", side_effect="idempotent", lease_duration=0.6)
    with real_queue.claim_one() as lease:
        until = time.monotonic() + 1.8
        wait_until(lambda: time.monotonic() > until)
        lease.check()
        assert real_queue.claim() == []
    task = real_queue.get(lease.id)
    assert (task.status, task.claim_generation) == ("completed", 1)
    assert task.renewals >= 5


def test_a_block_that_raises_fails_the_task(real_queue: Any) -> None:
    real_queue.enqueue("work", side_effect="idempotent")
    with pytest.raises(ZeroDivisionError), real_queue.claim_one() as lease:
        1 / 0  # noqa: B018
    task = real_queue.get(lease.id)
    assert (task.status, task.failures) == ("scheduled", 1)
    assert task.last_error.startswith("ZeroDivisionError: division by zero")


def test_a_block_that_is_interrupted_gives_the_task_back(real_queue: Any) -> None:
    real_queue.enqueue("work", side_effect="idempotent")
    with pytest.raises(KeyboardInterrupt), real_queue.claim_one() as lease:
        raise KeyboardInterrupt
    task = real_queue.get(lease.id)
    assert (task.status, task.failures, task.releases) == ("ready", 0, 1)


def test_a_block_that_settled_itself_is_left_alone(real_queue: Any) -> None:
    real_queue.enqueue("work", side_effect="idempotent")
    with real_queue.claim_one() as lease:
        lease.release(delay=60)
    assert real_queue.get(lease.id).status == "scheduled"


def test_a_block_with_nothing_to_do(real_queue: Any) -> None:
    with real_queue.claim_one() as lease:
        assert lease is None


def test_a_block_that_lost_its_lease_records_nothing(real_queue: Any) -> None:
    real_queue.enqueue("work", side_effect="idempotent", lease_duration=0.3)
    with pytest.raises(LeaseLost, match="cancelled"), real_queue.claim_one() as lease:
        real_queue.cancel(lease.id, by="ops")
        wait_until(lambda: lease.lost, what="the heartbeat's discovery")
    assert real_queue.get(lease.id).status == "cancelled"


def test_the_heartbeat_survives_every_kind_of_error(engine: Engine, queue_name: str, library: ScriptLibrary) -> None:
    from redislease.errors import ServerOutOfMemory, ServerUnavailable

    with Queue(queue_name, redis_url=engine.url) as queue:
        queue.enqueue("work", side_effect="idempotent", lease_duration=0.6)
        with queue.claim_one() as lease:
            heartbeat = queue._heartbeat
            assert heartbeat is not None
            send, troubles = heartbeat._transport.run, [ServerUnavailable(), ServerOutOfMemory(), ValueError("odd")]

            def sometimes(call: Any, **options: Any) -> Any:
                if troubles:
                    raise troubles.pop()
                return send(call, **options)

            heartbeat._transport.run = sometimes  # type: ignore[method-assign]
            wait_until(lambda: not troubles and queue.get(lease.id).renewals >= 2, what="renewals after the troubles")
        assert queue.get(lease.id).status == "completed"


def test_closing_ends_the_heartbeat(engine: Engine, queue_name: str) -> None:
    def beating() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "redislease-heartbeat"]

    before = len(beating())
    with Queue(queue_name, redis_url=engine.url) as queue:
        queue.enqueue("work", side_effect="idempotent")
        with queue.claim_one():
            assert len(beating()) == before + 1
    assert len(beating()) == before
