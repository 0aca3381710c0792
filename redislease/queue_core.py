"""What `Queue` and `AsyncQueue` have in common."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from redislease import limits, local_clock, validation
from redislease.commands.settle import Completion, NextClaim, complete
from redislease.connection.endpoint import SyncClient
from redislease.connection.transport import Transport
from redislease.errors import ConfigurationError, LeaseLost, NotReplicated, WorkerUnknown
from redislease.flow import Flow
from redislease.flows import claiming, settling
from redislease.flows.context import QueueContext
from redislease.handle import Handle
from redislease.heartbeat import Heartbeat
from redislease.identity import Identities, default_worker_name
from redislease.keys import QueueKeys
from redislease.lease_core import PUT_OFF_S, LeaseCore
from redislease.models import Claimed, Lost, Owner, Renewed, Settled
from redislease.redaction import Redact, Redaction
from redislease.registry import TaskRegistry
from redislease.scripts import ScriptLibrary, shipped


class QueueCore(TaskRegistry):
    """Name, keys, identities and the heartbeat of a queue; the arguments are those of `Queue`."""

    def __init__(
        self,
        name: str,
        prefix: str,
        worker_name: str | None,
        wait_replicas: int,
        wait_timeout_ms: int,
        redact: Redact | None,
        scripts: ScriptLibrary | None,
    ) -> None:
        self.name = validation.queue_name(name)
        self._keys = QueueKeys(self.name, validation.prefix(prefix))
        self._library = scripts or shipped()
        self._redact = redact
        self._redaction = Redaction(redact)
        self._wait_replicas = validation.integer(wait_replicas, "wait_replicas", low=0, high=100)
        self._wait_timeout_ms = validation.integer(wait_timeout_ms, "wait_timeout_ms", low=1, high=60_000)
        self._context = QueueContext(self.name, self._keys, Identities(worker_name))
        self._worker_name = worker_name
        self._tasks = {}
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def keys(self) -> QueueKeys:
        """The names of the queue's keys."""
        return self._keys

    def _registered_name(self, name: str | None) -> str:
        return default_worker_name() if name is None else name

    def _settings(self) -> dict[str, Any]:
        """What the same queue in the other flavour is opened with, but for the server."""
        return {
            "prefix": self._keys.prefix,
            "worker_name": self._worker_name,
            "wait_replicas": self._wait_replicas,
            "wait_timeout_ms": self._wait_timeout_ms,
            "redact": self._redact,
            "scripts": self._library,
        }

    # The heartbeat

    @abstractmethod
    def _open_heartbeat(self, on_renewal: Callable[[int, float], None] | None = None) -> Heartbeat:
        """A heartbeat on a connection of its own."""

    def _heartbeat_transport(self, client: SyncClient | None) -> Transport:
        if client is None:
            raise ConfigurationError(
                "a heartbeat needs a connection of its own, which cannot be opened from this client: "
                "give the queue a redis_url or a client_factory"
            )
        return Transport(self._keys, self._library, client)

    @contextmanager
    def _kept_alive(self, leases: Sequence[LeaseCore]) -> Iterator[None]:
        with self._heartbeat_lock:
            if self._heartbeat is None:
                self._heartbeat = self._open_heartbeat()
            heartbeat = self._heartbeat
        for lease in leases:
            heartbeat.add(lease)
        try:
            yield
        finally:
            for lease in leases:
                heartbeat.remove(lease)

    def _stop_heartbeat(self) -> None:
        with self._heartbeat_lock:
            heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.stop()

    # Many leases in one call

    @staticmethod
    def _handles(leases: Sequence[LeaseCore]) -> list[Handle]:
        for lease in leases:
            lease._own_process()
        return [lease._handle for lease in leases]

    def _renew_many(self, leases: Sequence[LeaseCore]) -> Flow[list[Renewed | Lost]]:
        sent_s = local_clock.elapsed_s()
        answers: list[Renewed | Lost] = yield from settling.renew_many(self._handles(leases))
        for lease, answer in zip(leases, answers, strict=True):
            lease.note_renewal(answer, sent_s)
        return answers

    def _complete_many(
        self, results: Sequence[tuple[LeaseCore, Any]], claim: int, lane: str
    ) -> Flow[tuple[list[Settled | Lost], claiming.Batch | None]]:
        validation.integer(claim, "claim", low=0, high=limits.BATCH)
        parts = settling.cut_completions([lease.completion(result) for lease, result in results])
        answers: list[Settled | Lost] = []
        batch: claiming.Batch | None = None
        for number, part in enumerate(parts, start=1):
            last = number == len(parts)
            if not (last and claim):
                part_answers, _ = yield from settling.until_confirmed(complete(part), limits.RETRY_FOR_S)
            else:
                part_answers, batch = yield from self._complete_and_claim(part, claim, lane)
            answers += part_answers
        for (lease, _), answer in zip(results, answers, strict=True):
            lease.note_end(answer)
        if claim and not parts:
            batch = yield from claiming.claim_once(self._context, claim, lane=lane)
        return answers, batch

    def _complete_and_claim(
        self, part: list[Completion], claim: int, lane: str
    ) -> Flow[tuple[list[Settled | Lost], claiming.Batch | None]]:
        owner: Owner = yield from self._context.identities.default()
        number = self._context.identities.next_number(owner)
        call = complete(part, NextClaim(owner.name, number, claim, lane))
        sent_s = local_clock.elapsed_s()
        answers, claimed = yield from settling.until_confirmed(call, limits.RETRY_FOR_S)
        if isinstance(claimed, WorkerUnknown):
            # The completions stand; the claim is made under a new identity.
            self._context.identities.forget(owner)
            batch = yield from claiming.claim_once(self._context, claim, lane=lane)
            return answers, batch
        return answers, claiming.Batch(owner.name, claimed, sent_s) if isinstance(claimed, Claimed) else None


def end_of_block(lease: LeaseCore, problem: BaseException | None) -> Flow[Settled] | None:
    """What the end of a `claim_one` block does with its lease; None: nothing, it is settled or lost."""
    if lease.settled or isinstance(problem, LeaseLost):
        return None
    if problem is None:
        return lease._complete(None, None)
    if lease.is_put_off_by(problem):
        return _quietly(lease._release(PUT_OFF_S, True))
    if isinstance(problem, Exception):
        return _quietly(lease._fail(problem, True, None, lease.says_not_done(problem)))
    return _quietly(lease._release(None, True))


def _quietly(flow: Flow[Settled]) -> Flow[Any]:
    """The block's own exception matters more than what became of recording it."""
    with suppress(LeaseLost, NotReplicated):
        yield from flow
