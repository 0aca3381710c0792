"""A queue for asyncio."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self, TypeVar, Unpack

from redislease import limits
from redislease.async_lease import AsyncLease
from redislease.async_operations import AsyncQueueOperations
from redislease.commands.claim import register
from redislease.commands.enqueue import EnqueueOptions, EnqueueRequest, Seconds
from redislease.connection.async_transport import AsyncTransport
from redislease.connection.clients import open_async_clients
from redislease.connection.endpoint import AsyncClient
from redislease.flow import Flow, adrive
from redislease.flows import attaching, claiming, producing
from redislease.heartbeat import Heartbeat
from redislease.models import Conflict, Enqueued, Lost, Owner, Renewed, Settled, Task
from redislease.queue import Queue
from redislease.queue_core import QueueCore, end_of_block
from redislease.redaction import Redact
from redislease.scripts import ScriptLibrary

T = TypeVar("T")


class AsyncQueue(AsyncQueueOperations, QueueCore):
    """A lease queue on one Redis server.

    Give `redis_url`, `client` or `client_factory`; else `REDISLEASE_URL` counts, else a local server. Every method may
    raise `ServerError` when the server cannot be asked, and raises `InvalidInput` before anything is sent.

    Args:
        name: 1 to 64 of `A-Z a-z 0-9 . _ -`.
        redis_url: `redis://`, `rediss://`, `unix://`, `embedded:///dir` or `memory://NAME`.
        client: A redis-py client that stays yours.
        client_factory: Returns a new client at each call.
        prefix: What the key names start with.
        worker_name: What identities registered by this object start with; host and process by default.
        wait_replicas: How many replicas must confirm what is written.
        wait_timeout_ms: How long they may take; a server rounds it up to its timer, a tenth of a second by default.
        retry_for_s: How many seconds a call is repeated while the server cannot be reached.
        redact: Takes a text and returns what may be stored of it: errors, reasons why an effect was not done, notes of
            progress. Where it fails, the text is withheld.
        scripts: Another set of Lua scripts, for tests.
    """

    def __init__(
        self,
        name: str,
        *,
        redis_url: str | None = None,
        client: AsyncClient | None = None,
        client_factory: Callable[[], AsyncClient] | None = None,
        prefix: str = "redislease",
        worker_name: str | None = None,
        wait_replicas: int = 0,
        wait_timeout_ms: int = 1_000,
        retry_for_s: float = limits.RETRY_FOR_S,
        redact: Redact | None = None,
        scripts: ScriptLibrary | None = None,
    ) -> None:
        self._source: dict[str, Any] = {"redis_url": redis_url, "client": client, "client_factory": client_factory}
        self._sync_queue: Queue | None = None
        self._sync_lock = threading.Lock()
        super().__init__(name, prefix, worker_name, wait_replicas, wait_timeout_ms, redact, scripts)
        self._transport = AsyncTransport(
            self._keys,
            self._library,
            open_async_clients(redis_url, client=client, client_factory=client_factory),
            wait_replicas=self._wait_replicas,
            wait_timeout_ms=self._wait_timeout_ms,
            retry_for_s=retry_for_s,
        )

    def _drive(self, flow: Flow[T]) -> Coroutine[Any, Any, T]:
        return adrive(flow, self._transport)

    def _as_sync(self) -> Queue:
        with self._sync_lock:
            if self._sync_queue is None:
                self._sync_queue = Queue(self.name, **self._source, **self._settings())
            return self._sync_queue

    def _as_async(self) -> AsyncQueue:
        return self

    async def aclose(self) -> None:
        """Closes what this object opened. Leases that are still held are left to their deadline."""
        self._stop_heartbeat()
        if self._sync_queue is not None:
            self._sync_queue.close()
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # Producing

    async def enqueue(self, name: str, payload: Any = None, **options: Unpack[EnqueueOptions]) -> Task:
        """As `Queue.enqueue`. Script: `enqueue`."""
        return await self._drive(producing.enqueue(self._context, {"name": name, "payload": payload, **options}))

    async def enqueue_many(self, requests: Sequence[EnqueueRequest | Mapping[str, Any]]) -> list[Enqueued | Conflict]:
        """As `Queue.enqueue_many`. Script: `enqueue`."""
        return await self._drive(producing.enqueue_many(self._context, requests))

    # Working

    async def register(self, name: str | None = None, *, owner: str = "") -> Owner:
        """As `Queue.register`. Script: `register`."""
        return await self.run(register(self._registered_name(name), owner=owner))

    async def claim(
        self, limit: int = 1, *, wait: Seconds | None = None, lane: str = "ready", owner: Owner | None = None
    ) -> list[AsyncLease]:
        """As `Queue.claim`. Script: `claim`."""
        flow = claiming.claim(self._context, limit, wait_s=claiming.wait_s(wait), lane=lane, owner=owner)
        return self._leases(await self._drive(flow))

    def _leases(self, batch: claiming.Batch) -> list[AsyncLease]:
        return [AsyncLease(self, batch.owner, grant, batch.sent_s) for grant in batch.claimed.grants]

    @asynccontextmanager
    async def claim_one(self, *, wait: Seconds | None = None, lane: str = "ready") -> AsyncIterator[AsyncLease | None]:
        """As `Queue.claim_one`."""
        leases = await self.claim(1, wait=wait, lane=lane)
        if not leases:
            yield None
            return
        lease = leases[0]
        with self.keep_alive(lease):
            try:
                yield lease
            except BaseException as problem:
                ending = end_of_block(lease, problem)
                if ending is not None:
                    await self._drive(ending)
                raise
            ending = end_of_block(lease, None)
            if ending is not None:
                await self._drive(ending)

    @contextmanager
    def keep_alive(self, *leases: AsyncLease) -> Iterator[None]:
        """Renews leases from a thread of its own, on a connection of its own, while the block runs."""
        with self._kept_alive(leases):
            yield

    def _open_heartbeat(self, on_renewal: Callable[[int, float], None] | None = None) -> Heartbeat:
        return Heartbeat(self._heartbeat_transport(self._transport.clients.heartbeat_client()), on_renewal)

    async def renew_many(self, leases: Sequence[AsyncLease]) -> list[Renewed | Lost]:
        """As `Queue.renew_many`. Script: `renew`."""
        return await self._drive(self._renew_many(leases))

    async def complete_many(
        self, results: Sequence[tuple[AsyncLease, Any]], claim: int = 0, *, lane: str = "ready"
    ) -> tuple[list[Settled | Lost], list[AsyncLease]]:
        """As `Queue.complete_many`. Script: `complete`."""
        answers, batch = await self._drive(self._complete_many(results, claim, lane))
        return answers, self._leases(batch) if batch else []

    async def attach(self, handle: str) -> AsyncLease:
        """As `Queue.attach`. Script: `renew`."""
        owner, grant, sent_s, reports = await self._drive(attaching.attach(self._context, handle))
        lease = AsyncLease(self, owner, grant, sent_s)
        lease._reports = reports
        return lease
