"""What the server holds of a task, put together for `why`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redislease.cli.output import when
from redislease.cli.session import Session
from redislease.effect_records import UNREADABLE_STATE, EffectRecord
from redislease.errors import TaskUnknown, reading
from redislease.models import Stats, Status, Task

NEVER_SWEPT = 2**53 - 1
"""The score of an ended task with an effect in doubt: the time since then is its score in `unsettled`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision that brought a task into its state.

    Attributes:
        by: Who made it.
        at: When, in milliseconds of the server's clock.
        reason: Why; '' if nothing was said.
    """

    by: str
    at: int
    reason: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a task.

    Attributes:
        session: The invocation, which knows how commands about this queue are typed.
        task: The task.
        stats: Its queue.
        since: When it came into its state, in milliseconds; None if nothing tells.
        ahead: How many tasks are before it in its lane.
        unsettled_since: Since when it has ended with an effect in doubt.
        in_doubt: Its effects of unknown outcome.
        decision: Who brought it into its state, if that was an operator.
    """

    session: Session
    task: Task
    stats: Stats
    since: int | None
    ahead: int | None
    unsettled_since: int | None
    in_doubt: list[EffectRecord]
    decision: Decision | None
    never_begun: int

    @property
    def given_back(self) -> int:
        """How often a worker gave it back before anything was begun: those acquisitions do not count as attempts."""
        return max(self.task.claim_generation - self.task.attempts - self.never_begun, 0)

    @property
    def holder(self) -> str:
        """Who holds or held the last lease."""
        return f"{self.task.lease_owner} under generation {self.task.claim_generation}"

    def when(self, at_ms: int | None) -> str:
        """A time with its distance from the server's present."""
        return when(at_ms, self.stats.now)

    def command(self, *words: str) -> str:
        """What to type about this task."""
        return self.session.command(*words)


_SCORE_IS_SINCE = (Status.BLOCKED, Status.AWAITING_APPROVAL, Status.RECONCILING, *(one for one in Status if one.ended))


def _since(task: Task, score: Any, unsettled: int | None, last_event: int | None) -> int | None:
    """When a task came into its state: the index tells, else the lease, else the last evidence, else its creation."""
    if task.status in _SCORE_IS_SINCE and score is not None:
        at = int(float(score))
        return unsettled if at == NEVER_SWEPT else at
    if task.status == Status.LEASED:
        return task.claimed_at
    return last_event or (task.created_at if task.claim_generation == 0 else None)


def _decision(task: Task, lines: Sequence[Mapping[str, Any]]) -> Decision | None:
    """The decision behind a task's state: from its evidence, else from its hash, which knows the last one alone.

    The last decision need not be the one: an operator may have closed an effect of a task that had ended before.
    """
    moves = [line for line in lines if "to" in line]
    last = next((line for line in reversed(moves) if line["to"] != line.get("from")), None)
    if last and last["to"] == task.status:
        return Decision(last["by"], last["at"], last.get("reason") or "") if "by" in last else None
    words = (task.decided or "").split(" ")
    if len(words) > 3 and words[3] == task.status:
        return Decision(task.decided_by or "somebody", int(words[2]), "")
    return None


def gather(session: Session, task_id: str) -> Facts:
    """Reads what is known of a task.

    Raises:
        TaskUnknown: There is no such task; the message says whether its evidence is left.
    """
    queue = session.queue
    lines = queue.evidence(task_id)
    try:
        task = queue.get(task_id)
    except TaskUnknown as unknown:
        left = f"; its evidence is left: {session.command('evidence', task_id)}" if lines else ""
        raise TaskUnknown(
            f"{unknown}: it was never enqueued, or its retention has ended{left}", task_id=task_id
        ) from None
    index, unsettled = queue.keys.index(task.status), queue.keys.index("unsettled")
    score, doubt, ahead = session.read(
        ("ZSCORE", index, task_id), ("ZSCORE", unsettled, task_id), ("ZRANK", index, task_id)
    )
    # An earlier task of the same id has left lines of its own.
    lines = [line for line in lines if (line.get("at") or 0) >= task.created_at]
    last_event = lines[-1].get("at") if lines else None
    with reading(f"a score of task {task_id}"):
        doubt_since = int(float(doubt)) if doubt is not None else None
        since = _since(task, score, doubt_since, last_event)
    effects = queue.effects(task_id) if task.open_effects else []
    in_doubt = [effect for effect in effects if effect.state in ("open", UNREADABLE_STATE)]
    decision = _decision(task, lines)
    never_begun = sum(line.get("event") == "unstarted" for line in lines)
    return Facts(session, task, queue.stats(), since, ahead, doubt_since, in_doubt, decision, never_begun)
