"""What becomes of a task: its handler is called with its payload, and each way to end ends in the state it should."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from servers import Engine, wait_until
from working import Running, assert_whole, statuses, wait_status, working

from redislease import AsyncLease, AsyncQueue, Backoff, Lease, LeaseLost, Queue, RedisLeaseError
from redislease.worker import Worker, current_context, current_lease

pytestmark = pytest.mark.contract


class Invoice(BaseModel):
    number: int
    lines: list[str] = []


@dataclass
class Receipt:
    number: int
    paid: bool


class Broken(BaseModel):
    number: int

    def model_post_init(self, _: Any) -> None:
        raise KeyError("config")


@pytest.fixture
def queue(engine: Engine, queue_name: str) -> Any:
    """A queue by the server's clock, whose keys are checked behind the test."""
    with Queue(queue_name, redis_url=engine.url) as opened:
        yield opened
        assert_whole(engine, opened)


def test_handlers_get_their_arguments_and_their_lease(queue: Queue) -> None:
    seen: dict[str, Any] = {}

    @queue.task(side_effect="idempotent")
    async def with_lease(lease: AsyncLease, invoice: Invoice, *, note: str = "none") -> Receipt:
        assert current_lease() is lease
        await asyncio.sleep(0)
        seen["async"] = (lease.generation, invoice, note)
        return Receipt(invoice.number, True)

    @queue.task(side_effect="idempotent", name="plain.one")
    def in_thread(lease: Lease, number: int, /, receipt: Receipt | None = None) -> int:
        assert current_lease() is lease
        lease.progress(1, 2, "half")
        seen["thread"] = (threading.current_thread().name, number, receipt)
        return number + 1

    @queue.task(side_effect="read_only")
    def bare() -> dict[str, list[int]]:
        return {"found": [1, 2]}

    ids = [
        with_lease.enqueue(Invoice(number=42, lines=["a"]), note="n").id,
        in_thread.enqueue(7, Receipt(7, False)).id,
        bare.enqueue().id,
    ]
    with working(queue):
        for task_id in ids:
            wait_status(queue, task_id, "completed")
    assert seen["async"] == (1, Invoice(number=42, lines=["a"]), "n")
    name, *rest = seen["thread"]
    assert name.startswith("redislease-handler")
    assert rest == [7, Receipt(7, False)]
    assert [queue.result(task_id) for task_id in ids] == [{"number": 42, "paid": True}, 8, {"found": [1, 2]}]
    with pytest.raises(RedisLeaseError, match="no handler"):
        current_lease()


def test_failures_go_where_the_policy_says(queue: Queue) -> None:
    @queue.task(side_effect="idempotent", max_attempts=2, retry=Backoff(0.05, jitter=0))
    async def fails() -> None:
        raise ValueError("no luck")

    @queue.task(side_effect="non_idempotent", max_attempts=2)
    def fails_in_doubt() -> None:
        raise ValueError("half way")

    @queue.task(side_effect="idempotent", max_attempts=1)
    async def leaves() -> None:
        raise SystemExit(3)

    @queue.task(side_effect="idempotent", max_attempts=1)
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    ids = [task.enqueue().id for task in (fails, fails_in_doubt, leaves, cancels_itself)]
    with working(queue):
        wait_until(lambda: statuses(queue, *ids) == ["dead", "reconciling", "dead", "dead"])
    task = queue.get(ids[0])
    assert (task.attempts, task.failures, task.last_error) == (2, 2, "ValueError: no luck")


@pytest.mark.parametrize("flavour", ["async", "thread"])
def test_results_that_cannot_be_stored_fail_the_attempt(queue: Queue, flavour: str) -> None:
    class Odd(BaseModel):
        def model_dump(self, **_: Any) -> Any:
            raise RuntimeError("odd")

    results = {"nan": float("nan"), "function": print, "large": "x" * 1_048_577, "odd": Odd()}

    def plain(what: str) -> Any:
        return results[what]

    async def coroutine(what: str) -> Any:
        return results[what]

    function = coroutine if flavour == "async" else plain
    idempotent = queue.add_task(function, name="some", side_effect="idempotent", max_attempts=1)
    once = queue.add_task(function, name="once", side_effect="non_idempotent", max_attempts=1)
    ids = [idempotent.enqueue(what).id for what in results]
    doubtful = once.enqueue("nan").id
    with working(queue):
        wait_until(lambda: statuses(queue, *ids) == ["dead"] * 4)
        wait_status(queue, doubtful, "reconciling")
    assert queue.result(ids[0]) is None


