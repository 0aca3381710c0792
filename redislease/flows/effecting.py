"""What the server's answers to an intent and to an outcome mean for whoever wants to act."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from redislease.commands import effects as commands
from redislease.commands.hold import raise_lost
from redislease.errors import (
    AmbiguousEffect,
    EffectConflict,
    EffectError,
    EffectReused,
    NotAllowedNow,
    QueuePaused,
    TooManyEffects,
)
from redislease.models import Lost

_REFUSALS: dict[str, type[EffectError]] = {
    "reused": EffectReused,
    "conflict": EffectConflict,
    "ambiguous": AmbiguousEffect,
    "too_many": TooManyEffects,
}


def _refuse(key: str, answer: commands.Intended) -> NoReturn:
    if answer.word == "paused":
        raise QueuePaused("the queue is paused for effects")
    if answer.word == "read_only":
        raise NotAllowedNow("a read_only task has no effects", reason="read_only")
    raise _REFUSALS[answer.word](effect=key, generation=answer.generation, at_ms=answer.at)


def granted(
    one: commands.Intent, answer: commands.Intended | Lost, on_loss: Callable[[str], None]
) -> commands.Intended:
    """Takes the answer to an intent: `open` or `done`; raises everything else."""
    if isinstance(answer, Lost):
        on_loss(answer.reason)
        raise_lost(one.handle, answer)
        raise AssertionError
    if answer.word not in ("open", "done"):
        _refuse(one.key, answer)
    return answer


def note_recorded(one: commands.Verdict, answer: commands.Recorded | Lost, on_loss: Callable[[str], None]) -> None:
    """Takes the answer to an outcome; raises when it was refused, although it may have been kept as testimony."""
    if isinstance(answer, Lost):
        on_loss(answer.reason)
        raise_lost(one.handle, answer)
    elif answer.word != "ok":
        raise EffectError(_unfit(answer), effect=one.key)


def _unfit(answer: commands.Recorded) -> str:
    if answer.word == "closed":
        return f"it is recorded as {answer.detail} already"
    return "the server knows of no such intent of this attempt"
