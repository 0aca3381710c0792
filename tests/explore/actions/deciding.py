"""Operators: cancel, revoke, resolve, requeue, pause and resume, each sent again later, and late ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ghost import Decision, Ghost
from ..model import TERMINAL, Ending, Outcome
from ..texts import BASE
from ..view import View
from .action import Action, Caller, Parameters, action, expect, outcome_of

AUDIT = BASE + b"audit"


def signed(view: View) -> dict[str, Any]:
    """What every decision carries."""
    return {"nonce": f"d{view.ghost.decided + 1}", "by": "ops", "reason": ""}


def tokens_of(view: View, task: bytes) -> list[int]:
    """The task's token as it is, and as an operator saw it who comes late."""
    fields = view.task(task) or {}
    current = int(fields.get(b"fencing_token", b"0"))
    older = [lease.token for lease in view.ghost.leases if lease.task == task and lease.token != current]
    return [current, *older[-1:]]


class TaskDecision(Action):
    """A decision about one task."""

    script = ""

    def decide(
        self, view: View, call: Caller, task: bytes, token: int, to: bytes | Ending | None, *groups: Any, **named: Any
    ) -> Outcome:
        """Sends it; `to` is where the task must go, or how its lease must end, or None if it must be refused."""
        if self.script != "cancel":
            named["token"] = token or ""
        ran = call(view, self.script, *groups, id=task, **signed(view), **named)
        outcome = outcome_of(view, ran)
        if not outcome.died:
            right = b"ok" if to is not None else b"conflict"
            expect(outcome, ran.reply[0] == right, f"{self.script} was answered {ran.reply}, not {right!r}")
            outcome.refused = to is None
        if to is None or (outcome.problems and not outcome.died):
            return outcome
        if isinstance(to, Ending):
            outcome.ended[task] = to
        else:
            outcome.moved[task] = to
        if outcome.died:
            return outcome
        args = call.args(self.script, *groups, id=task, **signed(view), **named)
        decision = Decision(self.script, task, args, token, ran.reply)
        lease = outcome.ghost.live(task)
        if lease is not None:
            outcome.ghost = outcome.ghost.end(lease)
        outcome.ghost = view_spent(view, outcome.ghost).decide(decision, view.scope.remembered)
        expect(outcome, int(ran.reply[2]) > view.ghost.top, "the fence does not stand above every lease of the past")
        expect(outcome, AUDIT in outcome.changed, "the decision is not in the audit log")
        return outcome


def view_spent(view: View, ghost: Ghost) -> Ghost:
    """The ghost after one more decision of the path."""
    return ghost._replace(spent=view.spend("decide").spent)


@action
class Cancel(TaskDecision):
    """An operator cancels a task."""

    name = script = "cancel"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Every task; those that have ended refuse."""
        if view.may("decide"):
            yield from ((kind.id.decode(),) for kind in view.scope.tasks if view.task(kind.id))

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Cancels."""
        task = parameters[0].encode()
        status = (view.task(task) or {})[b"status"]
        to: bytes | Ending | None = b"cancelled"
        if status in TERMINAL:
            to = None
        elif status == b"leased":
            to = Ending("cancelled")
        return self.decide(view, call, task, 0, to)


@action
class Revoke(TaskDecision):
    """An operator takes a lease away."""

    name = script = "revoke"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Every leased task, by its token now and by the one before."""
        for kind in view.scope.tasks if view.may("decide") else ():
            if (view.task(kind.id) or {}).get(b"status") == b"leased":
                yield from ((kind.id.decode(), token) for token in tokens_of(view, kind.id))

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Revokes."""
        task, token = parameters[0].encode(), parameters[1]
        current = tokens_of(view, task)[0]
        return self.decide(view, call, task, token, Ending("revoked") if token == current else None)


