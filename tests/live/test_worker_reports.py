"""Reports of progress by the thousand: only the newest of each lease travels."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from servers import wait_until
from sharing import Crowd, Link
from working import elapsed_s, statuses, wait_status, working

from redislease import AsyncLease, LeaseLost, Queue


def test_ten_thousand_reports_a_second(link: Link, linked: Queue, queue: Queue) -> None:
    """Of the reports that wait, only the newest of each lease is sent, and every one is answered."""
    taken: list[float] = []

    @linked.task(side_effect="idempotent")
    async def works(lease: AsyncLease, number: int) -> None:
        begun = time.monotonic()
        for step in range(5):
            await asyncio.gather(*(lease.progress(step * 100 + part, 500, "half") for part in range(100)))
        await lease.progress(500, 500)
        taken.append(elapsed_s(begun))

    ids = [done.id for done in works.enqueue_many([(number,) for number in range(20)])]  # type: ignore[union-attr]
    with working(linked, concurrency=20):
        wait_until(lambda: statuses(queue, *ids) == ["completed"] * 20, 30)
    for task_id in ids:
        progress = queue.detail(task_id).progress
        assert progress
        assert (progress["number"], progress["done"]) == (501, 500)
    assert link.sent["progress"] < 300, "10,020 reports"
    assert max(taken) < 5


def test_reports_of_a_lost_lease_are_refused_one_and_all(queue: Queue) -> None:
    told: list[Any] = []
    crowd = Crowd(2)

    @queue.task(side_effect="idempotent")
    async def works(lease: AsyncLease, lost: bool) -> None:
        await crowd.meet()
        if lost:
            await asyncio.to_thread(queue.revoke, lease.id, by="me")
        reports = [asyncio.ensure_future(lease.progress(number)) for number in range(50)]
        told.extend(await asyncio.shield(asyncio.gather(*reports, return_exceptions=True)))

    ids = [works.options(max_attempts=1).enqueue(lost).id for lost in (True, False)]
    with working(queue):
        wait_status(queue, ids[1], "completed")
        wait_until(lambda: queue.get(ids[0]).status != "leased")
        queue.cancel(ids[0], by="me")
    assert [type(one) for one in told if one is not None][:50] in ([LeaseLost] * 50, [])
    assert sum(one is None for one in told) >= 50
