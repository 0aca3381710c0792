"""Handlers of a worker share round trips, and none of them notices what becomes of another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest
from proxy import LOSE, SWALLOW, TEAR, TWICE
from servers import Engine, wait_until
from sharing import Crowd, Link, one_intent_each
from working import Running, elapsed_s, statuses, wait_status, working

from redislease import AsyncLease, EffectReused, LeaseLost, NotAllowedNow, NotReplicated, Queue, ServerError
from redislease.commands.call import Call
from redislease.worker.errand import ALONE, Errand, Shared

HANDLERS = 50


def test_fifty_handlers_share_their_calls(link: Link, linked: Queue, queue: Queue) -> None:
    acts: Counter[int] = Counter()
    crowd = Crowd(HANDLERS)

    @linked.task(side_effect="idempotent")
    async def pay(lease: AsyncLease, number: int) -> int:
        async def act(effect: Any) -> int:
            assert (await asyncio.to_thread(queue.get, lease.id)).open_effects == 1, "no record, no action"
            acts[number] += 1
            await acted.meet()
            return number

        await crowd.meet()
        return int(await lease.run_effect("pay", act, request={"number": number}))

    acted = Crowd(HANDLERS)
    ids = [done.id for done in pay.enqueue_many([(number,) for number in range(HANDLERS)])]  # type: ignore[union-attr]
    with working(linked, concurrency=HANDLERS):
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * HANDLERS, 20)
    assert acts == Counter(range(HANDLERS))
    assert [queue.result(task_id) for task_id in ids] == list(range(HANDLERS))
    one_intent_each(queue, ids)
    assert link.sent["intent"] <= 4
    assert link.sent["outcome"] <= 4
    assert link.sent.total() <= HANDLERS


def test_one_that_is_alone_waits_for_nobody(link: Link, linked: Queue, queue: Queue) -> None:
    taken: list[float] = []

    @linked.task(side_effect="idempotent")
    async def pay(lease: AsyncLease) -> None:
        for number in range(20):
            begun = time.monotonic()
            await lease.run_effect("pay", lambda _: 1, key=f"{number}")
            taken.append(elapsed_s(begun))

    task = pay.enqueue()
    with working(linked):
        wait_status(queue, task.id, "completed")
    assert sorted(taken)[10] < 0.05
    assert (link.sent["intent"], link.sent["outcome"]) == (20, 20)


def test_an_error_of_one_does_not_touch_the_others(server: Engine, queue: Queue) -> None:
    """A refusal that names one, and an error of the whole call: the others get their own answers."""
    crowd, told = Crowd(12), dict[str, str]()

    async def act(lease: AsyncLease, kind: str) -> None:
        if kind == "reused":
            await lease.run_effect("pay", lambda _: 1)
        await crowd.meet()
        if kind == "cancelled":
            await asyncio.to_thread(queue.cancel, lease.id, by="me")
        if kind == "broken":
            with server.sync_client() as client:
                client.set(f"{queue.keys.base}effects:{lease.id}", "broken")
        await together.meet()
        try:
            assert await lease.run_effect("pay", lambda _: kind) == kind
        except BaseException as problem:
            told[kind] = type(problem).__name__
            raise
        finally:
            if kind == "broken":
                with server.sync_client() as client:
                    client.delete(f"{queue.keys.base}effects:{lease.id}")

    together = Crowd(12)
    tasks = {
        side_effect: queue.add_task(act, name=side_effect, side_effect=side_effect, max_attempts=1)
        for side_effect in ("idempotent", "read_only")
    }
    odd = {kind: tasks["idempotent"].enqueue(kind).id for kind in ("reused", "cancelled", "broken")}
    odd["read_only"] = tasks["read_only"].enqueue("read_only").id
    plain = [tasks["idempotent"].enqueue(f"plain {number}").id for number in range(8)]
    with working(queue, concurrency=12):
        wait_until(lambda: len(told) == 4, 20)
        wait_until(lambda: statuses(queue, *plain) == ["completed"] * 8, 20)
        wait_until(lambda: statuses(queue, *odd.values()) == ["dead", "cancelled", "dead", "dead"])
    one_intent_each(queue, plain)
    # The signal of the decision may come first, and cancels the handler.
    assert told.pop("cancelled") in (LeaseLost.__name__, asyncio.CancelledError.__name__)
    assert told == {
        "reused": EffectReused.__name__,
        "broken": ServerError.__name__,
        "read_only": NotAllowedNow.__name__,
    }


@pytest.mark.parametrize("script", ["intent", "outcome"])
@pytest.mark.parametrize("fault", [LOSE, TEAR, TWICE, SWALLOW])
def test_a_lost_reply_of_a_shared_call(link: Link, linked: Queue, queue: Queue, fault: str, script: str) -> None:
    """Each goes on by itself with the same nonce: what was recorded is recorded once, and acted on once."""
    acts: Counter[int] = Counter()
    crowd, acted = Crowd(20), Crowd(20)

    @linked.task(side_effect="idempotent")
    async def pay(lease: AsyncLease, number: int) -> int:
        async def act(effect: Any) -> int:
            acts[number] += 1
            await acted.meet()
            return number

        await crowd.meet()
        link.disturb(script, fault) if number == 0 else None
        return int(await lease.run_effect("pay", act))

    ids = [done.id for done in pay.enqueue_many([(number,) for number in range(20)])]  # type: ignore[union-attr]
    with working(linked, concurrency=20):
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 20, 20)
    assert link.proxy.met == [fault]
    assert acts == Counter(range(20))
    one_intent_each(queue, ids)


def test_a_handler_that_is_cancelled_in_a_call(server: Engine, queue: Queue) -> None:
    """One whose intent was sent leaves it open, one whose intent was not sent leaves nothing; the others go on."""
    ended: list[str] = []
    crowd = Crowd(10)

    @queue.task(side_effect="idempotent")
    async def pay(lease: AsyncLease, number: int) -> None:
        await crowd.meet()
        if number == 0:
            client.execute_command("CLIENT", "PAUSE", 450, "ALL")
        # The server answers nobody: two round trips are under way, and the rest waits.
        await asyncio.sleep(number / 100)
        try:
            await asyncio.wait_for(lease.run_effect("pay", lambda _: 1), 0.2 if number in (0, 5) else 20)
        except TimeoutError:
            ended.append("cancelled")
        else:
            ended.append("done")

    with server.sync_client() as client, working(queue, concurrency=10):
        ids = [pay.enqueue(number).id for number in range(10)]
        wait_until(lambda: len(ended) == 10, 20)
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 10)
    assert Counter(ended) == {"cancelled": 2, "done": 8}
    states = [[record.state for record in queue.effects(task_id)] for task_id in ids]
    assert states[0] == ["open"]
    assert states[5] == []
    assert states[1:5] + states[6:] == [["done"]] * 8


def test_a_pause_in_the_middle(queue: Queue) -> None:
    """Intents are refused, outcomes of what has begun are recorded; afterwards everything is done once."""
    acts: Counter[tuple[int, int]] = Counter()

    @queue.task(side_effect="idempotent")
    async def pay(lease: AsyncLease, number: int) -> None:
        async def act(effect: Any) -> None:
            acts[number, step] += 1
            await asyncio.sleep(0.002)

        for step in range(40):
            await lease.run_effect("pay", act, key=f"{step}")

    ids = [pay.enqueue(number).id for number in range(20)]
    with working(queue, concurrency=20):
        wait_until(lambda: acts.total() > 100)
        queue.pause("effects", by="me", reason="incident")
        wait_until(lambda: statuses(queue, *ids) == ["scheduled"] * 20)
        assert [queue.get(task_id).open_effects for task_id in ids] == [0] * 20
        done = acts.total()
        time.sleep(0.2)
        assert acts.total() == done
        queue.resume(by="me", reason="over")
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 20, 20)
    assert acts == Counter({(number, step): 1 for number in range(20) for step in range(40)})


def test_a_line_that_stands_still_is_left(link: Link, linked: Queue, queue: Queue) -> None:
    """Both round trips of the worker hang; a handler's effect waits for neither."""
    let_go, taken = threading.Event(), list[float]()

    @linked.task(side_effect="idempotent")
    async def quick() -> None:
        pass

    @linked.task(side_effect="idempotent")
    async def pay(lease: AsyncLease) -> None:
        await asyncio.to_thread(let_go.wait)
        begun = time.monotonic()
        await lease.run_effect("pay", lambda _: 1)
        taken.append(elapsed_s(begun))

    with working(linked, concurrency=10):
        task = pay.enqueue()
        wait_status(queue, task.id, "leased")
        link.disturb("complete", SWALLOW, 2)
        for number in range(2):
            quick.enqueue()
            wait_until(lambda n=number: len(link.proxy.met) > n)
        let_go.set()
        wait_until(lambda: taken, 10)
        wait_until(lambda: queue.stats().states["completed"] == 3, 20)
    assert taken[0] < 2.0, "an effect takes two calls, and each waits half a second at most"


