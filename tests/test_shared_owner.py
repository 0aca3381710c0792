"""Separate processes that claim under one identity, each with request numbers that the server draws for it."""

from __future__ import annotations

from servers import Engine

from redislease.queue import Queue


def test_a_number_drawn_later_counts(engine: Engine, queue_name: str) -> None:
    with Queue(queue_name, redis_url=engine.url) as one, Queue(queue_name, redis_url=engine.url) as two:
        one.enqueue_many([{"name": "job", "side_effect": "read_only"}] * 3)
        name = one.register("shared").name
        claims = [queue.claim(owner=queue.register(owner=name)) for queue in (one, two, one)]
        assert len({lease.id for leases in claims for lease in leases}) == 3


def test_waiting_takes_nothing_that_another_process_has_claimed(engine: Engine, queue_name: str) -> None:
    with Queue(queue_name, redis_url=engine.url) as one, Queue(queue_name, redis_url=engine.url) as two:
        name = one.register("shared").name
        waiting = one.register(owner=name)
        one.enqueue("job", side_effect="read_only")
        taken = two.claim(owner=two.register(owner=name))
        assert len(taken) == 1
        assert one.claim(wait=0.3, owner=waiting) == []
