"""What every step does: carry an action out on both sides, compare, and remember what can be used later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from redislease.commands.call import Call

from .outcome import normal
from .refusal import Outcome, holds
from .task import Held
from .world import Stage, World

T = TypeVar("T")
Named = Mapping[str, Any]
DECISIONS = ("cancel", "revoke", "requeue", "resolve", "pause")
REFUSED = ("lost", "not_allowed", "invalid", "task_conflict", "key_conflict")
Model = Callable[[Named], Any]


@dataclass(frozen=True)
class Step:
    """A call that was made, with what the reference makes of it."""

    who: int
    call: Call[Any]
    model: Model


def ms(seconds: float | None) -> int | None:
    """Seconds as milliseconds."""
    return None if seconds is None else round(seconds * 1000)


def held_by(lease: Any) -> Held:
    """What proves a lease."""
    return Held(lease.id, lease.owner, lease.generation, lease.fencing_token)


def pick(found: list[T], choice: int) -> T:
    """One of a list; the last one for 0, so that small examples are about what is new."""
    return found[-1 - choice % len(found)]


class Steps(RuleBasedStateMachine):
    """The base of a machine.

    Attributes:
        leases: Every lease that there ever was, whoever has lost it since, and some that nobody was given.
        effects: Every effect that was begun, with the lease and the key.
        steps: Every call that was sent.
        ids: Every task that there ever was.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.world = World(stage)
        self.model = self.world.model
        self.leases: list[tuple[int, Any]] = []
        self.effects: list[tuple[int, Held, str, Any]] = []
        self.steps: list[Step] = []
        self.ids: list[str] = []

    def do(self, who: int, act: Callable[[Any], Any], model: Model) -> Any:
        """Carries out one action on both sides; answers what the library returned.

        Args:
            who: Which worker; the operator is at the second one's.
            act: Calls a public method of the queue, which may send one call at most.
            model: What the reference makes of it, given the arguments that were sent: nonce, id, request number.
        """
        recorder, before = self.world.recorders[who], self.world.hashes()
        value, sent = recorder.watch(lambda: act(self.world.queues[who]))
        assert len(sent) <= 1, f"one call was to be sent, not {[one.call.script for one in sent]}"
        expected = model(recorder.arguments(sent[0].call) if sent else {})
        if sent:
            self.agree(normal(sent[0].answer), expected)
            self.steps.append(Step(who, sent[0].call, model))
        if expected[0] in REFUSED:
            assert self.world.hashes() == before, "a refusal has changed a task"
        if expected[0] == "both":
            answers, leases = value
            self.agree(normal(answers), expected[1])
            self._take_in(who, leases, expected[2])
        elif expected[0] == "claimed":
            self._take_in(who, value, expected)
        else:
            self.agree(normal(value), expected)
        return value

    @staticmethod
    def agree(found: Any, expected: Any) -> None:
        """Whether the library says what the reference says."""
        assert found == expected, f"the library answers {found}, the reference {expected}"

    def send_again(self, which: int, *, decisions: bool) -> None:
        """A copy of an earlier call arrives, perhaps much later; of a decision, if wanted and there is one."""
        decided = [step for step in self.steps if step.call.script in DECISIONS] if decisions else []
        step = pick(decided or self.steps, which)
        queue, recorder = self.world.queues[step.who], self.world.recorders[step.who]
        named = recorder.arguments(step.call)
        _, sent = recorder.watch(lambda: queue.run(step.call))
        answer = sent[0].answer
        self.agree(normal(answer), step.model(named))
        claimed = answer[1] if isinstance(answer, tuple) else answer
        for grant in getattr(claimed, "grants", ()):
            self.leases.append((step.who, self.world.lease(step.who, named["owner"], grant)))

    def _take_in(self, who: int, leases: list[Any], expected: Outcome) -> None:
        got = [(one.id, one.generation, one.fencing_token, one.expires_at, one.task.attempts) for one in leases]
        self.agree(got, [(*grant[:4], grant[5]) for grant in expected[1]])
        self.leases += [(who, lease) for lease in leases]

    def lease(self, choice: int) -> tuple[int, Any, Held]:
        """A lease: for an even choice one that is held, if there is any; else any that there ever was."""
        alive = [one for one in self.leases if self._alive(one[1])] if choice % 2 == 0 else []
        who, lease = pick(alive or self.leases, choice // 2)
        return who, lease, held_by(lease)

    def _alive(self, lease: Any) -> bool:
        task = self.model.tasks.get(lease.id)
        return task is not None and holds(task, held_by(lease), self.model.now)

    def task_id(self, choice: int, *fitting: str) -> str:
        """A task: mostly one in a fitting state, if there is any; else any that there ever was."""
        fit = [task.id for task in self.model.tasks.values() if task.status in fitting] if choice % 3 else []
        return pick(fit or self.ids, choice // 3)
