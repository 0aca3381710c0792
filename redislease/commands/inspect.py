"""Looking without writing. Scripts: `stats`, `check`."""

from __future__ import annotations

from redislease import limits, validation
from redislease.commands.call import Call, Reply
from redislease.commands.replies import groups, texts
from redislease.errors import InvalidInput
from redislease.keys import STATES
from redislease.models import Checked, Problem, Stats
from redislease.scripts import shipped

CHECKED_INDEXES = (*STATES, "unsettled", "orphans")

_COUNTERS = (
    "enqueued",
    "claimed",
    "completed",
    "failed",
    "fatal",
    "released",
    "returned",
    "unstarted",
    "expired",
    "max_runtime",
    "revoked",
    "cancelled",
    "requeued",
    "resolved",
    "promoted",
    "misplaced",
)


def stats(queue: str) -> Call[Stats]:
    """The queue at a glance. Script: `stats`."""

    def parse(reply: Reply) -> Stats:
        words = texts(reply)
        after_states = 3 + 2 * int(words[2])
        sizes = {name: int(size) for name, size in groups(words[:after_states], 3, 2)}
        more: dict[str, str] = dict(groups(words, after_states, 2))
        now = int(words[1])

        def number(name: str) -> int | None:
            return int(more[name]) if more.get(name) else None

        created = number("head_created_at")
        return Stats(
            queue=queue,
            now=now,
            states={state: sizes[state] for state in STATES},
            unsettled=sizes["unsettled"],
            orphans=sizes["orphans"],
            workers=sizes["workers"],
            expired=int(more["expired"]),
            overdue=int(more["overdue"]),
            head_age_ms=None if created is None else max(0, now - created),
            next_due_at=number("next_due_at"),
            next_expiry_at=number("next_expiry_at"),
            oldest_reconciling_at=number("oldest_reconciling_at"),
            layout=more.get("meta.layout"),
            fence=number("meta.fence") or 0,
            pause=more.get("meta.pause", ""),
            epoch=number("meta.epoch") or 0,
            paused_by=more.get("meta.paused_by"),
            paused_reason=more.get("meta.paused_reason"),
            paused_at=number("meta.paused_at"),
            counters={name: number(f"meta.{name}") or 0 for name in _COUNTERS},
        )

    return Call("stats", [], parse, confirm=False)


def check(index: str, offset: int = 0, limit: int = limits.BATCH) -> Call[Checked]:
    """Compares a stretch of one index with the hashes of its tasks. Script: `check`."""
    if index not in CHECKED_INDEXES:
        raise InvalidInput(f"index must be one of {', '.join(CHECKED_INDEXES)}, not {validation.shown(index)}")
    args = shipped()["check"].bind(
        index=index,
        offset=validation.integer(offset, "offset", low=0, high=2**53 - 1),
        limit=validation.integer(limit, "limit", low=1, high=limits.BATCH),
    )
    return Call("check", args, _parse_check, confirm=False)


def _parse_check(reply: Reply) -> Checked:
    words = texts(reply)
    problems = [Problem(id=task_id, problem=problem) for task_id, problem in groups(words, 3, 2)]
    return Checked(looked_at=int(words[1]), total=int(words[2]), problems=problems)
