"""The handlers of a queue, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from redislease import validation
from redislease.commands.enqueue import EnqueueOptions, request
from redislease.commands.enqueue import item as checked
from redislease.errors import ConfigurationError

if TYPE_CHECKING:
    from redislease.async_lease import AsyncLease
    from redislease.async_queue import AsyncQueue
    from redislease.lease import Lease
    from redislease.queue import Queue
    from redislease.task import BoundTask

P = ParamSpec("P")
R = TypeVar("R")


class TaskDecorator(Protocol):
    """Makes a `BoundTask` of a handler: its own parameters without the lease, and what it returns when awaited."""

    @overload
    def __call__(self, function: Callable[Concatenate[AsyncLease, P], Awaitable[R]]) -> BoundTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Lease, P], R]) -> BoundTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> BoundTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> BoundTask[P, R]: ...


class TaskRegistry(ABC):
    """The part of a queue that knows its handlers."""

    _tasks: dict[str, BoundTask[..., Any]]

    @abstractmethod
    def _as_sync(self) -> Queue:
        """This queue for threads."""

    @abstractmethod
    def _as_async(self) -> AsyncQueue:
        """This queue for the running event loop."""

    @property
    def handlers(self) -> dict[str, BoundTask[..., Any]]:
        """The handlers by name."""
        return dict(self._tasks)

    def task(self, *, name: str | None = None, **options: Unpack[EnqueueOptions]) -> TaskDecorator:
        """Makes a function the handler of a task.

        A `def` gets a `Lease` and runs in a thread, an `async def` an `AsyncLease`, whichever queue it is; the lease,
        if the handler wants it, is its first positional parameter, annotated.

        Args:
            name: What the task is called; the function's name by default.
            **options: As for `enqueue`; `side_effect` is required.

        Raises:
            ConfigurationError: The signature cannot be served, or the name is taken.
            InvalidInput: An option is not acceptable.
        """

        def decorate(function: Callable[..., Any]) -> BoundTask[..., Any]:
            return self.add_task(function, name=name, **options)

        return decorate  # type: ignore[return-value]

    @overload
    def add_task(
        self,
        function: Callable[Concatenate[AsyncLease, P], Awaitable[R]],
        *,
        name: str | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> BoundTask[P, R]: ...
    @overload
    def add_task(
        self,
        function: Callable[Concatenate[Lease, P], R],
        *,
        name: str | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> BoundTask[P, R]: ...
    @overload
    def add_task(
        self, function: Callable[P, Awaitable[R]], *, name: str | None = None, **options: Unpack[EnqueueOptions]
    ) -> BoundTask[P, R]: ...
    @overload
    def add_task(
        self, function: Callable[P, R], *, name: str | None = None, **options: Unpack[EnqueueOptions]
    ) -> BoundTask[P, R]: ...
    def add_task(
        self, function: Callable[..., Any], *, name: str | None = None, **options: Unpack[EnqueueOptions]
    ) -> BoundTask[..., Any]:
        """Makes a function that is defined elsewhere the handler of a task; see `task`.

        Raises:
            ConfigurationError: The signature cannot be served, or the name is taken.
            InvalidInput: An option is not acceptable.
        """
        from redislease.task import BoundTask

        called = validation.task_name(name or getattr(function, "__name__", ""))
        if called in self._tasks:
            raise ConfigurationError(f"there is a handler named {called!r} already")
        if "side_effect" not in options:
            raise ConfigurationError(f"{called}: say what it may do outside: side_effect=…")
        checked(request({"name": called, **options}))
        bound: BoundTask[..., Any] = BoundTask(self, called, function, options)  # type: ignore[arg-type]
        self._tasks[called] = bound
        return bound
