"""The worker process: claims tasks, runs their handlers, keeps their leases alive, settles them."""

from redislease.worker.context import WorkerContext, current_context, current_lease
from redislease.worker.worker import Worker

__all__ = ["Worker", "WorkerContext", "current_context", "current_lease"]
