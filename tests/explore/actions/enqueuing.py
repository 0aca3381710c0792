"""Producers: store a task, store it again, and the calls that collide with one that is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import Outcome
from ..view import View
from .action import Action, Caller, Parameters, action, expect, outcome_of


def group_of(view: View, task_id: bytes, nonce: str, payload: str) -> dict[str, Any]:
    """The arguments of one task."""
    kind = view.scope.task(task_id)
    given = {
        "id": task_id,
        "nonce": nonce,
        "name": "work",
        "side_effect": kind.side_effect,
        "payload": payload,
        "priority": 0,
        **kind.stored_with,
    }
    if "idempotency_key" in given:
        given["digest"] = f"{kind.side_effect}-{payload}"
    return given


@action
class Enqueue(Action):
    """A producer stores a task; the same nonce again is the same call sent twice."""

    name = "enqueue"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Every absent task anew; the last call of every present one again, and two more of somebody else."""
        for position, kind in enumerate(view.scope.tasks):
            stored = view.ghost.stored[position]
            if view.task(kind.id) is None:
                if stored < view.scope.stores:
                    yield kind.id.decode(), stored + 1, "{}"
            else:
                yield kind.id.decode(), stored, "{}"
                yield kind.id.decode(), stored + 1, "{}"
                yield kind.id.decode(), stored + 1, "[]"

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Stores it."""
        task, number, payload = parameters
        task_id = task.encode()
        position = next(i for i, kind in enumerate(view.scope.tasks) if kind.id == task_id)
        ran = call(view, "enqueue", group_of(view, task_id, f"{task}{number}", payload))
        outcome = outcome_of(view, ran)
        if outcome.died:
            outcome.stored[task_id] = _first_status(view, task_id)
            return outcome
        word, answered, status = ran.reply[3:6]
        there = view.task(task_id)
        expect(outcome, answered == task_id, "it answers another task")
        if there is None:
            outcome.stored[task_id] = _first_status(view, task_id)
            stored = list(view.ghost.stored)
            stored[position] = number
            outcome.ghost = view.ghost._replace(stored=tuple(stored))
            expect(outcome, word == b"created", f"a new task was answered {word!r}")
            expect(outcome, status == outcome.stored[task_id], f"a new task is {status!r}")
        else:
            outcome.refused = True
            mine = number == view.ghost.stored[position]
            right = b"created" if mine else b"existing" if payload == "{}" else b"task_conflict"
            expect(outcome, word == right, f"G7: a task that is there was answered {word!r}, not {right!r}")
        return outcome


def _first_status(view: View, task_id: bytes) -> bytes:
    return b"scheduled" if int(view.scope.task(task_id).stored_with.get("delay_ms", 0)) > 0 else b"ready"
