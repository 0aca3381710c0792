"""A violation as a test that anybody can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .normal import digest
from .view import Scope, State, Step
from .world import World

if TYPE_CHECKING:
    from .search import Search, Violation


def replay(scope: Scope, steps: Iterable[Step], *, directory: Path | None = None) -> State:
    """Takes steps from the empty queue, each in the state that the one before has left.

    Raises:
        AssertionError: Something on the way is wrong.
    """
    world = World(scope, directory)
    state = world.empty()
    taken: list[Step] = []
    for step in steps:
        taken.append(step)
        after, problems = world.take(world.load(state), step)
        state = after or state
        found = [*problems, *(world.problems(state) if after else ())]
        assert not found, f"after {taken}:\n" + "\n".join(found)
    return state


def as_test(violation: Violation) -> str:
    """The text of a test that fails as the search did."""
    lines = [f"        {step!r}," for step in violation.steps]
    comments = [f"    # {problem}" for problem in violation.problems]
    return "\n".join(
        (
            "from explore.scopes import SCOPES",
            "from explore.trace import replay",
            "",
            "",
            "def test_found_by_the_explorer() -> None:",
            *comments,
            f"    steps = [\n{chr(10).join(lines)}\n    ]",
            f"    replay(SCOPES[{violation.scope!r}], steps)",
            "",
        )
    )


def concrete(search: Search, root: tuple[Step, ...], marks: list[bytes]) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """The steps from the empty queue through states whose normal forms have these digests, to something wrong.

    A search goes on from normal forms, in which workers and numbers have other names than on the way there.
    """
    world = search.world
    state = world.empty()
    steps = list(root)
    for step in root:
        state = world.take(world.load(state), step)[0] or state
    for mark in marks:
        step, state = next((s, after) for s, after in _ways(world, state) if digest(search.normal(after)) == mark)
        steps.append(step)
    view = world.load(state)
    for step in list(world.steps(view)):
        after, problems = world.take(view, step)
        problems += world.problems(after) if after else []
        if problems:
            return (*steps, step), tuple(problems)
    raise AssertionError("a violation did not come back outside the normal form")


def _ways(world: World, state: State) -> Iterator[tuple[Step, State]]:
    view = world.load(state)
    for step in list(world.steps(view)):
        after, problems = world.take(view, step)
        if after is not None and not problems:
            yield step, after
