"""The worker: runs the handlers of one or several queues until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from redislease import validation
from redislease.async_queue import AsyncQueue
from redislease.errors import ConfigurationError
from redislease.queue import Queue
from redislease.worker.pump import Pump
from redislease.worker.slots import Slots
from redislease.worker.threads import DaemonPool

LOG = logging.getLogger("redislease.worker")

Hook = Callable[[], Awaitable[None] | None]

AFTER_GRACE_S = 5.0


class Worker:
    """Claims tasks of its queues, runs their handlers, keeps their leases alive and settles them.

    Args:
        queues: One queue or several. An earlier queue goes first, unless there are weights.
        concurrency: How many handlers run at once; 100 by default, 16 when one of them is a plain function.
        grace: Seconds that running handlers have after the first SIGTERM.
        name: What its identities start with.
        weights: For each queue, its share of the slots while several have work.
        on_startup: Called before the first claim.
        on_shutdown: Called after the last handler.
        signals: Whether SIGTERM and SIGINT stop it.
    """

    def __init__(
        self,
        queues: Queue | AsyncQueue | Sequence[Queue | AsyncQueue],
        *,
        concurrency: int | None = None,
        grace: float = 25.0,
        name: str | None = None,
        weights: Sequence[float] | None = None,
        on_startup: Hook | None = None,
        on_shutdown: Hook | None = None,
        signals: bool = True,
    ) -> None:
        self._queues = list(queues) if isinstance(queues, Sequence) else [queues]
        if not self._queues:
            raise ConfigurationError("a worker needs a queue")
        for queue in self._queues:
            if not queue._tasks:
                raise ConfigurationError(f"queue {queue.name!r} has no handlers")
        if weights is not None and (len(weights) != len(self._queues) or any(weight <= 0 for weight in weights)):
            raise ConfigurationError("give each queue a weight above 0")
        plain = any(not task.signature.is_async for queue in self._queues for task in queue._tasks.values())
        default = 16 if plain else 100
        self._concurrency = (
            default if concurrency is None else validation.integer(concurrency, "concurrency", low=1, high=1_000)
        )
        self._grace_s = validation.duration_ms(grace, "grace", low_ms=0, high_ms=86_400_000) / 1000
        self._name = None if name is None else validation.worker_name(name)
        self._weights = None if weights is None else list(weights)
        self._on_startup = on_startup
        self._on_shutdown = on_shutdown
        self._signals = signals
        self._stops = 0
        self._stopping: asyncio.Event | None = None
        self._pumps: list[Pump] = []

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT, in an event loop of its own."""
        asyncio.run(self.serve())

    def stop(self) -> None:
        """As a SIGTERM: the first call stops claims and gives handlers their grace, a second ends the grace."""
        self._stops += 1
        if self._stopping is not None:
            self._stopping.set()

    async def serve(self) -> None:
        """Runs until `stop` is called, SIGTERM or SIGINT comes, or the caller is cancelled."""
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._stops:
            self._stopping.set()
        async with contextlib.AsyncExitStack() as stack:
            if self._signals:
                stack.enter_context(self._handling_signals(loop))
            slots = Slots(self._concurrency, len(self._queues), self._weights)
            pool = DaemonPool(self._concurrency)
            stack.callback(pool.close)
            for number, queue in enumerate(self._queues):
                self._pumps.append(await self._open(queue, stack, slots, number, pool))
            await _call(self._on_startup)
            try:
                await self._pump_until_stopped()
            finally:
                await _call(self._on_shutdown)
                self._pumps.clear()

    async def _open(
        self, queue: Queue | AsyncQueue, stack: contextlib.AsyncExitStack, slots: Slots, number: int, pool: DaemonPool
    ) -> Pump:
        """A queue of the worker's own, on connections of its own."""
        settings: dict[str, Any] = {**queue._source, **queue._settings()}
        if self._name is not None:
            settings["worker_name"] = self._name
        asynchronous = AsyncQueue(queue.name, **settings)
        stack.push_async_callback(asynchronous.aclose)
        asynchronous._tasks = queue._tasks
        synchronous = asynchronous._as_sync()
        heartbeat = asynchronous._open_heartbeat()
        stack.callback(heartbeat.stop)
        return Pump(asynchronous, synchronous, heartbeat, slots, number, pool)

    @contextlib.contextmanager
    def _handling_signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        kinds = (signal.SIGTERM, signal.SIGINT)
        try:
            for kind in kinds:
                loop.add_signal_handler(kind, self.stop)
        except (NotImplementedError, RuntimeError, ValueError):  # not the main thread, or not a Unix
            yield
            return
        try:
            yield
        finally:
            for kind in kinds:
                loop.remove_signal_handler(kind)

    async def _pump_until_stopped(self) -> None:
        assert self._stopping is not None
        running = [asyncio.create_task(pump.run()) for pump in self._pumps]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopping}:
                task.result()
        finally:
            stopping.cancel()
            await asyncio.shield(self._shut_down(running))

    async def _shut_down(self, running: list[asyncio.Task[None]]) -> None:
        for pump in self._pumps:
            pump.stop_claiming()
        draining = asyncio.gather(*(pump.drain(self._grace_s) for pump in self._pumps))
        seen = self._stops
        while not draining.done():
            await asyncio.wait([draining], timeout=0.05)
            if self._stops > max(seen, 1):
                draining.cancel()
                for pump in self._pumps:
                    await pump.drain(0)
                break
        _, late = await asyncio.wait(running, timeout=AFTER_GRACE_S)
        if late:
            for pump in self._pumps:
                pump.abandon()
            _, late = await asyncio.wait(running, timeout=AFTER_GRACE_S)
            for task in late:
                task.cancel()
        for result in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(result, Exception):
                LOG.error("a claim loop ended with an error", exc_info=result)


async def _call(hook: Hook | None) -> None:
    if hook is not None:
        waiting = hook()
        if waiting is not None:
            await waiting
