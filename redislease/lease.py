"""A lease for threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from redislease.effect import Effect
from redislease.lease_core import LeaseCore
from redislease.models import Grant, Renewed, Settled

if TYPE_CHECKING:
    from redislease.queue import Queue


class Lease(LeaseCore):
    """Temporary authority over one task, from `Queue.claim`.

    Every verb asks the server, which decides by its own clock alone. A refusal raises `LeaseLost` with the reason and
    changes nothing; the same verb sent twice has one effect and gets the same answer.
    """

    def __init__(self, queue: Queue, owner: str, grant: Grant, sent_s: float) -> None:
        super().__init__(queue.name, owner, grant, sent_s, queue._redaction)
        self._queue = queue

    def renew(self, lease_duration: float | timedelta | None = None) -> Renewed:
        """Extends the lease; never shortens it. Script: `renew`.

        Args:
            lease_duration: Seconds from now, 0.1 s to 12 h; the task's own length by default.

        Raises:
            InvalidInput: The duration is not acceptable.
            LeaseLost: The lease is not held any more; `reason` says why.
            ServerError: The server could not be asked.
        """
        return self._queue._drive(self._renew(lease_duration))

    def verify(self) -> None:
        """Asks the server whether the lease is held, which extends it. Script: `renew`.

        Raises:
            LeaseLost: It is not.
        """
        self.renew()

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Reports how far the work is. Not a heartbeat. Script: `progress`.

        Raises:
            LeaseLost: The lease is not held any more.
        """
        self._queue._drive(self._progress(done, total, note))

    def complete(self, result: Any = None, result_ref: str | None = None) -> Settled:
        """Ends the lease; the task is completed. Script: `complete`.

        Args:
            result: Any JSON value, at most 1 MiB.
            result_ref: Where a larger result lies.

        Raises:
            InvalidInput: The result cannot be stored; the lease is still held.
            LeaseLost: The lease is not held any more; nothing was stored.
            NotReplicated: It was made, but not confirmed by the replicas that were asked for.
        """
        return self._queue._drive(self._complete(result, result_ref))

    def fail(
        self,
        error: str | BaseException,
        *,
        retry: bool = True,
        delay: float | timedelta | None = None,
        not_done: bool = False,
    ) -> Settled:
        """Ends the lease; the attempt failed, and the recovery policy decides where the task goes. Script: `fail`.

        Args:
            error: What happened; at most 8 KiB are kept.
            retry: False sends the task to dead.
            delay: Seconds until the next attempt; the task's backoff by default.
            not_done: Nothing happened outside, so a `non_idempotent` task need not be reconciled.

        Raises:
            LeaseLost: The lease is not held any more.
        """
        return self._queue._drive(self._fail(error, retry, delay, not_done))

    def release(self, delay: float | timedelta | None = None, *, interrupted: bool = False) -> Settled:
        """Gives the task back without a verdict. Script: `release`.

        Args:
            delay: Seconds until it is ready again; it then takes a new place behind what waits.
            interrupted: The work was under way, so an effect may have happened.

        Raises:
            LeaseLost: The lease is not held any more.
        """
        return self._queue._drive(self._release(delay, interrupted))

    def effect(self, name: str, *, key: str | None = None, request: Any = None) -> Effect:
        """An effect on the outside world, as a block: recorded before it happens, and again when its outcome is known.

        The block runs in every attempt: ask `effect.done` before you act, or use `run_effect`, which does.

            with lease.effect("mail.send", request={"to": to}) as effect:
                if not effect.done:
                    effect.record(send(to, headers=effect.headers))

        Args:
            name: What it is called, and what makes it the same effect in a later attempt.
            key: What makes it the same instead, where one name is used several times.
            request: What is asked for; a later attempt must ask for the same. Only its digest is kept.

        Returns:
            A context manager; entering it records the intent (script: `intent`) and raises `LeaseLost`, `QueuePaused`,
            `NotAllowedNow`, `EffectReused`, `EffectConflict`, `AmbiguousEffect` or `TooManyEffects`.
        """
        return Effect(self, name, key, request)

    def run_effect(
        self,
        name: str,
        action: Callable[[Effect], Any],
        *,
        key: str | None = None,
        request: Any = None,
        returns: Any = None,
    ) -> Any:
        """Runs an effect with nothing to forget. Scripts: `intent`, `outcome`.

        Args:
            name: As for `effect`.
            action: Does it, and returns the outcome; raises `NotDone` where it certainly never left.
            key: As for `effect`.
            request: As for `effect`.
            returns: A type to read the outcome as.

        Returns:
            The outcome as JSON has it, of this attempt or of the earlier one that has done it.

        Raises:
            OutcomeNotStored: An earlier attempt has done it and its outcome could not be kept.
        """
        with self.effect(name, key=key, request=request) as effect:
            if effect.done:
                return effect._typed(effect.outcome, returns)
            outcome = action(effect)
            if not effect._recorded:
                effect.record(outcome)
        return effect._typed(effect._round_trip(outcome), returns)
