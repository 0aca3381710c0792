"""Effects: recorded before they happen, closed when their outcome is known, and never guessed at."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis
from both import Both
from leasing import again, leased
from servers import once
from virtual_clock import VirtualClock

from redislease import (
    AmbiguousEffect,
    EffectAlreadyDone,
    EffectConflict,
    EffectError,
    EffectNotRecorded,
    EffectReused,
    InvalidInput,
    LeaseLost,
    NotAllowedNow,
    NotDone,
    OutcomeNotStored,
    QueuePaused,
    TooManyEffects,
)
from redislease.commands import effects as commands
from redislease.handle import Handle
from redislease.keys import QueueKeys

pytestmark = pytest.mark.contract


def test_an_effect_happens_and_is_recorded(queue: Any) -> None:
    lease = leased(queue, "non_idempotent")
    with lease.effect("smtp.send", request={"to": "a"}) as effect:
        assert not effect.done
        assert queue.get(lease.id).open_effects == 1
        effect.record({"message": 5})
    assert queue.get(lease.id).open_effects == 0
    assert lease.complete().status == "completed"
    events = [(line["event"], line.get("effect"), line.get("verdict")) for line in queue.evidence(lease.id)]
    assert events == [
        ("intent", "smtp.send", None),
        ("outcome", "smtp.send", "done"),
        ("completed", None, None),
    ]


def test_run_effect_has_nothing_to_forget(queue: Any, clock: VirtualClock) -> None:
    calls: list[int] = []

    def send(effect: Any) -> Any:
        calls.append(1)
        return {"message": (1, 2), "n": 1.0}

    lease = leased(queue)
    first = lease.run_effect("smtp.send", send, request={"to": "a"})
    second = again(queue, clock).run_effect("smtp.send", send, request={"to": "a"})
    assert repr(first) == repr(second) == repr({"message": [1, 2], "n": 1.0})
    assert calls == [1]


def test_outcomes_are_read_as_a_type(queue: Any, clock: VirtualClock) -> None:
    from pydantic import BaseModel

    class Receipt(BaseModel):
        number: int

    lease = leased(queue)
    assert lease.run_effect("pay", lambda e: Receipt(number=5), returns=Receipt) == Receipt(number=5)
    assert again(queue, clock).run_effect("pay", lambda e: 1 / 0, returns=Receipt) == Receipt(number=5)
    with pytest.raises(EffectError, match="outcome is not"):
        again(queue, clock).run_effect("pay", lambda e: 1 / 0, returns=list[int])


def test_done_before_is_not_done_again(queue: Any, clock: VirtualClock) -> None:
    with leased(queue).effect("smtp.send") as effect:
        effect.record("sent")
    with again(queue, clock).effect("smtp.send") as effect:
        assert (effect.done, effect.outcome) == (True, "sent")
        for use in ("headers", "idempotency_key", "timeout"):
            with pytest.raises(EffectAlreadyDone):
                getattr(effect, use)
        for close in (lambda: effect.record(1), lambda: effect.not_done()):
            with pytest.raises(EffectAlreadyDone) as refused:
                close()
            assert refused.value.generation == 1


def test_the_same_effect_twice_in_one_attempt(queue: Any) -> None:
    """In a loop each call needs its own key."""
    lease = leased(queue)
    for number in range(3):
        lease.run_effect("smtp.send", lambda e: 1, key=f"mail-{number}")
    lease.run_effect("smtp.send", lambda e: 1)
    with pytest.raises(EffectReused):
        lease.run_effect("smtp.send", lambda e: 1)
    with lease.effect("other") as outer:
        with pytest.raises(EffectReused):
            lease.run_effect("other", lambda e: 1)
        lease.run_effect("inner", lambda e: 1)
        outer.record()
    assert queue.get(lease.id).open_effects == 0


def test_another_request_in_a_later_attempt(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue)
    lease.run_effect("smtp.send", lambda e: 1, request={"to": "a", "cc": "b"})
    later = again(queue, clock)
    with pytest.raises(EffectConflict) as refused:
        later.run_effect("smtp.send", lambda e: 1, request={"to": "z"})
    assert refused.value.generation == 1
    assert later.run_effect("smtp.send", lambda e: 2, request={"cc": "b", "to": "a"}) == 1


def test_not_done_forgets_the_request(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue, "non_idempotent")
    with lease.effect("smtp.send", request=1) as effect:
        effect.not_done("connection refused")
    assert lease.run_effect("smtp.send", lambda e: "now", request=2) == "now"
    with pytest.raises(NotDone), lease.effect("other") as effect:
        raise NotDone("refused")

    def refuse(effect: Any) -> Any:
        raise NotDone("refused")

    with pytest.raises(NotDone):
        lease.run_effect("third", refuse)
    assert queue.get(lease.id).open_effects == 0
    assert lease.fail("refused", delay=0).status == "scheduled"


@pytest.mark.parametrize("leaving", ["return", "exception"])
def test_leaving_the_block_without_an_outcome(queue: Any, leaving: str) -> None:
    lease = leased(queue, "non_idempotent")
    expected = EffectNotRecorded if leaving == "return" else ZeroDivisionError
    with pytest.raises(expected), lease.effect("smtp.send"):
        if leaving == "exception":
            1 / 0  # noqa: B018
    assert queue.get(lease.id).open_effects == 1
    assert lease.fail("x").status == "reconciling"


def test_open_on_a_later_attempt_runs_again_if_it_is_idempotent(queue: Any, clock: VirtualClock) -> None:
    """Under the same key, and without counting twice."""
    lease = leased(queue, "idempotent", idempotency_key="order/5 é")
    with pytest.raises(ZeroDivisionError), lease.effect("pay") as effect:
        first = effect.headers
        assert not effect.again
        1 / 0  # noqa: B018
    later = again(queue, clock)
    with later.effect("pay") as effect:
        assert effect.again
        second = effect.headers
        assert queue.get(lease.id).open_effects == 1
        effect.record()
    assert first["Idempotency-Key"] == second["Idempotency-Key"] == f"{queue.name}/order%2F5%20%C3%A9/pay"
    assert int(second["Fencing-Token"]) > int(first["Fencing-Token"])
    assert queue.get(lease.id).open_effects == 0


def test_open_on_a_later_attempt_is_ambiguous_if_it_is_not_idempotent(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue, "non_idempotent")
    with pytest.raises(ZeroDivisionError), lease.effect("pay"):
        1 / 0  # noqa: B018
    assert again(queue, clock) is None
    assert queue.get(lease.id).status == "reconciling"


def test_the_server_guards_an_ambiguous_effect_by_itself(
    queue: Any, redis_client: redis.Redis, keys: QueueKeys, clock: VirtualClock
) -> None:
    """The policy would not hand such a task out; if it ever comes to that, the intent is refused."""
    lease = leased(queue, "idempotent")
    with pytest.raises(ZeroDivisionError), lease.effect("pay"):
        1 / 0  # noqa: B018
    later = again(queue, clock)
    redis_client.hset(keys.task(lease.id), "side_effect", "non_idempotent")
    with pytest.raises(AmbiguousEffect):
        later.run_effect("pay", lambda e: 1)


def test_read_only_tasks_have_no_effects(queue: Any) -> None:
    lease = leased(queue, "read_only", records_effects=False)
    with pytest.raises(NotAllowedNow):
        lease.run_effect("pay", lambda e: 1)


def test_a_pause_at_the_level_of_effects(queue: Any) -> None:
    """No claim and no new effect; an outcome is still taken."""
    lease = leased(queue, "non_idempotent")
    with lease.effect("first") as effect:
        queue.pause("effects", by="ops")
        with pytest.raises(QueuePaused):
            lease.run_effect("second", lambda e: 1)
        assert queue.claim() == []
        effect.record()
    queue.resume(by="ops")
    lease.run_effect("second", lambda e: 1)


def test_a_thousand_effects(queue: Any) -> None:
    lease = leased(queue)
    handle = Handle.decode(lease.handle())
    for first in range(0, 1_000, 500):
        intents = [commands.Intent(handle, f"e{n}", f"n{n}", "e", "-") for n in range(first, first + 500)]
        assert {answer.word for answer in queue.run(commands.intent(intents))} == {"open"}
    with pytest.raises(TooManyEffects):
        lease.run_effect("e1000", lambda e: 1)
    verdicts = [commands.Verdict(handle, f"e{n}", f"n{n}", "done", b'{"value":1}') for n in range(500)]
    assert {answer.word for answer in queue.run(commands.outcome(verdicts))} == {"ok"}
    assert queue.get(lease.id).open_effects == 500


@pytest.mark.parametrize("outcome", [{"x": "y" * 20_000}, float("nan"), object, {1: 2}, "\ud800", b"\xff"], ids=str)
def test_an_outcome_is_never_refused(queue: Any, clock: VirtualClock, outcome: Any) -> None:
    lease = leased(queue, "non_idempotent")
    assert lease.run_effect("odd", lambda e: outcome) is not None
    assert queue.get(lease.id).open_effects == 0
    later = again(queue, clock)
    with pytest.raises(OutcomeNotStored):
        later.run_effect("odd", lambda e: 1 / 0)


def test_sixteen_kibibytes_are_kept(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue)
    text = "y" * (16_384 - 2)
    lease.run_effect("big", lambda e: text)
    assert again(queue, clock).run_effect("big", lambda e: 1 / 0) == text


@once
@pytest.mark.parametrize("name", ["", "handler", "a\nb", "x" * 129, None, 5, "\ud800"], ids=repr)
def test_odd_names_are_refused(queue: Any, name: Any) -> None:
    lease = leased(queue)
    with pytest.raises(InvalidInput):
        lease.effect(name)
    with pytest.raises(InvalidInput):
        lease.effect("fine", key=name or "")
    with pytest.raises(InvalidInput):
        lease.effect("fine", request=float("nan"))


def test_effects_from_several_threads(queue: Any, both: Both) -> None:
    lease = leased(queue)
    done: list[int] = []

    def work(number: int) -> None:
        done.append(lease.run_effect("send", lambda e: number, key=f"k{number}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(8))
    assert queue.get(lease.id).open_effects == 0


def test_timeout_stays_within_the_lease(queue: Any, clock: VirtualClock) -> None:
    lease = leased(queue)
    with lease.effect("pay") as effect:
        assert 57 < effect.timeout <= 58
        lease.note_loss("revoked")
        with pytest.raises(LeaseLost):
            effect.timeout  # noqa: B018
        effect.not_done()


def test_sign_puts_the_headers_on_a_request(queue: Any) -> None:
    class Request:
        headers: dict[str, str] = {}  # noqa: RUF012

    lease = leased(queue)
    with lease.effect("pay") as effect:
        request = effect.sign(Request())
        assert request.headers == effect.headers
        effect.record()


def test_async_actions(queue: Any, both: Both) -> None:
    if not both.is_async:
        pytest.skip("about coroutines")

    async def act(effect: Any) -> str:
        return effect.idempotency_key

    lease = leased(queue)
    assert lease.run_effect("pay", act).endswith("/pay")