def test_a_payload_that_no_longer_fits_is_dead(queue: Queue) -> None:
    called: list[Any] = []

    @queue.task(side_effect="non_idempotent")
    def strict(number: int) -> None:
        called.append(number)

    ids = [
        queue.enqueue("strict", payload, side_effect="non_idempotent").id
        for payload in ({"number": "7"}, {}, {"number": None}, {"number": 1.5, "more": 1})
    ]
    with working(queue):
        wait_until(lambda: statuses(queue, *ids) == ["dead"] * 4)
    assert not called
    assert (queue.get(ids[0]).last_error or "").startswith("schema: ")


def test_what_only_a_newer_version_knows_is_given_back(queue: Queue) -> None:
    """An unknown name, or an unknown parameter: later, without counting anything."""

    @queue.task(side_effect="idempotent")
    async def known(number: int) -> None:
        pass

    name = queue.enqueue("stranger", side_effect="non_idempotent").id
    parameter = queue.enqueue("known", {"number": 1, "colour": "red"}, side_effect="idempotent").id
    with working(queue):
        wait_until(lambda: statuses(queue, name, parameter) == ["scheduled"] * 2)
    for task_id in (name, parameter):
        task = queue.get(task_id)
        assert (task.attempts, task.failures, task.releases, task.open_effects) == (0, 0, 0, 0)
        assert 0.4 < (task.available_at or 0) / 1000 - time.time() <= 1.1


def test_a_validator_that_breaks_is_a_failure_of_the_attempt(queue: Queue) -> None:
    async def broken(item: Broken) -> None:
        pass

    queue.add_task(broken, side_effect="non_idempotent", max_attempts=1)
    task_id = queue.enqueue("broken", {"item": {"number": 1}}, side_effect="non_idempotent", max_attempts=1).id
    with working(queue) as running:
        wait_status(queue, task_id, "dead")
        assert running.problem is None


def test_handlers_may_end_their_lease_themselves(queue: Queue) -> None:
    @queue.task(side_effect="idempotent")
    async def puts_off(lease: AsyncLease) -> str:
        await lease.release(60)
        return "not recorded"

    @queue.task(side_effect="idempotent")
    def done(lease: Lease) -> str:
        lease.complete("mine")
        raise ValueError("afterwards")

    ids = [puts_off.enqueue().id, done.enqueue().id]
    with working(queue):
        wait_until(lambda: statuses(queue, *ids) == ["scheduled", "completed"])
    assert queue.result(ids[1]) == "mine"


def test_an_effect_refused_by_a_pause_puts_the_task_off(queue: Queue) -> None:
    started = threading.Event()
    paused = threading.Event()

    @queue.task(side_effect="idempotent")
    def sends(lease: Lease) -> None:
        started.set()
        assert paused.wait(10)
        lease.run_effect("mail", lambda _: None)

    task_id = sends.enqueue().id
    with working(queue):
        assert started.wait(10)
        queue.pause("effects", by="me", reason="incident")
        paused.set()
        task = wait_status(queue, task_id, "scheduled")
        assert (task.failures, task.releases) == (0, 1)
        queue.resume(by="me", reason="over")


def test_a_paused_queue_starts_no_handler_with_an_implicit_effect(queue: Queue) -> None:
    @queue.task(side_effect="non_idempotent")
    async def sends() -> None:
        pass

    queue.pause("effects", by="me", reason="incident")
    task_id = sends.enqueue().id
    with working(queue):
        time.sleep(0.3)
        assert statuses(queue, task_id) == ["ready"]
        queue.resume(by="me", reason="over")
        wait_status(queue, task_id, "completed", 3)


