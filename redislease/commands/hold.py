"""What a holder does while it holds: renew and report. Scripts: `renew`, `progress`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from redislease import encoding, limits, validation
from redislease.commands.call import Call, Reply
from redislease.commands.replies import text
from redislease.errors import InvalidInput, LeaseEnded, LeaseLost
from redislease.handle import Handle
from redislease.models import Lost, Renewed, Settled
from redislease.scripts import Arg, shipped

T = TypeVar("T")

FIRST_ANSWER = 2
"""Where the answers of a batch begin in its reply."""


def held(handle: Handle) -> tuple[Arg, Arg, Arg, Arg]:
    """The four values that prove a lease."""
    return handle[1:5]


def batch(size: int, limit: int) -> None:
    """Checks the size of a batch.

    Raises:
        InvalidInput: It is empty, or larger than `limit`.
    """
    if not 1 <= size <= limit:
        raise InvalidInput(f"a call takes 1 to {limit} leases, not {size}")


def _lost(answer: str) -> Lost:
    """The refusal that an answer holds; a task's state may be any text once somebody else has written it."""
    _, reason, rest = answer.split(" ", 2)
    status, generation = rest.rsplit(" ", 1)
    return Lost(reason, status or None, int(generation) if generation else None)


def raise_lost(handle: Handle, refusal: Lost) -> None:
    """Raises the error that a refusal means."""
    kind = LeaseEnded if refusal.reason == "settled" else LeaseLost
    raise kind(
        refusal.reason,
        task_id=handle.id,
        generation=handle.generation,
        current_generation=refusal.current_generation,
        status=refusal.status,
    )


def each(answers: Reply, read: Callable[[str], T]) -> list[T | Lost]:
    """Reads the answers of a batch: one for each lease, in the order of the call, or a refusal."""
    # Most answers of a batch are the same, and what they are read as is immutable.
    known: dict[Any, T | Lost] = {}
    found: list[T | Lost] = []
    for answer in answers:
        meaning = known.get(answer)
        if meaning is None:
            words = text(answer)
            meaning = known[answer] = _lost(words) if words.startswith("lost ") else read(words)
        found.append(meaning)
    return found


def renew(leases: Sequence[tuple[Handle, int | None]]) -> Call[list[Renewed | Lost]]:
    """Extends up to 200 leases. Script: `renew`.

    Args:
        leases: Handles, each with the new length in milliseconds, or None for the task's own.
    """
    batch(len(leases), limits.RENEW_BATCH)
    rows = [(*held(handle), "" if length is None else length) for handle, length in leases]
    return Call("renew", shipped()["renew"].bind(rows), _parse_renewals, confirm=False, answers=len(rows))


def _parse_renewals(reply: Reply) -> list[Renewed | Lost]:
    return each(reply[FIRST_ANSWER:], _read_renewed)


def _read_renewed(answer: str) -> Renewed:
    word, expires_at, remaining_ms = answer.split(" ")
    return Renewed(int(expires_at), int(remaining_ms), word == "capped")


def progress(
    handle: Handle, number: int, done: int | float, total: int | float | None = None, note: str | None = None
) -> Call[list[Settled | Lost]]:
    """Reports how far the work is. Script: `progress`.

    Args:
        handle: The lease.
        number: 1, 2, 3 … of this lease; a report that arrives late does not replace a newer one.
        done: How much is done, 0 or more.
        total: Of how much; not less than `done`.
        note: At most 1 KiB.
    """
    validation.progress(done, total)
    if note is not None:
        validation.note(note, "the note", empty=True)
    body = encoding.to_json({"done": done, "total": total, "note": note}, "progress", max_bytes=2 * limits.NOTE_BYTES)
    rows = [(*held(handle), number, body)]
    return Call("progress", shipped()["progress"].bind(rows), _parse_progress, confirm=False, answers=1)


def _parse_progress(reply: Reply) -> list[Settled | Lost]:
    return each(reply[FIRST_ANSWER:], lambda answer: Settled(answer.split(" ", 1)[1]))
