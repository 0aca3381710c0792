"""How soon an idle worker begins a task, beside what a bare event loop needs for the same two calls.

Another process, on the server's core, enqueues one task at a time; the clock runs from the answer that it gets to the
first line of the handler. The bare loop waits for the bell and claims, on sockets of its own and without a worker: less
is not to be had from asyncio by who claims when the bell has rung. (The worker's claim stands behind the bell.)
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
from typing import Any

import hiredis
import redis

from benchmarks.server import BenchmarkServer
from redislease import AsyncQueue, Queue, Worker
from redislease.commands import claim as claim_commands
from redislease.commands.settle import Completion, complete
from redislease.connection.exchange import packed
from redislease.handle import Handle

PAYLOAD = "x" * 100
PINGS = 1_000
QUEUE = "bench"


def produce(url: str, tasks: int, core: int | None, answered: Any) -> None:
    """Enqueues now and then, and tells when each was answered."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    times = []
    with Queue(QUEUE, redis_url=url) as queue:
        time.sleep(0.5)
        for _ in range(tasks):
            queue.enqueue("nothing", {"data": PAYLOAD}, side_effect="read_only")
            times.append(time.perf_counter())
            time.sleep(0.01)
    answered.put(times)


class Producer:
    """The other process.

    Args:
        url: The server.
        tasks: How many.
        core: Where it runs.
    """

    def __init__(self, url: str, tasks: int, core: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._answered: Any = context.SimpleQueue()
        self._process = context.Process(target=produce, args=(url, tasks, core, self._answered), daemon=True)
        self._process.start()

    def taken_s(self, begun: list[float]) -> list[float]:
        """Seconds from each answer to when its task was begun."""
        answers = self._answered.get()
        self._process.join()
        return [max(0.0, start - answer) for start, answer in zip(begun, answers, strict=True)]


def by_a_worker(server: BenchmarkServer, url: str, tasks: int) -> list[float]:
    """Seconds until a handler of an idle worker begins."""
    begun: list[float] = []
    with server.queue(QUEUE, redis_url=url) as queue:

        @queue.task(side_effect="read_only")
        async def nothing(data: str) -> None:
            begun.append(time.perf_counter())
            if len(begun) == tasks:
                worker.stop()

        worker = Worker(queue)
        producer = Producer(url, tasks, server.pinned)
        worker.run()
    return producer.taken_s(begun)


class _Link(asyncio.Protocol):
    """A connection that asks one thing at a time."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._answer: asyncio.Future[Any] | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        reply = self._reader.gets()
        if reply is not False and self._answer is not None:
            self._answer.set_result(reply)

    def ask(self, *words: Any) -> asyncio.Future[Any]:
        """The reply to a command."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(packed(words))
        return self._answer


async def _wait_and_claim(queue: AsyncQueue, producer: Producer, port: int, tasks: int) -> list[float]:
    begun: list[float] = []
    owner = await queue.register()
    await queue.run(claim_commands.claim(owner.name, 1, limit=1))
    loop = asyncio.get_running_loop()
    (bells, bell), (calls, call) = [await loop.create_connection(_Link, "127.0.0.1", port) for _ in range(2)]
    while len(begun) < tasks:
        claim = claim_commands.claim(owner.name, len(begun) + 2, limit=1)
        words = ["EVALSHA", queue._library["claim"].sha, 2, queue.keys.meta, queue.keys.never, "0", *claim.args]
        await bell.ask("BZPOPMIN", queue.keys.wake(), "60")
        (grant,) = claim.parse(await call.ask(*words)).grants
        begun.append(time.perf_counter())
        handle = Handle(queue.name, grant.id, owner.name, grant.generation, grant.token)
        await queue.run(complete([Completion(handle)]))
    for transport in (bells, calls):
        transport.close()
    return await asyncio.to_thread(producer.taken_s, begun)


def by_a_bare_loop(server: BenchmarkServer, url: str, port: int, tasks: int) -> list[float]:
    """Seconds until a claim is answered that was sent as soon as the bell had rung."""

    async def main() -> list[float]:
        async with server.async_queue(QUEUE, redis_url=url) as queue:
            return await _wait_and_claim(queue, Producer(url, tasks, server.pinned), port, tasks)

    return asyncio.run(main())


def pings_s(client: redis.Redis) -> list[float]:
    """The yardstick: seconds of single PINGs."""
    taken = []
    for _ in range(PINGS):
        begun = time.perf_counter()
        client.ping()
        taken.append(time.perf_counter() - begun)
    return taken


def pickup(server: BenchmarkServer, client: redis.Redis, port: int, tasks: int) -> dict[str, float]:
    """One run of all."""
    url = f"redis://127.0.0.1:{port}"
    client.flushall()
    before = pings_s(client)
    bare = statistics.median(by_a_bare_loop(server, url, port, tasks))
    client.flushall()
    taken = by_a_worker(server, url, tasks)
    ping = statistics.median(before + pings_s(client))
    p50 = statistics.median(taken)
    return {
        "p50 ms": p50 * 1e3,
        "p99 ms": statistics.quantiles(taken, n=100)[98] * 1e3,
        "PING p50 ms": ping * 1e3,
        "bare loop p50 ms": bare * 1e3,
        "p50 / PING": p50 / ping,
        "bare loop / PING": bare / ping,
    }
