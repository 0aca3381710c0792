"""redislease: a lease queue on Redis for work with consequences."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redislease.async_effect import AsyncEffect
    from redislease.async_lease import AsyncLease
    from redislease.async_queue import AsyncQueue
    from redislease.backoff import Backoff
    from redislease.commands.enqueue import EnqueueRequest
    from redislease.effect import Effect
    from redislease.errors import (
        AmbiguousEffect,
        ConfigurationError,
        EffectAlreadyDone,
        EffectConflict,
        EffectError,
        EffectNotRecorded,
        EffectReused,
        IdempotencyConflict,
        InvalidInput,
        LayoutMismatch,
        LeaseEnded,
        LeaseLost,
        NotAllowedNow,
        NotDone,
        NotReplicated,
        OutcomeNotStored,
        PayloadInvalid,
        PayloadTooLarge,
        PermissionDenied,
        QueueExhausted,
        QueuePaused,
        RedisLeaseError,
        ServerError,
        ServerLoading,
        ServerOutOfMemory,
        ServerReadOnly,
        ServerUnavailable,
        TaskConflict,
        TaskNotCompleted,
        TaskUnknown,
        TooManyEffects,
        WaitTimeout,
        WorkerUnknown,
    )
    from redislease.lease import Lease
    from redislease.models import (
        Conflict,
        Decided,
        Done,
        Enqueued,
        Lost,
        Owner,
        Renewed,
        Settled,
        SideEffect,
        Stats,
        Status,
        Task,
        TaskDetail,
    )
    from redislease.queue import Queue
    from redislease.task import BoundTask
    from redislease.worker import Worker, WorkerContext, current_context, current_lease

__all__ = [
    "AmbiguousEffect",
    "AsyncEffect",
    "AsyncLease",
    "AsyncQueue",
    "Backoff",
    "BoundTask",
    "ConfigurationError",
    "Conflict",
    "Decided",
    "Done",
    "Effect",
    "EffectAlreadyDone",
    "EffectConflict",
    "EffectError",
    "EffectNotRecorded",
    "EffectReused",
    "EnqueueRequest",
    "Enqueued",
    "IdempotencyConflict",
    "InvalidInput",
    "LayoutMismatch",
    "Lease",
    "LeaseEnded",
    "LeaseLost",
    "Lost",
    "NotAllowedNow",
    "NotDone",
    "NotReplicated",
    "OutcomeNotStored",
    "Owner",
    "PayloadInvalid",
    "PayloadTooLarge",
    "PermissionDenied",
    "Queue",
    "QueueExhausted",
    "QueuePaused",
    "RedisLeaseError",
    "Renewed",
    "ServerError",
    "ServerLoading",
    "ServerOutOfMemory",
    "ServerReadOnly",
    "ServerUnavailable",
    "Settled",
    "SideEffect",
    "Stats",
    "Status",
    "Task",
    "TaskConflict",
    "TaskDetail",
    "TaskNotCompleted",
    "TaskUnknown",
    "TooManyEffects",
    "WaitTimeout",
    "Worker",
    "WorkerContext",
    "WorkerUnknown",
    "current_context",
    "current_lease",
]

# Where the names above live, cheap modules first: what only wants an error, or `redislease --help`, does not pay for
# the rest.
_MODULES = (
    "errors",
    "models",
    "backoff",
    "commands.enqueue",
    "effect",
    "lease",
    "queue",
    "async_effect",
    "async_lease",
    "async_queue",
    "task",
    "worker",
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            for module in _MODULES:
                found = vars(import_module(f"{__name__}.{module}"))
                if name in found:
                    globals()[name] = found[name]
                    return found[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
