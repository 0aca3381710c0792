"""Waiting for a result."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from redislease import (
    ConfigurationError,
    InvalidInput,
    PayloadInvalid,
    Queue,
    TaskNotCompleted,
    TaskUnknown,
    WaitTimeout,
)

pytestmark = pytest.mark.contract


def test_a_result_that_is_there_or_comes(queue: Any) -> None:
    first, second = (queue.enqueue("work", side_effect="idempotent").id for _ in range(2))
    one, two = queue.claim(2)
    one.complete({"sum": 3})
    assert queue.wait(first) == {"sum": 3}

    def complete_later() -> None:
        time.sleep(0.2)
        two.complete()

    thread = threading.Thread(target=complete_later)
    thread.start()
    begun = time.monotonic()
    assert queue.wait(second, 10) is None
    assert 0.15 < time.monotonic() - begun < 2
    thread.join()


def test_an_end_without_a_result(queue: Any) -> None:
    for name in ("dead", "cancelled"):
        queue.enqueue(name, side_effect="idempotent", task_id=name)
    leases = {lease.id: lease for lease in queue.claim(2)}
    leases["dead"].fail("no luck", retry=False)
    queue.cancel("cancelled", by="me", reason="enough")
    for name in ("dead", "cancelled"):
        with pytest.raises(TaskNotCompleted) as told:
            queue.wait(name, 5)
        assert (told.value.task_id, told.value.status) == (name, name)
    with pytest.raises(TaskUnknown):
        queue.wait("nobody", 1)


def test_patience_ends(queue: Any) -> None:
    task_id = queue.enqueue("work", side_effect="idempotent").id
    begun = time.monotonic()
    with pytest.raises(WaitTimeout):
        queue.wait(task_id, 0.2)
    assert 0.19 <= time.monotonic() - begun < 1
    with pytest.raises(WaitTimeout):
        queue.wait(task_id, 0)
    for timeout in (-1, "5", float("nan"), True):
        with pytest.raises(InvalidInput):
            queue.wait(task_id, timeout)


@dataclass
class Receipt:
    number: int


def test_results_come_back_as_their_type(queue_name: str) -> None:
    with Queue(queue_name, redis_url=f"memory://{queue_name}") as queue:

        @queue.task(side_effect="idempotent")
        def pays(number: int) -> Receipt:
            return Receipt(number)

        def odd() -> threading.Thread: ...  # type: ignore[empty-body]

        for result, expected in ((Receipt(7), Receipt(7)), ({"number": "7"}, PayloadInvalid), (None, PayloadInvalid)):
            task = pays.enqueue(7)
            (lease,) = queue.claim()
            lease.complete(result)
            if isinstance(expected, type):
                with pytest.raises(expected):
                    pays.wait(task.id)
            else:
                assert pays.wait(task.id) == expected
        unreadable = queue.add_task(odd, name="odd", side_effect="read_only")
        with pytest.raises(ConfigurationError):
            unreadable.wait(task.id)