@action
class Requeue(TaskDecision):
    """An operator gives a dead task another life."""

    name = script = "requeue"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Every dead task, by its token now and by the one before."""
        for kind in view.scope.tasks if view.may("decide") else ():
            if (view.task(kind.id) or {}).get(b"status") == b"dead":
                yield from ((kind.id.decode(), token) for token in tokens_of(view, kind.id))

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Requeues."""
        task, token = parameters[0].encode(), parameters[1]
        in_doubt = view.scope.task(task).side_effect == "non_idempotent" and view.ghost.open_of(task)
        right = token == tokens_of(view, task)[0] and not in_doubt
        outcome = self.decide(view, call, task, token, b"ready" if right else None)
        if right:
            outcome.fresh.add(task)
        return outcome


VERDICTS = ("", "done", "not_done")
GOES_TO = {"done": b"completed", "retry": b"ready", "dead": b"dead"}


@action
class Resolve(TaskDecision):
    """An operator says what became of a task in doubt, and of all its open effects or of none."""

    name = script = "resolve"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Every decision that a task in doubt allows, one that it does not, and one that comes late."""
        for kind in view.scope.tasks if view.may("decide") else ():
            fields = view.task(kind.id) or {}
            effects = view.ghost.open_of(kind.id)
            current, *late = tokens_of(view, kind.id)
            task = kind.id.decode()
            if fields.get(b"status") == b"reconciling":
                yield task, current, "done", "done"
                yield task, current, "retry", "not_done"
                yield task, current, "retry", ""
                yield task, current, "dead", ""
                yield from ((task, token, "dead", "") for token in late)
            elif fields.get(b"status") in TERMINAL and effects:
                yield task, current, "dead", "not_done"
                yield task, current, "retry", "not_done"

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Resolves."""
        name, token, decision, verdict = parameters
        task = name.encode()
        status = (view.task(task) or {})[b"status"]
        keys = view.ghost.open_of(task) if verdict else []
        groups = [{"key": key, "verdict": verdict, "testimony": ""} for key in keys]
        left = len(view.ghost.open_of(task)) - len(groups)
        to: bytes | None = GOES_TO[decision] if status == b"reconciling" else status
        if (decision == "retry" and (left > 0 or status in TERMINAL)) or token != tokens_of(view, task)[0]:
            to = None
        outcome = self.decide(view, call, task, token, to, *groups, decision=decision, result="")
        for key in keys if to is not None and not outcome.died else ():
            outcome.ghost = outcome.ghost.end_try(task, key).close(task, key, verdict.encode(), b"")
        return outcome


@action
class DecideAgain(Action):
    """A decision that was sent before arrives once more."""

    name = "decide again"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Every decision that is remembered."""
        yield from ((position,) for position in range(len(view.ghost.decisions)))

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Sends it."""
        decision = view.ghost.decisions[parameters[0]]
        ran = call.again(view, decision.verb, decision.args)
        outcome = outcome_of(view, ran)
        if outcome.died:
            return outcome
        outcome.refused = True
        if ran.reply[0] == b"ok" or decision.stands:
            same = ran.reply == decision.answer
            expect(outcome, same, f"G7: {decision.verb} was answered {decision.answer} and now {ran.reply}")
        return outcome


@action
class Pause(Action):
    """An operator pauses or resumes the queue; a late one names an old epoch."""

    name = "pause"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """Another level than now, by the epoch of now and by the one before."""
        levels = ("",) if view.ghost.pause else ("claims", "effects") if "intent" in view.scope.actions else ("claims",)
        if view.may("pause"):
            yield from ((level, view.ghost.epoch) for level in levels)
        if view.ghost.epoch:
            yield levels[0], view.ghost.epoch - 1

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Pauses or resumes."""
        level, epoch = parameters
        named = {"level": level, "epoch": epoch, **signed(view)}
        ran = call(view, "pause", **named)
        outcome = outcome_of(view, ran)
        if outcome.died:
            return outcome
        late = epoch != view.ghost.epoch
        outcome.refused = late
        expect(outcome, ran.reply[0] == (b"conflict" if late else b"ok"), f"pause was answered {ran.reply}")
        if late or outcome.problems:
            return outcome
        args = call.args("pause", **named)
        decision = Decision("pause", b"", args, 0, ran.reply)
        ghost = view.spend("pause").decide(decision, view.scope.remembered)
        outcome.ghost = ghost._replace(pause=level.encode(), epoch=view.ghost.epoch + 1)
        return outcome
