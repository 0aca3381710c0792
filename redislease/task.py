"""A handler with a name: what `@queue.task` makes of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack

from redislease.backoff import Backoff
from redislease.commands.enqueue import EnqueueOptions, Seconds, request
from redislease.commands.enqueue import item as checked
from redislease.flows import waiting
from redislease.models import Conflict, Enqueued, SideEffect, Task
from redislease.signature import Signature

if TYPE_CHECKING:
    from redislease.async_queue import AsyncQueue
    from redislease.queue import Queue

P = ParamSpec("P")
R = TypeVar("R")


class TaskOptions(TypedDict, total=False):
    """What `options` takes: the attributes of `EnqueueRequest` but for name and payload."""

    side_effect: SideEffect | str
    records_effects: bool
    idempotency_key: str | None
    task_id: str | None
    priority: int
    delay: Seconds | None
    at: datetime | None
    lease_duration: Seconds | None
    max_attempts: int | None
    max_expirations: int | None
    max_runtime: Seconds | None
    max_same_error: int | None
    retry: Backoff | None
    credential: str | None


class BoundTask(Generic[P, R]):
    """A handler that can be enqueued by calling `enqueue` with its own arguments, the lease left out.

    Attributes:
        name: What it is called in the queue.
        function: The handler itself, which stays callable for tests.
        signature: What it takes.
        settings: The options of each task that is enqueued through it.
    """

    def __init__(
        self, queue: Queue | AsyncQueue, name: str, function: Callable[..., Any], settings: EnqueueOptions
    ) -> None:
        self.name = name
        self.function = function
        self.signature = Signature(function)
        self.settings = settings
        self._queue = queue

    def __repr__(self) -> str:
        return f"<task {self.name} of {self._queue.name}>"

    def options(self, **options: Unpack[TaskOptions]) -> BoundTask[P, R]:
        """A copy with other options, as `EnqueueRequest` describes them: `idempotency_key`, `delay`, `priority` …

        Raises:
            InvalidInput: An option is not acceptable, or there is none of that name.
        """
        checked(request({"name": self.name, **self.settings, **options}))
        copy: BoundTask[P, R] = BoundTask.__new__(BoundTask)
        copy.__dict__.update(self.__dict__)
        copy.settings = {**self.settings, **options}
        return copy

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Task:
        """Stores a task for this handler. Script: `enqueue`.

        Raises:
            PayloadInvalid: The arguments do not fit the handler, or cannot be stored.
            IdempotencyConflict: The idempotency key belongs to something else.
        """
        payload = self.signature.payload(args, kwargs)
        return self._queue._as_sync().enqueue(self.name, payload, **self.settings)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Task:
        """As `enqueue`, for asyncio. Script: `enqueue`."""
        payload = self.signature.payload(args, kwargs)
        return await self._queue._as_async().enqueue(self.name, payload, **self.settings)

    def enqueue_many(self, calls: Sequence[tuple[Any, ...] | dict[str, Any]]) -> list[Enqueued | Conflict]:
        """Stores many tasks, 500 in a round trip. Script: `enqueue`.

        Args:
            calls: The arguments of each: a tuple of positional ones, or a dict by name.
        """
        return self._queue._as_sync().enqueue_many(self._requests(calls))

    async def aenqueue_many(self, calls: Sequence[tuple[Any, ...] | dict[str, Any]]) -> list[Enqueued | Conflict]:
        """As `enqueue_many`, for asyncio. Script: `enqueue`."""
        return await self._queue._as_async().enqueue_many(self._requests(calls))

    def wait(self, task_id: str, timeout: Seconds | None = None) -> R:
        """The result of a task of this handler once it is completed, as the type that the handler returns.

        Args:
            task_id: The task.
            timeout: Seconds to wait; without it as long as it takes.

        Raises:
            TaskNotCompleted: It is dead or cancelled.
            TaskUnknown: There is no such task.
            WaitTimeout: It had not ended in time.
            PayloadInvalid: What is stored is not of that type.
        """
        queue = self._queue._as_sync()
        result: R = self.signature.result(queue._drive(waiting.result(queue._context, task_id, timeout)))
        return result

    async def await_result(self, task_id: str, timeout: Seconds | None = None) -> R:  # noqa: ASYNC109
        """As `wait`, for asyncio."""
        queue = self._queue._as_async()
        result: R = self.signature.result(await queue._drive(waiting.result(queue._context, task_id, timeout)))
        return result

    def _requests(self, calls: Sequence[tuple[Any, ...] | dict[str, Any]]) -> list[dict[str, Any]]:
        requests = []
        for call in calls:
            args, kwargs = ((), call) if isinstance(call, dict) else (call, {})
            requests.append({"name": self.name, "payload": self.signature.payload(args, kwargs), **self.settings})
        return requests