def test_hooks_and_the_context(queue: Queue) -> None:
    seen: list[Any] = []

    async def open_database(context: Any) -> None:
        context.state.database = "db"
        seen.append(("startup", context.queues, context.concurrency))

    def close_database(context: Any) -> None:
        seen.append(("shutdown", context.state.database))

    @queue.task(side_effect="read_only")
    async def in_loop() -> None:
        seen.append(("async", current_context().state.database))

    @queue.task(side_effect="read_only")
    def in_thread() -> None:
        seen.append(("thread", current_context().state.database))

    with working(queue, on_startup=open_database, on_shutdown=close_database):
        for task in (in_loop, in_thread):
            wait_status(queue, task.enqueue().id, "completed")
    assert seen == [("startup", (queue.name,), 10), ("async", "db"), ("thread", "db"), ("shutdown", "db")]


def test_a_worker_of_an_async_queue(engine: Engine, queue_name: str) -> None:
    async def scenario() -> Any:
        async with AsyncQueue(queue_name, redis_url=engine.url) as queue:

            @queue.task(side_effect="idempotent")
            async def double(number: int) -> int:
                return number * 2

            worker = Worker(queue, signals=False)
            serving = asyncio.create_task(worker.serve())
            task = await double.aenqueue(21)
            result = await queue.wait(task.id, 10)
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
            return result

    assert asyncio.run(scenario()) == 42


def test_strict_order_of_queues(engine: Engine, queue_name: str) -> None:
    order: list[str] = []
    queues = [Queue(f"{queue_name}-{part}", redis_url=engine.url) for part in ("first", "second")]
    for one in queues:

        async def note(name: str) -> None:
            order.append(name)
            await asyncio.sleep(0.001)

        bound = one.add_task(note, name="note", side_effect="read_only")
        bound.enqueue_many([(one.name,)] * 60)
    with working(*queues, concurrency=2):
        wait_until(lambda: len(order) == 120, what="all")
        time.sleep(0.05)
    assert order.index(queues[1].name) >= 56
    for one in queues:
        one.close()


@pytest.mark.parametrize("concurrency", [1, 8])
def test_weights_share_the_places(engine: Engine, queue_name: str, concurrency: int) -> None:
    order: list[str] = []
    queues = [Queue(f"{queue_name}-{part}", redis_url=engine.url) for part in ("many", "few")]
    for one in queues:

        async def note(name: str) -> None:
            order.append(name)
            await asyncio.sleep(0.005)

        bound = one.add_task(note, name="note", side_effect="read_only")
        bound.enqueue_many([(one.name,)] * 150)
    with working(*queues, concurrency=concurrency, weights=[3, 1]):
        wait_until(lambda: len(order) >= 120, 20, what="enough")
        first = order[:120]
    assert 0.15 <= first.count(queues[1].name) / len(first) <= 0.40
    for one in queues:
        one.close()


def test_a_worker_without_handlers_is_a_mistake(queue: Queue) -> None:
    with pytest.raises(RedisLeaseError, match="no handlers"):
        Worker(queue)


def test_lost_is_raised_at_the_next_check(queue: Queue) -> None:
    """A plain function cannot be cancelled; it hears of the loss wherever it asks, and nothing of it is recorded."""
    outcome: list[Any] = []
    started = threading.Event()

    @queue.task(side_effect="idempotent", lease_duration=30)
    def slow(lease: Lease) -> str:
        started.set()
        try:
            while True:
                lease.check()
                time.sleep(0.01)
        except LeaseLost as lost:
            outcome.append(lost.reason)
        return "swallowed"

    task = slow.enqueue()
    with working(queue) as running:
        assert started.wait(10)
        begun = time.monotonic()
        queue.cancel(task.id, by="me", reason="enough")
        wait_until(lambda: outcome, 5)
        assert time.monotonic() - begun < 1.0
        wait_until(lambda: not busy(running), 5)
    assert outcome == ["cancelled"]
    assert statuses(queue, task.id) == ["cancelled"]
    assert [line["event"] for line in queue.evidence(task.id) if line["event"].startswith("late")] == []


def busy(running: Running) -> int:
    """How many attempts a worker has."""
    return sum(len(pump.attempts) for pump in running.worker._pumps)
