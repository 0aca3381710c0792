"""Steps of a machine: named, weighted, with values drawn for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

F = TypeVar("F", bound=Callable[..., None])


@dataclass(frozen=True)
class Action:
    """One step: a method of the machine, with its arguments."""

    name: str
    values: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"


def action(weight: int, **values: st.SearchStrategy[Any]) -> Callable[[F], F]:
    """Makes a method a step; of two, the one with twice the weight is twice as frequent."""

    def mark(method: F) -> F:
        method.__dict__["drawn"] = weight, values
        return method

    return mark


def actions_of(machine: type) -> st.SearchStrategy[Action]:
    """Any step of a machine.

    One strategy, and not a rule for each step: Hypothesis switches a random half of the rules off in each run, and a
    lease that nobody can claim, lose or settle teaches nothing.
    """
    weights: dict[str, int] = {}
    drawn: dict[str, st.SearchStrategy[Action]] = {}
    for name in dir(machine):
        if marked := getattr(getattr(machine, name), "drawn", None):
            weights[name], values = marked
            drawn[name] = st.builds(Action, st.just(name), st.fixed_dictionaries(dict(values)))
    # The most frequent one first: it is what Hypothesis takes for the simplest.
    names = [name for name, weight in sorted(weights.items(), key=lambda one: -one[1]) for _ in range(weight)]
    return st.sampled_from(names).flatmap(drawn.__getitem__)
