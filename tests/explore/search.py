"""Breadth first through every interleaving, each state once."""

from __future__ import annotations

import hashlib
import random
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .normal import Normal, digest
from .trace import concrete
from .view import Scope, State, Step
from .world import World


@dataclass(frozen=True, slots=True)
class Violation:
    """A step that must not be possible, and the shortest way there."""

    scope: str
    steps: tuple[Step, ...]
    problems: tuple[str, ...]


@dataclass(slots=True)
class Result:
    """What a search has seen.

    Attributes:
        scope: Its scope.
        seed: What the order inside a layer was drawn from.
        states: Distinct states.
        transitions: Steps taken.
        depth: The longest of the shortest paths.
        layers: How many states were new at each depth.
        complete: Every state up to that depth was seen.
        seconds: How long it took.
        digest: Of every state, in the order of their discovery.
        violation: The first that was found.
    """

    scope: str
    seed: int
    states: int = 0
    transitions: int = 0
    depth: int = 0
    layers: list[int] = field(default_factory=list)
    complete: bool = True
    seconds: float = 0.0
    digest: str = ""
    violation: Violation | None = None


class Search:
    """One search.

    Args:
        scope: What to explore.
        seed: Shuffles the states of each layer, 0 does not: which of them are expanded when a limit ends the search.
        directory: The scripts, by default the shipped ones.
        without: Kinds of merging to leave out.
        observe: Told of every new state, in normal form.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        seed: int = 0,
        directory: Path | None = None,
        without: frozenset[str] = frozenset(),
        observe: Callable[[State], None] | None = None,
    ) -> None:
        self.world = World(scope, directory)
        self.normal = Normal(scope, without=without)
        self.result = Result(scope.name, seed)
        self.observe = observe
        self.seen: dict[bytes, int] = {}
        self._random = random.Random(seed)
        self._hash = hashlib.blake2b(digest_size=16)
        self._parents = array("q")

    def run(
        self,
        *,
        max_states: int,
        max_depth: int = 99,
        max_seconds: float = float("inf"),
        progress: Callable[[Result], None] | None = None,
    ) -> Result:
        """Searches until a limit is reached, everything has been seen, or something is wrong."""
        result, began = self.result, time.monotonic()
        frontier = self._roots()
        while frontier and result.violation is None and result.depth < max_depth:
            result.layers.append(len(frontier))
            if result.states >= max_states:
                break
            if self.result.seed:
                self._random.shuffle(frontier)
            found: list[tuple[int, State]] = []
            for place, (number, state) in enumerate(frontier):
                self._expand(number, state, found)
                frontier[place] = (number, state)
                if result.violation or result.states >= max_states or time.monotonic() - began > max_seconds:
                    result.complete = place == len(frontier) - 1
                    break
            result.depth += 1 if found else 0
            result.seconds = time.monotonic() - began
            if progress:
                progress(result)
            if not result.complete:
                result.layers.append(len(found))
                break
            frontier = found
        result.seconds = time.monotonic() - began
        result.digest = self._hash.hexdigest()
        return result

    def _roots(self) -> list[tuple[int, State]]:
        found: list[tuple[int, State]] = []
        for root in self.world.scope.roots:
            state, number = self.world.empty(), -1
            steps: list[Step] = []
            for step in root:
                steps.append(step)
                after, problems = self.world.take(self.world.load(state), step)
                state = after or state
                problems += self.world.problems(state)
                if problems:
                    self.result.violation = Violation(self.world.scope.name, tuple(steps), tuple(problems))
                    return []
            normal = self.normal(state)
            number = self._note(normal, -1 - self.world.scope.roots.index(root))
            if number is not None:
                found.append((number, normal))
        return found

    def _expand(self, number: int, state: State, found: list[tuple[int, State]]) -> None:
        world, result = self.world, self.result
        view = world.load(state)
        for step in list(world.steps(view)):
            after, problems = world.take(view, step)
            result.transitions += 1
            if problems:
                return self._report(number)
            if after is None:
                continue
            normal = self.normal(after)
            reached = self._note(normal, number)
            if reached is None:
                continue
            if world.problems(after):
                return self._report(number)
            found.append((reached, normal))

    def _note(self, state: State, parent: int) -> int | None:
        """The number of a state if it is new."""
        mark = digest(state)
        if mark in self.seen:
            return None
        number = len(self._parents)
        self.seen[mark] = number
        self._hash.update(mark)
        self._parents.append(parent)
        self.result.states += 1
        if self.observe:
            self.observe(state)
        return number

    def _report(self, number: int) -> None:
        """Something is wrong after a state."""
        by_number = list(self.seen)
        marks = []
        while self._parents[number] >= 0:
            marks.append(by_number[number])
            number = self._parents[number]
        root = self.world.scope.roots[-1 - self._parents[number]]
        steps, problems = concrete(self, root, marks[::-1])
        self.result.violation = Violation(self.world.scope.name, steps, problems)
