"""Who may act, and what everybody else is told, in the order of section 5 of the design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .task import Held, ModelTask

Outcome = tuple[Any, ...]


def holds(task: ModelTask, held: Held, now: int) -> bool:
    """Whether this lease is the task's, and lives."""
    mine = (task.owner, task.generation, task.token) == (held.owner, held.generation, held.token)
    return task.status == "leased" and mine and task.expires_at is not None and task.expires_at >= now


def at_cap(task: ModelTask) -> bool:
    """Whether a lease ends because its attempt may not take longer."""
    return task.deadline is not None and task.expires_at is not None and task.expires_at >= task.deadline


def refusal(tasks: Mapping[str, ModelTask], held: Held, verb: str, now: int, fence: int) -> Outcome | None:
    """None for a holder; else what a call is answered: a refusal, or the answer that it was given before."""
    task = tasks.get(held.id)
    if task is None:
        return "lost", "unknown", None, None
    if holds(task, held, now):
        return None
    ended = task.ended if task.ended and task.ended.token == held.token else None
    if ended and ended.verb == verb and _reason(task, held, verb, fence) == "replay":
        return "settled", ended.status, ended.due_at, ended.open_effects, True
    return "lost", _reason(task, held, verb, fence), task.status, task.generation


def _reason(task: ModelTask, held: Held, verb: str, fence: int) -> str:
    mine = task.token == held.token
    ended = task.ended if task.ended and task.ended.token == held.token else None
    leased = task.status == "leased"
    if held.token > fence:
        return "not_issued"
    if mine and (task.owner != held.owner or task.generation != held.generation):
        return "not_owner"
    if ended and ended.by_holder:
        return "replay" if ended.verb == verb else "settled"
    if leased and not mine:
        return "reclaimed"
    if ended:
        return ended.verb
    if leased:
        return "max_runtime" if at_cap(task) else "expired"
    return "superseded"
