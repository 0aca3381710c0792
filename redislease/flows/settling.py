"""What a holder does with its lease: renew, report, and the endings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from redislease import encoding, limits, local_clock, validation
from redislease.commands import hold, settle
from redislease.commands.call import Call
from redislease.errors import NotReplicated, ServerUnavailable
from redislease.flow import Flow, Run
from redislease.handle import Handle
from redislease.models import Lost, Renewed, Settled

T = TypeVar("T")


def patience_s(remaining_s: float) -> float:
    """How long a call about a lease is repeated: while the lease lives, at most 30 s, and once in any case."""
    return 1.0 if remaining_s < 1.0 else min(remaining_s, limits.RETRY_FOR_S)


def until_confirmed(call: Call[T], remaining_s: float) -> Flow[T]:
    """Runs a call; one that no replica confirmed is repeated while the lease would have lived."""
    left_s = patience_s(remaining_s)
    deadline_s = local_clock.elapsed_s() + left_s
    unconfirmed: NotReplicated | None = None
    while True:
        try:
            answer: T = yield Run(call, left_s)
        except NotReplicated as problem:
            unconfirmed = problem
            left_s = deadline_s - local_clock.elapsed_s()
            if left_s <= 0:
                raise
        except ServerUnavailable:
            # The end of the time cut the last attempt short; that the write was made says more.
            if unconfirmed is not None:
                raise unconfirmed from unconfirmed.__cause__
            raise
        else:
            return answer


def renew(handle: Handle, lease_ms: int | None, remaining_s: float) -> Flow[Renewed | Lost]:
    """Extends one lease."""
    answers: list[Renewed | Lost] = yield Run(hold.renew([(handle, lease_ms)]), patience_s(remaining_s))
    return answers[0]


def renew_many(handles: Sequence[Handle]) -> Flow[list[Renewed | Lost]]:
    """Extends many leases, 200 in a call."""
    answers: list[Renewed | Lost] = []
    for first in range(0, len(handles), limits.RENEW_BATCH):
        answers += yield Run(hold.renew([(one, None) for one in handles[first : first + limits.RENEW_BATCH]]))
    return answers


def progress(
    handle: Handle, number: int, done: float, total: float | None, note: str | None, remaining_s: float
) -> Flow[Settled | Lost]:
    """Reports how far the work is."""
    call = hold.progress(handle, number, done, total, note)
    answers: list[Settled | Lost] = yield Run(call, patience_s(remaining_s))
    return answers[0]


def completion(handle: Handle, result: Any, result_ref: str | None) -> settle.Completion:
    """A checked completion.

    Raises:
        InvalidInput: The result cannot be stored.
    """
    ref = ""
    if result_ref is not None:
        ref = validation.text(result_ref, "result_ref", max_bytes=limits.RESULT_REF_BYTES)
    return settle.Completion(handle, encoding.result_to_json(result), ref)


def cut_completions(completions: Sequence[settle.Completion]) -> list[list[settle.Completion]]:
    """Completions cut into calls of at most 500 leases and 4 MiB of results."""
    parts: list[list[settle.Completion]] = []
    size = 0
    for one in completions:
        if not parts or len(parts[-1]) >= limits.SETTLE_BATCH or size + len(one.result) > limits.CALL_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += len(one.result)
    return parts


def complete(one: settle.Completion, remaining_s: float) -> Flow[Settled | Lost]:
    """Completes one lease."""
    answers, _ = yield from until_confirmed(settle.complete([one]), remaining_s)
    return answers[0]


def failure(handle: Handle, error: Any, *, retry: bool, delay_ms: int, not_done: bool) -> settle.Failure:
    """A checked failure."""
    for value, what in ((retry, "retry"), (not_done, "not_done")):
        if not isinstance(value, bool):
            raise validation.InvalidInput(f"{what} must be True or False")
    text = validation.error_text(error)
    return settle.Failure(handle, text, retry, delay_ms, not_done, fingerprint(error))


def fingerprint(error: Any) -> str:
    """What makes two failures the same: the kind and the text, numbers aside."""
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    text = re.sub(r"\d+", "#", str(error))[:500]
    return hashlib.sha256(f"{kind}:{text}".encode("utf-8", "replace")).hexdigest()[:16]


def fail(one: settle.Failure, remaining_s: float) -> Flow[Settled | Lost]:
    """Ends one lease as failed."""
    answers: list[Settled | Lost] = yield from until_confirmed(settle.fail([one]), remaining_s)
    return answers[0]


def release(one: settle.Return, remaining_s: float) -> Flow[Settled | Lost]:
    """Gives one lease back."""
    answers: list[Settled | Lost] = yield from until_confirmed(settle.release([one]), remaining_s)
    return answers[0]
