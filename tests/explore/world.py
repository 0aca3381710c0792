"""Takes actions: from a state and a step to the next state, and everything that was wrong on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import checks, invariants
from .actions import ACTIONS, Caller, losing
from .ghost import HANDLER, Effect, Ghost
from .model import Outcome
from .store import Store, explored_library
from .texts import (
    AUDIT,
    EFFECTS,
    EMPTY_LOG,
    EVIDENCE,
    INDEXES,
    LOG_HEAD,
    SIGNAL,
    TASK,
    WAKE,
    effect_record,
    expiry,
    items,
    scores,
    text_of,
)
from .view import LIMITED, START_MS, Scope, State, Step, View

SETTLES = (b"complete", b"fail", b"release")


class World:
    """The scripts of a directory in one scope.

    Args:
        scope: What is explored.
        directory: The scripts, by default the shipped ones.
        store: What runs them, if not a store of its own.
    """

    def __init__(self, scope: Scope, directory: Path | None = None, store: Store | None = None) -> None:
        self.scope = scope
        self.store = store or Store(explored_library(directory))
        self.caller = Caller(self.store)

    def empty(self) -> State:
        """A queue in which the workers are registered and nothing else is."""
        scope = self.scope
        ghost = Ghost(
            high=START_MS,
            requests=(0,) * len(scope.workers),
            recorded=((),) * len(scope.workers),
            stored=(0,) * len(scope.tasks),
            spent=(0,) * len(LIMITED),
        )
        state = State({}, START_MS, ghost)
        for worker in scope.workers:
            view = self.load(state)
            ran = self.caller(view, "register", name=worker.decode().rpartition("-")[0], owner="")
            assert ran.reply[1] == worker, ran
            state = state._replace(texts={**state.texts, **ran.changed})
        return state

    def load(self, state: State) -> View:
        """Makes a state the one that calls run on."""
        self.store.load(state.texts)
        return View(self.scope, state)

    def steps(self, view: View) -> Iterator[Step]:
        """Everything that may happen next in the loaded state."""
        for name in self.scope.actions:
            yield from self.steps_of(view, name)

    def steps_of(self, view: View, name: str) -> Iterator[Step]:
        """The ways in which one action may happen next."""
        if name == losing.NAME:
            yield from losing.options(view, self.caller, self._quietly)
        else:
            yield from ((name, *parameters) for parameters in ACTIONS[name].options(view, self.caller))

    def take(self, view: View, step: Step) -> tuple[State | None, list[str]]:
        """Takes a step.

        Returns:
            The next state, or None if nothing has changed, and what was wrong with the transition.
        """
        self.store.load(view.texts)
        if step[0] == losing.NAME:
            return self._lose(view, step)
        outcome = ACTIONS[step[0]].perform(view, self.caller, *step[1:])
        unchanged = outcome.now == view.now and outcome.ghost is view.ghost
        if unchanged and all(key.startswith(EVIDENCE) for key in outcome.changed):
            return None, outcome.problems
        after = self._next(view, outcome)
        seen = View(self.scope, after)
        if outcome.died and step[0] == "break":
            after = after._replace(ghost=self._observed(view, outcome, seen))
            return after, list(checks.half_done(view, outcome, seen))
        return after, list(checks.problems(view, outcome, seen))

    def _lose(self, view: View, step: Step) -> tuple[State | None, list[str]]:
        state = view.state
        for inner in step[1:]:
            after, problems = self.take(View(self.scope, state), inner)
            if after is None or problems:
                return None, problems
            state = after
        return losing.restart(view, state), []

    def _quietly(self, state: State, step: Step) -> State | None:
        """The next state if a call changes keys."""
        after, problems = self.take(View(self.scope, state), step)
        return None if problems or after is None or after.texts == state.texts else after

    def problems(self, state: State) -> list[str]:
        """Everything that is wrong with a state."""
        return list(invariants.problems(View(self.scope, state)))

    def _next(self, view: View, outcome: Outcome) -> State:
        texts = dict(view.texts)
        for key, text in outcome.changed.items():
            if key in (WAKE, AUDIT) or key.startswith(SIGNAL):
                continue  # sleepers have heard the bell, and somebody has read the log
            if not text:
                texts.pop(key, None)
            elif key.startswith(EVIDENCE):
                heads = [line for line in items(text)[:1] if line.startswith(LOG_HEAD)]
                texts[key] = text_of("list", *heads, b"-", ttl=expiry(text))
            else:
                texts[key] = text
        for task in outcome.stored:
            if TASK + task in texts:
                texts.setdefault(EVIDENCE + task, EMPTY_LOG)  # as if a refused call had come first
        if outcome.now != view.now:
            for key in [key for key in texts if key.startswith(EVIDENCE)]:
                if (expiry(texts[key]) or outcome.now) < outcome.now:
                    del texts[key]
        ghost = outcome.ghost
        if ghost.faults:
            ghost = ghost._replace(faults=tuple(one for one in ghost.faults if _still_there(one, texts)))
        return State(texts, outcome.now, ghost)

    def _observed(self, view: View, outcome: Outcome, after: View) -> Ghost:
        """What the callers can know after a call without an answer: which leases it still ended."""
        ghost = outcome.ghost
        for kind in self.scope.tasks:
            lease = view.ghost.live(kind.id)
            now = after.task(kind.id)
            if now is None:
                ghost = ghost.purge(kind.id)
                continue
            if lease and now[b"status"] != b"leased":
                token, verb, to, detail = now[b"ended"].split(b" ")
                asked = int(token) == lease.token and verb in SETTLES
                ghost = ghost.end(lease, *((verb, b"ok", to, detail) if asked else ()))
            ghost = ghost.forget(kind.id)
            if b"handler_open" in now:
                ghost = ghost.record(Effect(kind.id, HANDLER))
            for key, text in after.hash(EFFECTS + kind.id).items():
                ghost = ghost.record(Effect(kind.id, key, *effect_record(text).told()))
        return ghost


def _still_there(fault: tuple[bytes, bytes], texts: dict[bytes, bytes]) -> bool:
    """Whether a planted id still stands where it should not, or under the score that was planted."""
    status, name = fault
    text = texts.get(INDEXES[status])
    return bool(text) and scores(text).get(name) == 1
