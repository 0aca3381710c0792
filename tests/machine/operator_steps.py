"""What operators decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from redislease.models import Done

from . import operating
from .actions import action
from .base import Named, Steps
from .refusal import Outcome
from .task import HANDLER

CHOICE = st.integers(0, 11)
STALE = st.sampled_from((None, None, None, 1))


class OperatorSteps(Steps):
    """Cancel, revoke, requeue, resolve, pause and resume."""

    def _decide(self, act: Callable[[Any], Any], model: Callable[[int | None, str], Outcome]) -> None:
        """A decision names the token that the task had when it was looked at."""

        def of(sent: Named) -> Outcome:
            token = sent.get("token") or None
            return model(token and int(token), sent.get("nonce", ""))

        self.do(1, act, of)

    @action(1, which=CHOICE)
    def cancel(self, which: int) -> None:
        """For good."""
        if self.ids:
            task_id = self.task_id(which, "scheduled", "ready", "leased", "reconciling")
            self._decide(
                lambda queue: queue.cancel(task_id, by="op", reason="why"),
                lambda _, nonce: operating.cancel(self.model, task_id, nonce),
            )

    @action(2, which=CHOICE, stale=STALE)
    def revoke(self, which: int, stale: int | None) -> None:
        """From whoever holds it."""
        if self.ids:
            task_id = self.task_id(which, "leased")
            self._decide(
                lambda queue: queue.revoke(task_id, token=stale, by="op"),
                lambda token, nonce: operating.revoke(self.model, task_id, token, nonce),
            )

    @action(2, which=CHOICE, stale=STALE)
    def requeue(self, which: int, stale: int | None) -> None:
        """Another life."""
        if self.ids:
            task_id = self.task_id(which, "dead")
            self._decide(
                lambda queue: queue.requeue(task_id, token=stale, by="op"),
                lambda token, nonce: operating.requeue(self.model, task_id, token, nonce),
            )

    @action(
        4,
        which=CHOICE,
        decision=st.sampled_from(("retry", "done", "dead")),
        verdicts=st.lists(st.sampled_from(("done", "not_done", "not_done", None)), min_size=3, max_size=3),
        stray=st.sampled_from((False, False, False, True)),
        stale=STALE,
    )
    def resolve(self, which: int, decision: str, verdicts: list[str | None], stray: bool, stale: int | None) -> None:
        """With a verdict for some of the effects, and perhaps for one that is none."""
        if not self.ids:
            return
        doubtful = [task.id for task in self.model.tasks.values() if task.open_effects and task.status != "leased"]
        task_id = doubtful[0] if doubtful and which % 3 else self.task_id(which, "reconciling")
        task = self.model.tasks.get(task_id)
        keys = sorted(task.open_keys) if task else []
        keys += ["pay"] if stray and decision != "retry" and "pay" not in keys else []
        chosen = {key: verdict for key, verdict in zip(keys, verdicts, strict=False) if verdict}
        given = {key: Done("o") if verdict == "done" and key != HANDLER else verdict for key, verdict in chosen.items()}
        found = {key: (verdict, "o" if verdict == "done" else None) for key, verdict in chosen.items()}
        self._decide(
            lambda queue: queue.resolve(task_id, decision, token=stale, by="op", effects=given, result="r"),
            lambda token, nonce: operating.resolve(self.model, task_id, decision, token, nonce, found, "r"),
        )

    @action(1, level=st.sampled_from(("claims", "effects", "effects", "")))
    def pause(self, level: str) -> None:
        """A pause mostly ends with the next such step."""
        if self.model.pause and level == "effects":
            level = ""
        self.do(
            1,
            lambda queue: queue.pause(level, by="op") if level else queue.resume(by="op"),
            lambda sent: operating.pause(self.model, level, int(sent["epoch"]), sent["nonce"]),
        )