@pytest.mark.parametrize("turns", range(8))
def test_a_handler_that_stops_its_worker(queue: Queue, turns: int) -> None:
    """Its completion and the claim of nothing that passes a ring on do not get into each other's way."""

    @queue.task(side_effect="idempotent")
    async def stops() -> None:
        running[0].stop()
        for _ in range(turns):
            await asyncio.sleep(0)

    running: list[Running] = []
    task = stops.enqueue()
    with working(queue) as one:
        running.append(one)
        one.join()
        assert statuses(queue, task.id) == ["completed"]


def test_what_no_replica_has_confirmed_is_told_to_each() -> None:
    async def scenario() -> list[Any]:
        loop = asyncio.get_running_loop()
        calls = [Call("intent", [name], list) for name in "ab"]
        errands = [Errand(call, loop.create_future(), 0.0) for call in calls]
        shared = Shared(errands)
        assert [call.args for call in shared.calls] == [["a", "b"]]
        shared.take([NotReplicated("not yet", answer=[1, 2])])
        return [await errand.answer for errand in errands]

    unconfirmed = asyncio.run(scenario())
    assert [type(one) for one in unconfirmed] == [NotReplicated] * 2
    assert [one.answer for one in unconfirmed] == [[1], [2]]


def test_what_several_were_refused_together_each_asks_alone() -> None:
    async def scenario(size: int) -> list[Any]:
        loop = asyncio.get_running_loop()
        errands = [Errand(Call("intent", [1], list), loop.create_future(), 0.0) for _ in range(size)]
        Shared(errands).take([problem])
        return [await errand.answer for errand in errands]

    problem = ServerError("broken")
    assert asyncio.run(scenario(1)) == [problem]
    assert asyncio.run(scenario(2)) == [ALONE, ALONE]
