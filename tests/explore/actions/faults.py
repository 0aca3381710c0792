"""What should not be there: ids without a hash or in a second index, wrong scores, keys of the wrong type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import Outcome
from ..texts import BASE, EVIDENCE, INDEXES, KINDS, META, STRAY, TASK, expiry, items, scores, text_of, zset_text
from ..view import Step, View
from . import action as table
from .action import Action, Caller, Parameters, action

STRAY_INDEXES = ("ready", "scheduled", "leased", "completed")
WRONG_TYPE = {"list": text_of("list", b"wrong"), "hash": text_of("hash", b"wrong", b"1")}


@action
class Plant(Action):
    """Somebody writes into the keys by hand."""

    name = "plant"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Each kind of fault, wherever it can stand at the head of an index."""
        if not view.may("plant"):
            return
        for index in STRAY_INDEXES:
            yield "stray", index, STRAY.decode()
        yield "broken", "ready", STRAY.decode()
        for kind in view.scope.tasks:
            status = (view.task(kind.id) or {}).get(b"status", b"").decode()
            for index in STRAY_INDEXES if status else ():
                if index != status:
                    yield "stray", index, kind.id.decode()
            if status in ("leased", "completed", "dead", "cancelled"):
                yield "score", status, kind.id.decode()

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Plants it with the lowest score, so that every sweep meets it first."""
        fault, status, name = parameters
        key = INDEXES[status.encode()]
        text = view.texts.get(key)
        members = dict(scores(text)) if text else {}
        members[name.encode()] = 1
        changed = {key: zset_text(members)}
        if fault == "broken":
            changed[TASK + STRAY] = WRONG_TYPE["list"]
        ghost = view.spend("plant")
        ghost = ghost._replace(faults=tuple(sorted({*ghost.faults, (status.encode(), name.encode())})))
        return Outcome(ghost, changed, view.now, outside=True)


def calls(view: View, call: Caller) -> Iterator[Step]:
    """Every call of a script that may come next."""
    for name in view.scope.actions:
        if name not in ("clock", "plant", "break", "lose"):
            yield from ((name, *parameters) for parameters in table.ACTIONS[name].options(view, call))


@action
class Break(Action):
    """One key holds something of the wrong type during a call, and is put right after it."""

    name = "break"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Every key that a call touches, for every call that writes."""
        if not view.may("break"):
            return
        for step in calls(view, call):
            outcome = table.ACTIONS[step[0]].perform(view, call, *step[1:])
            if outcome.changed and not outcome.refused:
                for key in call.store.touched():
                    if key != META and not key.startswith(TASK):
                        yield key.removeprefix(BASE).decode(), step

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Runs it around the broken key."""
        name, step = parameters
        key = BASE + name.encode()
        right_kind = KINDS.get(name.partition(":")[0], "hash")
        with call.store.override(key, WRONG_TYPE["list" if right_kind == "hash" else "hash"]):
            outcome = table.ACTIONS[step[0]].perform(view, call, *step[1:])
        outcome.changed.pop(key, None)
        if key.startswith(EVIDENCE):
            _put_log_right(view, outcome, key)
        outcome.ghost = outcome.ghost._replace(spent=view.spend("break").spent)
        return outcome


def _put_log_right(view: View, outcome: Outcome, key: bytes) -> None:
    """A log lives as long as its task, whatever was in its place during the call that stored or deleted the task."""
    task, before = outcome.changed.get(TASK + key.removeprefix(EVIDENCE)), view.texts.get(key)
    if task == b"":
        outcome.changed[key] = b""
    elif task and before and expiry(before) is not None:
        outcome.changed[key] = text_of("list", *items(before))
