"""Everything that may happen in the explored world: importing a module puts its actions into the table."""

from . import claiming, deciding, effects, enqueuing, faults, holding, sweeping, time
from .action import ACTIONS, Action, Caller

__all__ = [
    "ACTIONS",
    "Action",
    "Caller",
    "claiming",
    "deciding",
    "effects",
    "enqueuing",
    "faults",
    "holding",
    "sweeping",
    "time",
]
