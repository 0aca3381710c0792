"""Random steps by two workers, an operator, a reaper and the clock, each taken by the library and by the reference."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from .actions import Action, action, actions_of
from .base import Steps, ms
from .operator_steps import OperatorSteps
from .worker_steps import WorkerSteps
from .world import Stage

ELAPSED_MS_MAX = 3_500_000
"""Below the hour of silence after which a purge forgets a worker."""


class TimeSteps(Steps):
    """What happens by itself, or again."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.elapsed_ms = 0

    @action(8, step_ms=st.sampled_from((10_001, 10_001, 1, 1_000, 4_999, 5_000, 10_000, 60_001, -1, -3_000, -15_000)))
    def pass_time(self, step_ms: int) -> None:
        """Forwards, or backwards."""
        if self.elapsed_ms + step_ms <= ELAPSED_MS_MAX:
            self.elapsed_ms += step_ms
            self.world.advance_ms(step_ms)

    @action(2, limit=st.sampled_from((1, 100)))
    def reap(self, limit: int) -> None:
        """Recovers and promotes."""
        self.do(0, lambda queue: queue.reap(limit), lambda _: self.model.reap(limit))

    @action(
        2,
        completed=st.sampled_from((0, 120, None)),
        cancelled=st.sampled_from((0, 120, None)),
        dead=st.sampled_from((None, 0)),
        evidence=st.sampled_from((0, 60)),
        later_ms=st.sampled_from((60_000, 60_000, 0)),
    )
    def purge(
        self, completed: int | None, cancelled: int | None, dead: int | None, evidence: int, later_ms: int
    ) -> None:
        """Mostly after the minute that is always kept."""
        if any(task.terminal for task in self.model.tasks.values()):
            self.pass_time(later_ms)
            kept = {"completed": ms(completed), "cancelled": ms(cancelled), "dead": ms(dead)}
            self.do(
                0,
                lambda queue: queue.purge(completed=completed, cancelled=cancelled, dead=dead, evidence=evidence),
                lambda _: self.model.purge(kept),
            )

    @action(6, which=st.sampled_from((0, 0, 1, 2, 3, 5, 8, 13, 21)), decisions=st.booleans())
    def repeat(self, which: int, decisions: bool) -> None:
        """A call arrives once more."""
        if self.steps:
            self.send_again(which, decisions=decisions)


class AllSteps(WorkerSteps, OperatorSteps, TimeSteps):
    """Everything that may happen."""


class QueueMachine(AllSteps):
    """The machine; `World.differences` is what is compared after each step."""

    @rule(action=actions_of(AllSteps))
    def step(self, action: Action) -> None:
        """Any step."""
        getattr(self, action.name)(**action.values)

    def teardown(self) -> None:
        problems = [*self.world.evidence_problems(self.ids), *self.world.close()]
        assert not problems, "\n".join(problems)

    @initialize()
    def begin(self) -> None:
        """One lease is there from the start."""
        plain = {"limits": {}, "priority": 0, "key": None, "delay": None}
        self.enqueue(None, "non_idempotent", True, 0, **plain)
        self.enqueue("a", "idempotent", True, 0, **plain)
        self.claim(0, 1)

    @invariant()
    def nothing_differs(self) -> None:
        """The whole queue is what the reference says."""
        differences = self.world.differences()
        assert not differences, "\n".join(differences)
