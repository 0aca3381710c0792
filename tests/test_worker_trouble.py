"""Trouble with the server that meets a handler at its effect is not the task's failure."""

from __future__ import annotations

from typing import Any

import pytest
from servers import Engine
from working import assert_whole, wait_status, working

from redislease import AsyncLease, Lease, Queue, ServerLoading, ServerUnavailable, effect_core


@pytest.fixture
def queue(engine: Engine, queue_name: str) -> Any:
    """A queue by the server's clock, whose keys are checked behind the test."""
    with Queue(queue_name, redis_url=engine.url) as opened:
        yield opened
        assert_whole(engine, opened)


@pytest.mark.parametrize(
    "problem", [ServerUnavailable("away"), ServerLoading("loading")], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("kind", ["async", "thread"])
def test_an_effect_that_could_not_begin_puts_its_task_off(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, problem: Exception, kind: str
) -> None:
    def away(*_: Any) -> Any:
        raise problem
        yield

    @queue.task(name="async", side_effect="non_idempotent", records_effects=True)
    async def in_loop(lease: AsyncLease) -> None:
        await lease.run_effect("mail", lambda effect: 1)

    @queue.task(name="thread", side_effect="non_idempotent", records_effects=True)
    def in_thread(lease: Lease) -> None:
        lease.run_effect("mail", lambda effect: 1)

    monkeypatch.setattr(effect_core, "until_confirmed", away)
    task_id = queue.enqueue(kind, {}, side_effect="non_idempotent", records_effects=True).id
    with working(queue):
        task = wait_status(queue, task_id, "scheduled")
    assert (task.failures, task.releases) == (0, 1)


def test_the_same_error_of_something_else_is_a_failure(queue: Queue) -> None:
    @queue.task(name="work", side_effect="idempotent")
    def work() -> None:
        raise ServerUnavailable("another server")

    task_id = queue.enqueue("work", {}, side_effect="idempotent").id
    with working(queue):
        task = wait_status(queue, task_id, "scheduled")
    assert (task.failures, task.releases) == (1, 0)
