"""A call of one script: the unit that travels from the pure commands to whatever runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from redislease.errors import UNREADABLE, RedisLeaseError, ServerError
from redislease.scripts import Arg

T_co = TypeVar("T_co", covariant=True)

Reply = list[Any]
"""A flat list of byte strings and integers."""


class Call(NamedTuple, Generic[T_co]):
    """One transition with its arguments. A tuple, because a busy worker makes thousands a second.

    It names a transition and never a key: the keys are derived from the queue by whatever runs the call, so a call can
    also be handed to a process that is trusted with the keys when its maker is not.

    Attributes:
        script: The transition, a file of `lua/`.
        args: Flat ARGV, in the order of the script's header.
        parse: Turns the reply into the answer, or raises a `RedisLeaseError`.
        confirm: Whether the answer must wait for replicas in a queue with `wait_replicas`.
        answers: How long the answer is, where it is a list with one for each lease.
    """

    script: str
    args: Sequence[Arg]
    parse: Callable[[Reply], T_co]
    confirm: bool = True
    answers: int | None = None

    def read(self, reply: Reply) -> T_co:
        """The answer that a reply holds.

        Raises:
            RedisLeaseError: What the reply means; `ServerError` when it is none of this script.
        """
        try:
            answer = self.parse(reply)
            found = len(answer) if self.answers is not None and isinstance(answer, list) else None
        except RedisLeaseError:
            raise
        except UNREADABLE as problem:
            raise ServerError(f"the reply of {self.script} cannot be read") from problem
        if found != self.answers:
            raise ServerError(f"the reply of {self.script} has {found} answers, not {self.answers}")
        return answer
