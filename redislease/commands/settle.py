"""The endings that a holder chooses. Scripts: `complete`, `fail`, `release`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redislease import limits, validation
from redislease.commands.call import Call, Reply
from redislease.commands.claim import claim_args, parse_claim
from redislease.commands.hold import FIRST_ANSWER, batch, each, held
from redislease.errors import RedisLeaseError, ServerError
from redislease.handle import Handle
from redislease.models import Claimed, Lost, Settled
from redislease.scripts import shipped


class Completion(NamedTuple):
    """A lease to complete: its result as JSON, '' for none, and where a larger one lies."""

    handle: Handle
    result: bytes = b""
    result_ref: str = ""


@dataclass(frozen=True, slots=True)
class NextClaim:
    """What to claim in the same call as a completion."""

    owner: str
    request_number: int
    limit: int
    lane: str = "ready"
    started: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """A lease whose attempt failed.

    Attributes:
        handle: The lease.
        error: What happened; at most 8 KiB are kept.
        retry: False sends the task to dead.
        delay_ms: How long it waits before the next attempt.
        not_done: The handler knows that nothing happened outside.
        fingerprint: What makes two failures the same one; '' never counts.
    """

    handle: Handle
    error: str
    retry: bool = True
    delay_ms: int = 0
    not_done: bool = False
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Return:
    """A lease given back.

    Attributes:
        handle: The lease.
        delay_ms: How long the task waits; None: not at all.
        interrupted: It was in the middle of its work, so an effect may have happened.
        never_started: Nothing was begun: the attempt does not count.
        fresh: The task takes a new place behind what waits now.
    """

    handle: Handle
    delay_ms: int | None = None
    interrupted: bool = False
    never_started: bool = False
    fresh: bool = False


Completed = tuple[list[Settled | Lost], Claimed | RedisLeaseError | None]
"""An answer for each completion, and what the claim brought or why it was refused."""


def complete(completions: Sequence[Completion], claim: NextClaim | None = None) -> Call[Completed]:
    """Completes up to 500 leases, and claims the next batch in the same call. Script: `complete`.

    The claim may be refused while the completions stand, so its error is answered and not raised.
    """
    batch(len(completions), limits.SETTLE_BATCH)
    rows = [(*held(handle), result, ref) for handle, result, ref in completions]
    wanted = claim_args("", 0, 0, "ready", False)
    if claim is not None:
        wanted = claim_args(claim.owner, claim.request_number, claim.limit, claim.lane, claim.started)
    return Call("complete", shipped()["complete"].bind(rows, **wanted), lambda reply: _parse_complete(reply, len(rows)))


def _read_settled(answer: str) -> Settled:
    """The detail is when a scheduled task is due, and how many effects are open for any other."""
    _, status, detail, *replay = answer.split(" ")
    if status == "scheduled":
        return Settled(status, due_at=int(detail), replay=bool(replay))
    return Settled(status, open_effects=int(detail), replay=bool(replay))


def _parse_complete(reply: Reply, count: int) -> Completed:
    claimed_from = FIRST_ANSWER + count
    answers = each(reply[FIRST_ANSWER:claimed_from], _read_settled)
    if len(answers) < count:
        raise ServerError(f"the reply of complete has {len(answers)} answers, not {count}")
    if len(reply) == claimed_from:
        return answers, None
    try:
        return answers, parse_claim(reply[claimed_from:])
    except RedisLeaseError as refusal:
        return answers, refusal


def _parse_returned(reply: Reply) -> list[Settled | Lost]:
    return each(reply[FIRST_ANSWER:], _read_settled)


def fail(failures: Sequence[Failure]) -> Call[list[Settled | Lost]]:
    """Ends up to 500 leases as failed. Script: `fail`."""
    batch(len(failures), limits.SETTLE_BATCH)
    rows = []
    for one in failures:
        error = validation.error_text(one.error)
        first_line = " ".join(error.split())
        rows.append(
            (
                *held(one.handle),
                "failed" if one.retry else "fatal",
                "closed" if one.not_done else "open",
                one.delay_ms,
                validation.cut(one.fingerprint, limits.VALUE_BYTES // 2),
                validation.cut(first_line, limits.VALUE_BYTES),
                error,
            )
        )
    return Call("fail", shipped()["fail"].bind(rows), _parse_returned, answers=len(rows))


def release(returns: Sequence[Return]) -> Call[list[Settled | Lost]]:
    """Gives up to 500 leases back. Script: `release`."""
    batch(len(returns), limits.SETTLE_BATCH)
    rows = [
        (
            *held(one.handle),
            "returned" if one.never_started else "released",
            "open" if one.interrupted else "closed",
            "" if one.delay_ms is None else one.delay_ms,
            "1" if one.fresh else "",
        )
        for one in returns
    ]
    return Call("release", shipped()["release"].bind(rows), _parse_returned, answers=len(rows))
