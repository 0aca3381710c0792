"""The reaper process: recovers expired leases, promotes due tasks, deletes what has outlived its retention."""

from redislease.reaper.reaper import Reaper
from redislease.reaper.retention import Retention

__all__ = ["Reaper", "Retention"]
