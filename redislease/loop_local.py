"""One object for each event loop: asyncio connections belong to the loop that opened them."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """Something with connections."""

    def aclose(self) -> Awaitable[None]:
        """Closes them."""
        ...


C = TypeVar("C", bound=Closable)


class LoopLocal(Generic[C]):
    """What was opened in each event loop, for as long as the loop lives."""

    def __init__(self) -> None:
        self._opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, C] = weakref.WeakKeyDictionary()

    def get(self, open_one: Callable[[], C]) -> C:
        """The object of the running loop, opened on first use."""
        loop = asyncio.get_running_loop()
        found = self._opened.get(loop)
        if found is None:
            found = open_one()
            self._opened[loop] = found
        return found

    async def aclose(self) -> None:
        """Closes what was opened in the running loop."""
        found = self._opened.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.aclose()
