"""An application whose import fails."""

from __future__ import annotations

queue = 1 / 0
