"""Which calls the library really sent, so that each can be sent again later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from both import unwrap

from redislease.commands.call import Call
from redislease.errors import RedisLeaseError
from redislease.scripts import ScriptLibrary

NOT_WATCHED = ("register", "stats")


@dataclass(frozen=True)
class Sent:
    """One call with what it was answered or refused with."""

    call: Call[Any]
    answer: Any


def attempt(act: Callable[[], Any]) -> Any:
    """What an action returns, or the library's own error."""
    try:
        return act()
    except RedisLeaseError as refused:
        return refused


class Recorder:
    """Watches the transport of a queue of either flavour.

    Args:
        queue: The queue.
        library: Its scripts, whose headers name the arguments.
    """

    def __init__(self, queue: Any, library: ScriptLibrary, *, is_async: bool) -> None:
        self._library = library
        self._sent: list[Sent] = []
        transport = unwrap(queue)._transport
        run = transport.run

        def note(call: Call[Any], answer: Any) -> None:
            if call.script not in NOT_WATCHED:
                self._sent.append(Sent(call, answer))

        def watched(call: Call[Any], **options: Any) -> Any:
            try:
                answer = run(call, **options)
            except RedisLeaseError as refused:
                note(call, refused)
                raise
            note(call, answer)
            return answer

        async def awaited(call: Call[Any], **options: Any) -> Any:
            try:
                answer = await run(call, **options)
            except RedisLeaseError as refused:
                note(call, refused)
                raise
            note(call, answer)
            return answer

        transport.run = awaited if is_async else watched

    def watch(self, act: Callable[[], Any]) -> tuple[Any, list[Sent]]:
        """Does something; answers what came of it, and what was sent."""
        self._sent.clear()
        value = attempt(act)
        return value, list(self._sent)

    def arguments(self, call: Call[Any]) -> dict[str, Any]:
        """The arguments of a call by name, and those of its first group where no single one has the name."""
        header = self._library[call.script].header
        single = header.args[1:] if header.args[:1] == ("durable",) else header.args
        group = dict(zip(header.group, call.args[len(single) :], strict=False))
        return {**group, **dict(zip(single, call.args, strict=False))}
