"""What every flow of a queue knows."""

from __future__ import annotations

from dataclasses import dataclass

from redislease.identity import Identities
from redislease.keys import QueueKeys


@dataclass(frozen=True, slots=True)
class QueueContext:
    """A queue's name, keys and identities."""

    name: str
    keys: QueueKeys
    identities: Identities
