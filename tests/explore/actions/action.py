"""What an action is, and the table of all of them.

To add one: write a class with `name`, `options` and `perform` in a module of this package, decorate it with `@action`,
import the module in `__init__.py`, and name it in a scope of `scopes.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from ..ghost import Ghost, Lease
from ..model import Outcome
from ..store import Ran, Store
from ..view import View

Parameters = tuple[Any, ...]


class Caller:
    """Sends calls to the store, with their arguments bound by name.

    Args:
        store: The store, loaded with the state that the view shows.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def __call__(self, view: View, script: str, *groups: Mapping[str, Any], **named: Any) -> Ran:
        """Runs a script on the loaded state; what a group does not name is ''."""
        return self.again(view, script, self.args(script, *groups, **named))

    def args(self, script: str, *groups: Mapping[str, Any], **named: Any) -> tuple[bytes, ...]:
        """The arguments of a call, after `durable`."""
        joined = self.store.library[script]
        names = joined.header.group
        rows = []
        for group in groups:
            assert group.keys() <= set(names), f"{script} takes {names}"
            rows.append([group.get(name, "") for name in names])
        return tuple(value if isinstance(value, bytes) else str(value).encode() for value in joined.bind(rows, **named))

    def again(self, view: View, script: str, args: tuple[bytes, ...]) -> Ran:
        """Runs a script with the arguments of an earlier call."""
        durable = (b"0",) if self.store.library[script].durable else ()
        return self.store.call(script, (*durable, *args), view.now)


class Action(ABC):
    """One thing that may happen next."""

    name: ClassVar[str]

    @abstractmethod
    def options(self, view: View, call: Caller) -> Iterator[Parameters]:
        """The ways in which it may happen in a state."""

    @abstractmethod
    def perform(self, view: View, call: Caller, *parameters: Any) -> Outcome:
        """Does it, and says what its caller was told."""


ACTIONS: dict[str, Action] = {}
A = TypeVar("A", bound=type[Action])


def action(kind: A) -> A:
    """Puts an action into the table."""
    ACTIONS[kind.name] = kind()
    return kind


def outcome_of(view: View, ran: Ran, ghost: Ghost | None = None) -> Outcome:
    """The outcome of a call before anything else is said about it."""
    made = Outcome(ghost or view.ghost, ran.changed, view.now)
    if ran.error is not None:
        made.died = True
        made.problems.append(f"the script died: {ran.error}")
    return made


def sweep(view: View, outcome: Outcome) -> None:
    """The call also recovered every expired lease; what that means for the holders."""
    outcome.swept = True
    for lease in view.ghost.leases:
        if lease.live and lease.expires < view.now:
            outcome.ghost = outcome.ghost.end(lease)


def handle(lease: Lease) -> dict[str, bytes]:
    """The four values that prove a lease."""
    return {
        "id": lease.task,
        "owner": lease.owner,
        "generation": b"%d" % lease.generation,
        "token": b"%d" % lease.token,
    }


def expect(outcome: Outcome, condition: bool, problem: str) -> None:
    """Notes a problem unless a condition holds."""
    if not condition:
        outcome.problems.append(problem)
