"""Runs one test body over the sync and the async flavour of a class.

The async flavour lives on an event loop in a background thread; a proxy turns its coroutines into values, its async
context managers into plain ones, and wraps what it returns if that is async again.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

CALL_S = 60.0


class Portal:
    """A thread with an event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="portal", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Calls a function on the loop and waits for what it, or its coroutine, returns."""

        async def invoke() -> Any:
            result = function(*args, **named)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(invoke(), self.loop).result(CALL_S)

    def close(self) -> None:
        """Ends what still runs on the loop, and the loop."""

        async def cancel_rest() -> None:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await self.loop.shutdown_asyncgens()
            await self.loop.shutdown_default_executor()

        self.call(cancel_rest)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_S)
        self.loop.close()

    def wrap(self, value: Any) -> Any:
        """A proxy for anything async; lists, tuples and dicts of such things element by element; else the value."""
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(self.wrap(item) for item in value)
        if type(value) is dict:
            return {key: self.wrap(item) for key, item in value.items()}
        return Proxy(self, value) if _is_async(value) else value


def _is_async(value: Any) -> bool:
    kind = type(value)
    ours = kind.__module__.partition(".")[0] == "redislease" and kind.__name__.lstrip("_").startswith("Async")
    return ours or hasattr(kind, "__aenter__") or isinstance(value, AsyncIterator)


def unwrap(value: Any) -> Any:
    """The async object behind a proxy, also inside lists, tuples and dicts."""
    if isinstance(value, Proxy):
        return value._target
    if type(value) in (list, tuple):
        return type(value)(unwrap(item) for item in value)
    if type(value) is dict:
        return {key: unwrap(item) for key, item in value.items()}
    return value


class Proxy:
    """An async object as a sync one. `close` means `aclose` where that exists."""

    _portal: Portal
    _target: Any

    def __init__(self, portal: Portal, target: Any) -> None:
        object.__setattr__(self, "_portal", portal)
        object.__setattr__(self, "_target", target)

    def __getattr__(self, name: str) -> Any:
        target = self._target
        if name == "close" and hasattr(target, "aclose"):
            name = "aclose"
        value = getattr(target, name)
        if not callable(value) or isinstance(value, type):
            return self._portal.wrap(value)
        return lambda *args, **named: self._call(value, *args, **named)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._target, name, unwrap(value))

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._call(self._target, *args, **named)

    def __enter__(self) -> Any:
        return self._call(self._target.__aenter__)

    def __exit__(self, *error: Any) -> Any:
        return self._call(self._target.__aexit__, *error)

    def __iter__(self) -> Iterator[Any]:
        if not hasattr(type(self._target), "__aiter__"):
            yield from (self._portal.wrap(item) for item in self._target)
            return
        items = self._target.__aiter__()
        while True:
            try:
                yield self._call(items.__anext__)
            except StopAsyncIteration:
                return

    def __eq__(self, other: object) -> bool:
        return bool(self._target == unwrap(other))

    def __hash__(self) -> int:
        return hash(self._target)

    def __repr__(self) -> str:
        return f"<proxy of {self._target!r}>"

    def _call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return self._portal.wrap(self._portal.call(function, *unwrap(list(args)), **unwrap(named)))


class Both:
    """One of the two flavours.

    Attributes:
        flavour: `sync` or `async`.
    """

    def __init__(self, flavour: str) -> None:
        self.flavour = flavour
        self._portal = Portal() if flavour == "async" else None

    @property
    def is_async(self) -> bool:
        """Whether it is the async flavour."""
        return self._portal is not None

    def pick(self, sync: Callable[..., Any], asynchronous: Callable[..., Any]) -> Callable[..., Any]:
        """The one of two functions or classes that this flavour is about, as a sync function."""
        portal = self._portal
        if portal is None:
            return sync
        return lambda *args, **named: portal.wrap(portal.call(asynchronous, *unwrap(list(args)), **unwrap(named)))

    def close(self) -> None:
        """Ends the loop."""
        if self._portal:
            self._portal.close()
