"""Answers and errors of the library in one plain form, the same for a public method and for the call behind it."""

from __future__ import annotations

from typing import Any

from redislease import errors, models
from redislease.commands.effects import Intended, Recorded

from .refusal import Outcome

_INTENTS: dict[type[Exception], str] = {
    errors.EffectReused: "reused",
    errors.EffectConflict: "conflict",
    errors.AmbiguousEffect: "ambiguous",
    errors.QueuePaused: "paused",
}


def normal(value: Any) -> Any:
    """The plain form; of a list of one, that one."""
    if isinstance(value, Exception):
        return _error(value)
    if isinstance(value, list):
        found = tuple(normal(one) for one in value)
        return found[0] if len(found) == 1 else found
    if type(value) is tuple and not (value and isinstance(value[0], str)):
        settled, claimed = value
        return normal(settled) if claimed is None else ("both", normal(settled), normal(claimed))
    return _answer(value)


def _error(value: Exception) -> Outcome:
    match value:
        case errors.LeaseLost():
            # Nothing is a LeaseEnded but a lease that its holder has settled.
            assert isinstance(value, errors.LeaseEnded) == (value.reason == "settled")
            return "lost", value.reason, value.status, value.current_generation
        case errors.NotAllowedNow(reason="read_only"):
            return "intent", "read_only"
        case errors.NotAllowedNow():
            return "not_allowed", value.reason, value.status or ""
        case errors.TaskConflict():
            return "task_conflict", value.task_id
        case errors.IdempotencyConflict():
            return "key_conflict", value.task_id
        case errors.TaskUnknown():
            return ("task_unknown",)
        case errors.InvalidInput():
            return ("invalid",)
        case errors.ServerUnavailable():
            return ("stale_request",)
    if type(value) in _INTENTS:
        return "intent", _INTENTS[type(value)]
    if type(value) is errors.EffectError:
        return "told", "closed" if "recorded" in str(value) else "unknown_effect"
    raise value


def _answer(value: Any) -> Any:
    match value:
        case models.Lost():
            return "lost", value.reason, value.status, value.current_generation
        case models.Settled():
            return "settled", value.status, value.due_at, value.open_effects, value.replay
        case models.Renewed():
            return "renewed", value.expires_at, value.remaining_ms, value.capped
        case models.Decided():
            return "decided", value.status, value.fence
        case models.Paused():
            return "paused", value.level, value.epoch
        case models.Task() | models.Enqueued():
            return "task", value.id, value.created, str(value.status)
        case models.Conflict():
            return value.reason, value.id
        case models.Claimed():
            grants = tuple(_grant(one) for one in value.grants)
            return "claimed", grants, value.more, value.paused, value.next_due_at
        case models.Reaped():
            recovered = tuple(
                (one.id, one.cause, one.status, one.generation, one.owner, one.side_effect) for one in value.recovered
            )
            return "reaped", recovered, value.promoted, value.fence
        case models.Purged():
            return "purged", value.completed, value.cancelled, value.dead
        case Intended():
            return "intent", "again" if value.again else value.word
        case Recorded():
            return "told", value.word
    return value


def _grant(one: models.Grant) -> Outcome:
    return one.id, one.generation, one.token, one.expires_at, one.remaining_ms, one.attempts, one.failures
