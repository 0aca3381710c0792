"""The worker: runs the handlers of one or several queues until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

from redislease import validation
from redislease.async_queue import AsyncQueue
from redislease.errors import ConfigurationError
from redislease.health import HealthServer, address
from redislease.queue import Queue
from redislease.worker.context import WorkerContext, context_of_worker
from redislease.worker.observer import EVENTS, EventLog, Observer, Observers
from redislease.worker.pump import Pump
from redislease.worker.slots import Slots
from redislease.worker.threads import DaemonPool

LOG = logging.getLogger("redislease.worker")

Hook = Callable[[WorkerContext], Awaitable[None] | None]

GRACE_S = 25.0
AFTER_GRACE_S = 5.0
"""How long handlers that were ended have to end, and what they leave has to reach the server."""
POLL_S = 0.02
PROBE_S = 2.0
ASYNC_CONCURRENCY = 100
THREAD_CONCURRENCY = 16
CONCURRENCY_MAX = 1_000


class Worker:
    """Claims tasks of its queues, runs their handlers, keeps their leases alive and settles them.

    It opens connections of its own, so its queues need a URL, a `client_factory`, or a client whose server can be told.

    Args:
        queues: One queue or several. An earlier queue goes first, unless there are weights.
        concurrency: How many handlers run at once; 100 by default, 16 when one of them is a plain function.
        grace: Seconds that running handlers have after the first SIGTERM.
        name: What its identities start with; host and process by default.
        weights: For each queue, its share of the places while several have work.
        on_startup: Called with the context before the first claim.
        on_shutdown: Called with the context after the last handler.
        signals: Whether SIGTERM and SIGINT stop it.
        observers: Told of every lease event.
        listen: `PORT` or `HOST:PORT` at which `/healthz` answers, and `/metrics` if the extra `metrics` is installed.

    Attributes:
        queues: The queues.
        concurrency: How many handlers run at once.
        abandoned: How many handlers did not end when they were told to, and may still run.

    Raises:
        ConfigurationError: A queue has no handlers, or the weights do not fit.
        InvalidInput: An option is not acceptable.
    """

    def __init__(
        self,
        queues: Queue | AsyncQueue | Sequence[Queue | AsyncQueue],
        *,
        concurrency: int | None = None,
        grace: float = GRACE_S,
        name: str | None = None,
        weights: Sequence[float] | None = None,
        on_startup: Hook | None = None,
        on_shutdown: Hook | None = None,
        signals: bool = True,
        observers: Sequence[Observer] = (),
        listen: str | None = None,
    ) -> None:
        self.queues: tuple[Queue | AsyncQueue, ...] = tuple(queues) if isinstance(queues, Sequence) else (queues,)
        self._check_queues()
        if weights is not None and (len(weights) != len(self.queues) or not all(weight > 0 for weight in weights)):
            raise ConfigurationError("give each queue a weight above 0")
        if concurrency is None:
            plain = any(not task.signature.is_async for queue in self.queues for task in queue._tasks.values())
            concurrency = THREAD_CONCURRENCY if plain else ASYNC_CONCURRENCY
        self.abandoned = 0
        self.concurrency = validation.integer(concurrency, "concurrency", low=1, high=CONCURRENCY_MAX)
        self._grace_s = validation.duration_ms(grace, "grace", low_ms=0, high_ms=86_400_000) / 1000
        self._name = None if name is None else validation.worker_name(name)
        self._weights = None if weights is None else list(weights)
        self._on_startup = on_startup
        self._on_shutdown = on_shutdown
        self._signals = signals
        self._observers = list(observers)
        self._listen = None if listen is None else address(listen)
        self._stops = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._pumps: list[Pump] = []

    def _check_queues(self) -> None:
        if not self.queues:
            raise ConfigurationError("a worker needs a queue")
        names = [queue.name for queue in self.queues]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"a queue is there twice: {', '.join(names)}")
        for queue in self.queues:
            if not queue._tasks:
                raise ConfigurationError(f"queue {queue.name!r} has no handlers")

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT, in an event loop of its own.

        Handlers that cannot be stopped do not keep it from returning.
        """
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self.serve())
        finally:
            rest = asyncio.all_tasks(loop)
            for task in rest:
                task.cancel()
            if rest:
                loop.run_until_complete(asyncio.wait(rest, timeout=1.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def stop(self) -> None:
        """As a SIGTERM: the first call stops claims and gives handlers their grace, a second ends the grace.

        It may be called from any thread.
        """
        self._stops += 1
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended in between
                loop.call_soon_threadsafe(stopping.set)

    async def serve(self) -> None:
        """Runs until `stop` is called, SIGTERM or SIGINT comes, or the caller is cancelled.

        Raises:
            ConfigurationError: The queue cannot be served by this version, or not with this configuration.
        """
        loop = self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._stops:
            self._stopping.set()
        context = WorkerContext(tuple(queue.name for queue in self.queues), self.concurrency)
        async with contextlib.AsyncExitStack() as stack:
            if self._signals:
                stack.enter_context(self._handling_signals(loop))
            token = context_of_worker.set(context)
            stack.callback(context_of_worker.reset, token)
            slots = Slots(self.concurrency, len(self.queues), self._weights)
            pool = DaemonPool(self.concurrency)
            stack.callback(pool.close)
            observers = self._observe(stack)
            try:
                for number, queue in enumerate(self.queues):
                    self._pumps.append(await self._open(queue, stack, slots, number, pool, observers))
                await _call(self._on_startup, context)
                try:
                    await self._pump_until_stopped()
                finally:
                    await _call(self._on_shutdown, context)
            finally:
                self._pumps.clear()

    def _observe(self, stack: contextlib.AsyncExitStack) -> Observers:
        """Log lines where somebody reads them, metrics and health where they were asked for."""
        observers = list(self._observers)
        if EVENTS.isEnabledFor(logging.INFO):
            observers.append(EventLog())
        if self._listen is not None:
            watched = [self._watched(queue, stack) for queue in self.queues]
            text = None
            if find_spec("prometheus_client") is not None:
                from redislease.metrics import Metrics

                metrics = Metrics(lambda: watched)
                observers.append(metrics)
                text = metrics.text
            stack.callback(HealthServer(self._listen, lambda: watched, text).close)
        return Observers(observers)

    def _watched(self, queue: Queue | AsyncQueue, stack: contextlib.AsyncExitStack) -> Queue:
        """A queue for probes, with little patience and an identity that tells what it is for."""
        settings = {**queue._source, **queue._settings(), "worker_name": "health", "retry_for_s": PROBE_S}
        watched = Queue(queue.name, **settings)
        stack.callback(watched.close)
        return watched

    async def _open(
        self,
        queue: Queue | AsyncQueue,
        stack: contextlib.AsyncExitStack,
        slots: Slots,
        number: int,
        pool: DaemonPool,
        observers: Observers,
    ) -> Pump:
        """A queue of the worker's own, twice: handlers that use every connection do not keep it from working."""
        settings: dict[str, Any] = {**queue._source, **queue._settings()}
        if self._name is not None:
            settings["worker_name"] = self._name
        calls = AsyncQueue(queue.name, **settings)
        stack.push_async_callback(calls.aclose)
        for_handlers = AsyncQueue(queue.name, **settings)
        stack.push_async_callback(for_handlers.aclose)
        for_handlers._tasks = queue._tasks
        on_renewal = functools.partial(observers.renewed, queue.name) if observers else None
        heartbeat = calls._open_heartbeat(on_renewal)
        stack.callback(heartbeat.stop)
        return Pump(calls, for_handlers, for_handlers._as_sync(), heartbeat, slots, number, pool, observers)

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
            await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await asyncio.shield(asyncio.create_task(self._shut_down(running)))

    async def _grace(self) -> None:
        """Until every handler has ended, or the grace is over, or a second signal comes."""
        ends_s = time.monotonic() + self._grace_s
        for pump in self._pumps:
            while pump.attempts and time.monotonic() < ends_s and self._stops < 2:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)

    async def _shut_down(self, running: list[asyncio.Task[None]]) -> None:
        """Stops claiming; grace; ends handlers; gives what they leave time to arrive; abandons the rest.

        Raises:
            Exception: What a queue has failed with, after the others were shut down in order.
        """
        for pump in self._pumps:
            pump.stop_claiming()
        await self._grace()
        for pump in self._pumps:
            pump.interrupt()
        _, late = await asyncio.wait(running, timeout=AFTER_GRACE_S)
        if late:
            for pump in self._pumps:
                self.abandoned += len(pump.attempts)
                pump.abandon()
            _, late = await asyncio.wait(late, timeout=AFTER_GRACE_S)
            for task in late:
                task.cancel()
        results = await asyncio.gather(*running, return_exceptions=True)
        problems = [result for result in results if isinstance(result, Exception)]
        for problem in problems[1:]:
            LOG.error("a queue has failed as well", exc_info=problem)
        if problems:
            raise problems[0]


async def _call(hook: Hook | None, context: WorkerContext) -> None:
    if hook is not None:
        waiting = hook(context)
        if waiting is not None:
            await waiting
