"""Workers claim, and send a claim again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ghost import HANDLER, Effect, Ghost, Lease
from ..model import Outcome, on_last_expiration, recovered
from ..texts import Fields
from ..view import View
from .action import Action, Caller, Parameters, action, expect, outcome_of, sweep

GRANT = (
    *("id", "name", "side_effect", "generation", "token", "expires_at", "attempts", "created_at", "rare", "payload"),
)
REMEMBERED_REQUESTS = 2
SEQUENCES = 1 << 44


def acquire_args(worker: bytes, limit: int, request: int, started: int = 1) -> dict[str, Any]:
    """The arguments of a claim; one whose work starts at once opens the implicit effect."""
    return {"owner": worker, "lane": "ready", "limit": limit, "request_number": request, "started": started}


def read_claim(view: View, outcome: Outcome, reply: tuple[Any, ...], asked: dict[str, Any]) -> None:
    """What the answer to a claim means for its worker, and whether it may be that answer."""
    worker, request = asked["owner"], asked["request_number"]
    position = view.scope.workers.index(worker)
    before = outcome.ghost
    replay = request in before.recorded[position]
    sweep(view, outcome)
    paused = before.pause != b""
    word = reply[0]
    expect(outcome, word == (b"paused" if paused and not replay else b"ok"), f"a claim was answered {word!r}")
    if word not in (b"ok", b"paused"):
        return
    width = int(reply[5])
    groups = [reply[start : start + width] for start in range(6, len(reply), width)]
    leases = [_lease(view, group, worker, request) for group in groups]
    if replay:
        held = [one for one in before.leases if one.request == request and one.owner == worker and one.holds(view.now)]
        expect(
            outcome,
            [one[:4] for one in leases] == [one[:4] for one in held],
            "G7: a claim sent again does not answer what is still held of it",
        )
        return
    outcome.granted = leases
    _check_grants(view, outcome, paused, asked)
    outcome.ghost = _after(view, outcome.ghost, leases, position, asked)


def _lease(view: View, group: tuple[Any, ...], worker: bytes, request: int) -> Lease:
    told = dict(zip(GRANT, group, strict=True))
    rare = dict(line.split(b" ", 1) for line in told["rare"].splitlines())
    return Lease(
        task=told["id"],
        owner=worker,
        generation=int(told["generation"]),
        token=int(told["token"]),
        request=request,
        expires=int(told["expires_at"]),
        renewed=view.now,
        cap=int(rare.get(b"runtime_deadline", 0)),
        unstarted=rare.get(b"unstarted") == b"1",
    )


def _after(view: View, ghost: Ghost, leases: list[Lease], position: int, asked: dict[str, Any]) -> Ghost:
    requests, recorded = list(ghost.requests), list(ghost.recorded)
    requests[position] = asked["request_number"]
    recorded[position] = (*recorded[position], requests[position])[-REMEMBERED_REQUESTS:]
    ghost = ghost.grant(leases, view.scope.remembered)
    for lease in leases if asked["started"] else ():
        if view.scope.task(lease.task).has_implicit_effect:
            ghost = ghost.record(Effect(lease.task, HANDLER))
    return ghost._replace(requests=tuple(requests), recorded=tuple(recorded))


def _check_grants(view: View, outcome: Outcome, paused: bool, asked: dict[str, Any]) -> None:
    limit = asked["limit"]
    known = {kind.id for kind in view.scope.tasks}
    expect(outcome, not (paused and outcome.granted), "a paused queue granted a lease")
    expect(outcome, len(outcome.granted) <= limit, "more was granted than asked for")
    top = outcome.ghost.top
    for lease in outcome.granted:
        if lease.task not in known:
            outcome.problems.append(f"{lease.task!r} was handed out and is no task")
            continue
        expect(outcome, lease.token > top, f"G3: token {lease.token} after {top}")
        top = max(top, lease.token)
        before = view.task(lease.task) or {}
        cap = view.now + int(before[b"max_runtime_ms"]) if b"max_runtime_ms" in before else 0
        length = int(before.get(b"lease_ms", b"60000"))
        expires = min(view.now + length, cap) if cap else view.now + length
        expect(outcome, (lease.expires, lease.cap) == (expires, cap), "the lease is not as long as it should be")
        last = on_last_expiration(before, recovered(view, lease.task))
        expect(outcome, lease.unstarted == (last and not asked["started"]), "a handler's start is asked for, or not")
        still = outcome.ghost.live(lease.task)
        if still is not None and still.holds(view.now):
            outcome.problems.append(f"G1: {lease.task!r} is leased to two holders")
    known_leases = [lease for lease in outcome.granted if lease.task in known]
    _check_order(view, outcome, known_leases, paused, limit)


def _check_order(view: View, outcome: Outcome, granted: list[Lease], paused: bool, limit: int) -> None:
    """The head of the line goes first, and no free task is left standing."""
    if paused or outcome.ghost.faults:
        return
    line = []
    for kind in view.scope.tasks:
        fields = view.task(kind.id)
        if fields and _status_in_line(view, outcome, kind.id) == b"ready":
            line.append((_rank(view, kind.id, fields), kind.id))
    unranked = any(rank is None for rank, _ in line)
    wanted = len(line) if limit >= len(line) else limit
    expect(outcome, len(granted) == wanted, f"{len(granted)} of {len(line)} ready tasks were granted, limit {limit}")
    if not unranked:
        heads = [task for _, task in sorted(line)][: len(granted)]  # type: ignore[type-var]
        expect(outcome, [lease.task for lease in granted] == heads, f"granted out of order, the line was {heads}")


def _status_in_line(view: View, outcome: Outcome, task: bytes) -> bytes | None:
    from ..model import expected

    granted, outcome.granted = outcome.granted, []
    status = expected(view, outcome, task)
    outcome.granted = granted
    return status


def _rank(view: View, task: bytes, fields: Fields) -> int | None:
    """Where a task stands in line; None while its place will be drawn by this very call."""
    if fields[b"status"] == b"ready":
        return view.index(b"ready")[task]
    if b"sequence" not in fields:
        return None
    return (100 - int(fields.get(b"priority", b"0"))) * SEQUENCES + int(fields[b"sequence"])


@action
class Claim(Action):
    """A worker claims; a request number that brought something is sent again, too."""

    name = "claim"

    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """One task or two for every worker, and the latest claims of each again."""
        for position, worker in enumerate(view.scope.workers):
            last = view.ghost.requests[position]
            yield worker.decode(), 1, last + 1, 1
            if len(view.index(b"ready")) > 1:
                yield worker.decode(), 2, last + 1, 1
            if "intent" in view.scope.actions:
                yield worker.decode(), 1, last + 1, 0
            for request in view.ghost.recorded[position]:
                yield worker.decode(), 1, request, 1

    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Claims."""
        name, limit, request, started = parameters
        asked = acquire_args(name.encode(), limit, request, started)
        ran = call(view, "claim", **asked)
        outcome = outcome_of(view, ran)
        if outcome.died:
            outcome.swept = True
            return outcome
        read_claim(view, outcome, ran.reply, asked)
        return outcome
