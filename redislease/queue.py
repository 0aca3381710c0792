"""A queue for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from redislease import limits
from redislease.commands.claim import register
from redislease.commands.enqueue import EnqueueOptions, EnqueueRequest, Seconds
from redislease.connection.clients import open_clients
from redislease.connection.endpoint import SyncClient
from redislease.connection.transport import Transport
from redislease.flow import Flow, drive
from redislease.flows import attaching, claiming, producing
from redislease.heartbeat import Heartbeat
from redislease.lease import Lease
from redislease.loop_local import LoopLocal
from redislease.models import Conflict, Enqueued, Lost, Owner, Renewed, Settled, Task
from redislease.operations import QueueOperations
from redislease.queue_core import QueueCore, end_of_block
from redislease.redaction import Redact
from redislease.scripts import ScriptLibrary

if TYPE_CHECKING:
    from redislease.async_queue import AsyncQueue

T = TypeVar("T")


class Queue(QueueOperations, QueueCore):
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
        client: SyncClient | None = None,
        client_factory: Callable[[], SyncClient] | None = None,
        prefix: str = "redislease",
        worker_name: str | None = None,
        wait_replicas: int = 0,
        wait_timeout_ms: int = 1_000,
        retry_for_s: float = limits.RETRY_FOR_S,
        redact: Redact | None = None,
        scripts: ScriptLibrary | None = None,
    ) -> None:
        self._source: dict[str, Any] = {"redis_url": redis_url, "client": client, "client_factory": client_factory}
        self._async_queues: LoopLocal[AsyncQueue] = LoopLocal()
        super().__init__(name, prefix, worker_name, wait_replicas, wait_timeout_ms, redact, scripts)
        self._transport = Transport(
            self._keys,
            self._library,
            open_clients(redis_url, client=client, client_factory=client_factory),
            wait_replicas=self._wait_replicas,
            wait_timeout_ms=self._wait_timeout_ms,
            retry_for_s=retry_for_s,
        )

    def _drive(self, flow: Flow[T]) -> T:
        return drive(flow, self._transport)

    def _as_sync(self) -> Queue:
        return self

    def _as_async(self) -> AsyncQueue:
        return self._async_queues.get(self._open_async)

    def _open_async(self) -> AsyncQueue:
        from redislease.async_queue import AsyncQueue

        return AsyncQueue(self.name, **self._source, **self._settings())

    def close(self) -> None:
        """Closes what this object opened. Leases that are still held are left to their deadline."""
        self._stop_heartbeat()
        self._transport.close()

    async def aclose(self) -> None:
        """As `close`, and closes what `aenqueue` has opened for the running event loop."""
        await self._async_queues.aclose()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Producing

    def enqueue(self, name: str, payload: Any = None, **options: Unpack[EnqueueOptions]) -> Task:
        """Stores a task. Script: `enqueue`.

        Args:
            name: What handler it is for.
            payload: A JSON object, or something that becomes one.
            **options: `side_effect` (required), `records_effects`, `idempotency_key`, `task_id`, `priority`, `delay`,
                `at`, `lease_duration`, `max_attempts`, `max_expirations`, `max_runtime`, `max_same_error`, `retry` and
                `credential`, as `EnqueueRequest` describes them.

        Returns:
            The task; `created` is False when it was recognised by its idempotency key or id.

        Raises:
            InvalidInput: An argument is not acceptable.
            IdempotencyConflict: The key belongs to a task with another name, class or payload.
            TaskConflict: The id belongs to a different task.
        """
        return self._drive(producing.enqueue(self._context, {"name": name, "payload": payload, **options}))

    def enqueue_many(self, requests: Sequence[EnqueueRequest | Mapping[str, Any]]) -> list[Enqueued | Conflict]:
        """Stores many tasks, 500 in a round trip; all are checked before the first is sent. Script: `enqueue`.

        Returns:
            One answer for each request, in order: `Enqueued`, or `Conflict` for one that was refused.
        """
        return self._drive(producing.enqueue_many(self._context, requests))

    # Working

    def register(self, name: str | None = None, *, owner: str = "") -> Owner:
        """A new identity to claim as; or, for an existing `owner`, its next free request number. Script: `register`.

        Raises:
            WorkerUnknown: `owner` is not registered.
        """
        return self.run(register(self._registered_name(name), owner=owner))

    def claim(
        self, limit: int = 1, *, wait: Seconds | None = None, lane: str = "ready", owner: Owner | None = None
    ) -> list[Lease]:
        """Leases up to `limit` ready tasks. Script: `claim`.

        Args:
            limit: 0 to 1,000.
            wait: Seconds to sleep on the bell while there is none; an hour at most.
            lane: `ready` or `approved`.
            owner: An identity from `register`; this object's own by default.

        Returns:
            The leases; none when nothing is ready or the queue is paused.
        """
        flow = claiming.claim(self._context, limit, wait_s=claiming.wait_s(wait), lane=lane, owner=owner)
        return self._leases(self._drive(flow))

    def _leases(self, batch: claiming.Batch) -> list[Lease]:
        return [Lease(self, batch.owner, grant, batch.sent_s) for grant in batch.claimed.grants]

    @contextmanager
    def claim_one(self, *, wait: Seconds | None = None, lane: str = "ready") -> Iterator[Lease | None]:
        """Leases one task and keeps the lease alive while the block runs; None when there is none.

        A block that ends completes the task unless it has settled it itself; one that raises fails it; one that is
        interrupted (`KeyboardInterrupt`, cancellation) gives it back. When the lease was lost, nothing is recorded and
        `LeaseLost` is raised.
        """
        leases = self.claim(1, wait=wait, lane=lane)
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
                    self._drive(ending)
                raise
            ending = end_of_block(lease, None)
            if ending is not None:
                self._drive(ending)

    @contextmanager
    def keep_alive(self, *leases: Lease) -> Iterator[None]:
        """Renews leases from a thread of its own, on a connection of its own, while the block runs."""
        with self._kept_alive(leases):
            yield

    def _open_heartbeat(self, on_renewal: Callable[[int, float], None] | None = None) -> Heartbeat:
        return Heartbeat(self._heartbeat_transport(self._transport.clients.heartbeat_client()), on_renewal)

    def renew_many(self, leases: Sequence[Lease]) -> list[Renewed | Lost]:
        """Extends many leases, 200 in a round trip. Script: `renew`.

        Returns:
            One answer for each lease, in order; a lost lease is answered, not raised.
        """
        return self._drive(self._renew_many(leases))

    def complete_many(
        self, results: Sequence[tuple[Lease, Any]], claim: int = 0, *, lane: str = "ready"
    ) -> tuple[list[Settled | Lost], list[Lease]]:
        """Completes many leases and claims the next batch, in one round trip for up to 500. Script: `complete`.

        Args:
            results: Leases, each with its result.
            claim: How many to claim.
            lane: Where from.

        Returns:
            One answer for each lease, in order (a lost lease is answered, not raised), and the new leases.
        """
        answers, batch = self._drive(self._complete_many(results, claim, lane))
        return answers, self._leases(batch) if batch else []

    def attach(self, handle: str) -> Lease:
        """The lease of a handle, in another process of the same worker; renews it. Scripts: `renew`.

        Raises:
            InvalidInput: It is not a handle, or one of another queue.
            LeaseLost: The lease is not held any more.
        """
        owner, grant, sent_s, reports = self._drive(attaching.attach(self._context, handle))
        lease = Lease(self, owner, grant, sent_s)
        lease._reports = reports
        return lease
