"""The worker process: claims tasks, runs their handlers, keeps their leases alive, settles them."""

from redislease.worker.context import current_lease
from redislease.worker.worker import Worker

__all__ = ["Worker", "current_lease"]
