"""A server that comes back without its last writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ghost import Ghost
from ..view import State, Step, View
from .action import Caller
from .faults import calls

NAME = "lose"
OUTAGE_MS = 1

Take = Callable[[State, Step], State | None]


def options(view: View, call: Caller, take: Take) -> Iterator[Step]:
    """A restart that loses nothing, and up to so many calls in a row whose writes will be lost.

    Of a longer chain every call is the first of its action's ways, so that chains stay few.
    """
    if not view.may(NAME):
        return
    yield (NAME,)
    chains: list[tuple[State, Step]] = [(view.state, (NAME,))]
    for length in range(view.scope.losses):
        longer = []
        for state, chain in chains:
            here = View(view.scope, state)
            steps = list(calls(here, call))
            for step in steps if length == 0 else _first_ways(steps):
                after = take(state, step)
                if after is not None:
                    longer.append((after, (*chain, step)))
                    yield longer[-1][1]
        chains = longer


def _first_ways(steps: list[Step]) -> list[Step]:
    found: dict[tuple[object, ...], Step] = {}
    for step in steps:
        found.setdefault(step[:2], step)
    return list(found.values())


def restart(before: View, last: State) -> State:
    """What is left of a chain of calls: the keys from before it, and callers who remember its answers."""
    now = last.now + OUTAGE_MS
    ghost = _survivors(before.ghost, last.ghost, now, before.scope.remembered)
    return State(before.texts, now, ghost._replace(spent=before.spend(NAME).spent))


def _survivors(saved: Ghost, last: Ghost, now: int, remembered: int) -> Ghost:
    """What the callers know after a restart: the leases that were lost are still in somebody's hands.

    Tokens go on increasing unless the clock is behind where it has been when one was lost.
    """
    ghost = saved._replace(decided=last.decided, high=max(last.high, now))
    if last.top == saved.top:
        return ghost
    ghost = ghost._replace(lost_at=last.high)
    if now <= last.high:
        return ghost._replace(lost_at=0)
    known = {lease.token for lease in saved.leases}
    for lease in last.leases:
        if lease.token not in known:
            ghost = ghost.grant([lease.ended()], remembered)
    return ghost._replace(top=last.top)
