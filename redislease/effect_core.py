"""What `Effect` and `AsyncEffect` have in common."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from redislease import encoding, ids
from redislease.commands import effects
from redislease.commands.effects import Intended, Intent, Verdict, effect_key, request_digest
from redislease.effect_records import receiver_key
from redislease.errors import (
    EffectAlreadyDone,
    EffectError,
    EffectNotRecorded,
    LeaseLost,
    NotDone,
    NotReplicated,
    OutcomeNotStored,
    RedisLeaseError,
    ServerLoading,
    ServerReadOnly,
    ServerUnavailable,
    reading,
)
from redislease.flow import Flow
from redislease.flows import effecting
from redislease.flows.settling import until_confirmed
from redislease.lease_core import LeaseCore

R = TypeVar("R")

MARGIN_SHARE = 0.1
MARGIN_S_MAX = 2.0
NO_REQUEST = request_digest(None)


class EffectCore:
    """One effect of a task on the outside world.

    It is recorded before it happens and again when its outcome is known, so that a crash in between leaves a question
    and not a guess.
    """

    def __init__(self, lease: LeaseCore, name: str, key: str | None, request: Any) -> None:
        self.name = effect_key(name)
        self.key = self.name if key is None else effect_key(key, "the key")
        self._lease = lease
        self._nonce = ids.nonce()
        self._digest = NO_REQUEST if request is None else request_digest(request)
        self._answer: Intended | None = None
        self._verdict = ""
        self._whole: bytes | None = None
        self._unbegun = [True]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} of {self._lease.id}>"

    @property
    def done(self) -> bool:
        """Whether an earlier attempt has done it; its outcome is in `outcome`."""
        return self._begun().word == "done"

    @property
    def again(self) -> bool:
        """Whether an earlier attempt had begun it, without an outcome; only `idempotent` tasks get here."""
        return self._begun().again

    @property
    def outcome(self) -> Any:
        """What an earlier attempt recorded.

        Raises:
            OutcomeNotStored: It was too large or not JSON, so only its digest was kept.
            EffectError: No earlier attempt has done it.
        """
        answer = self._begun()
        if answer.word != "done":
            raise EffectError("no earlier attempt has done this", effect=self.key)
        return self._decoded(answer.outcome)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this task at this effect, and different for everything else.

        Tasks that were given the same `idempotency_key`, one after the other, share it.
        """
        self._not_done_yet()
        task = self._lease.task
        return receiver_key(task.queue, task.idempotency_key, self.key)

    @property
    def headers(self) -> dict[str, str]:
        """What the receiver needs: `Idempotency-Key`, and `Fencing-Token` of this attempt."""
        return {"Idempotency-Key": self.idempotency_key, "Fencing-Token": str(self._lease.fencing_token)}

    @property
    def timeout(self) -> float:
        """Seconds that the call may take so that it does not outlive the lease.

        Raises:
            LeaseLost: Nothing is left.
        """
        self._not_done_yet()
        length_s = self._lease.task.lease_ms / 1000
        left_s = self._lease.remaining - min(length_s * MARGIN_SHARE, MARGIN_S_MAX)
        if left_s <= 0:
            self._lease.check()
            raise LeaseLost("deadline", task_id=self._lease.id, generation=self._lease.generation)
        return left_s

    def sign(self, request: Any) -> Any:
        """Puts the headers on a request, and returns it: `auth=effect.sign` does for httpx and for requests."""
        request.headers.update(self.headers)
        return request

    def _begun(self) -> Intended:
        if self._answer is None:
            raise EffectError("the effect has not begun: enter its block first", effect=self.key)
        return self._answer

    def _not_done_yet(self) -> None:
        answer = self._begun()
        if answer.word == "done":
            raise EffectAlreadyDone(effect=self.key, generation=answer.generation, at_ms=answer.at)

    def _begin(self) -> Flow[Self]:
        try:
            self._unbegun.pop()  # in one step: threads may share an effect
        except IndexError:
            raise EffectError("an effect is begun once; make another for another call", effect=self.key) from None
        lease = self._lease
        lease._own_process()
        one = Intent(lease._handle, self.key, self._nonce, self.name, self._digest)
        try:
            (answer,) = yield from until_confirmed(effects.intent([one]), lease._patience_s())
        except NotReplicated as trouble:
            # Nobody will act on this intent: it must not stay open as a question.
            never_left = Verdict(lease._handle, self.key, self._nonce, "not_done", b'"not replicated"')
            with suppress(RedisLeaseError):
                (heard,) = yield from until_confirmed(effects.outcome([never_left]), 0.0)
                effecting.note_recorded(never_left, heard, lease.note_loss)
            lease._trouble = trouble
            raise
        except (ServerUnavailable, ServerLoading, ServerReadOnly) as trouble:
            lease._trouble = trouble
            raise
        self._answer = effecting.granted(one, answer, lease.note_loss)
        return self

    def _close(self, verdict: str, outcome: bytes) -> Flow[None]:
        self._not_done_yet()
        lease = self._lease
        lease._own_process()
        one = Verdict(lease._handle, self.key, self._nonce, verdict, outcome)
        (answer,) = yield from until_confirmed(effects.outcome([one]), lease._patience_s())
        effecting.note_recorded(one, answer, lease.note_loss)
        self._verdict = verdict

    def _record(self, outcome: Any) -> Flow[None]:
        stored, self._whole = effects.stored_outcome(outcome)
        return self._close("done", stored)

    @property
    def _closed(self) -> bool:
        return self._verdict != ""

    @property
    def _recorded(self) -> bool:
        return self._verdict == "done"

    def _not_done(self, reason: str) -> Flow[None]:
        return self._close("not_done", json.dumps(self._lease._redaction.reason(reason)).encode())

    def _is_not_done(self, problem: BaseException | None) -> bool:
        """Whether what leaves the block says that this effect never left; that is heard once."""
        if not isinstance(problem, NotDone) or problem.heard or self._closed or self.done:
            return False
        problem.heard = True
        return True

    @staticmethod
    def _reason(problem: BaseException | None) -> str:
        try:
            return str(problem)
        except Exception:  # noqa: BLE001 - it is the user's
            return type(problem).__name__

    def _left(self, problem: BaseException | None) -> None:
        """The end of the block: an outcome must be known by now."""
        if problem is None and not self._closed and not self.done:
            raise EffectNotRecorded(effect=self.key)

    def _decoded(self, stored: bytes) -> Any:
        with reading(f"the outcome of effect {self.key!r}"):
            kept = json.loads(stored)
            if "not_stored" in kept:
                answer = self._begun()
                raise OutcomeNotStored(effect=self.key, generation=answer.generation, at_ms=answer.at)
            return kept["value"]

    def _round_trip(self, value: Any) -> Any:
        """The recorded outcome as a later attempt will read it, so that its type never depends on the attempt."""
        return value if self._whole is None else encoding.read_back(self._whole)

    def _typed(self, value: Any, returns: type[R] | None) -> Any:
        if returns is None:
            return value
        try:
            return TypeAdapter(returns).validate_python(value)
        except ValidationError as problem:
            raise EffectError(f"the outcome is not a {returns}: {problem}", effect=self.key) from problem
