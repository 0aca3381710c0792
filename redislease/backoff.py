"""How long a failed task waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from redislease import limits, validation
from redislease.errors import InvalidInput

_FORM = "BASE[:FACTOR[:CAP[:JITTER]]] in seconds"


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a failed task waits: `base * factor ** (failures - 1)`, at most `cap`, times a random share.

    Args:
        base_s: The first delay in seconds.
        factor: What each further failure multiplies it by.
        cap_s: The longest delay in seconds.
        jitter: The share that is drawn at random, 0 to 1; 0.5 means from half of the delay to all of it.
    """

    base_s: float = 1.0
    factor: float = 2.0
    cap_s: float = 600.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        validation.duration_ms(self.base_s, "base_s", low_ms=0, high_ms=limits.DELAY_MS_MAX)
        validation.duration_ms(self.cap_s, "cap_s", low_ms=0, high_ms=limits.DELAY_MS_MAX)
        for name, low, high in (("factor", 1.0, 100.0), ("jitter", 0.0, 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise InvalidInput(f"{name} must be from {low:g} to {high:g}, not {validation.shown(value)}")

    @classmethod
    def read(cls, value: Any) -> Backoff:
        """A backoff from outside: `BASE[:FACTOR[:CAP[:JITTER]]]`, or an object of the fields.

        Raises:
            InvalidInput: It is neither, or a value is out of range.
        """
        names = [one.name for one in fields(cls)]
        if isinstance(value, str):
            parts = value.split(":")
            try:
                numbers = [float(part) for part in parts]
            except ValueError:
                raise InvalidInput(f"retry: not a number in {validation.shown(value)}; it is {_FORM}") from None
            if len(numbers) > len(names):
                raise InvalidInput(f"retry: too many numbers in {validation.shown(value)}; it is {_FORM}")
            given: Mapping[Any, Any] = dict(zip(names, numbers, strict=False))
        elif isinstance(value, Mapping):
            given = value
        else:
            raise InvalidInput(f"retry must be {_FORM}, or an object of {', '.join(names)}")
        if unknown := [name for name in given if name not in names]:
            raise InvalidInput(f"retry: no such field: {validation.shown(unknown[0])}; there are {', '.join(names)}")
        try:
            return cls(**given)
        except InvalidInput as problem:
            raise InvalidInput(f"retry: {problem}") from None

    def delay_ms(self, failures: int, random: float) -> int:
        """The delay before the next attempt.

        Args:
            failures: How often the task has failed, this time included.
            random: A number from 0 to 1.
        """
        try:
            longest = min(self.base_s * self.factor ** (max(failures, 1) - 1), self.cap_s)
        except OverflowError:
            longest = self.cap_s
        return round(longest * (1 - self.jitter * random) * 1000)

    def encode(self) -> str:
        """The stored form; '' for the default, which is not stored."""
        if self == Backoff():
            return ""
        return f"{self.base_s:.10g}:{self.factor:.10g}:{self.cap_s:.10g}:{self.jitter:.10g}"

    @classmethod
    def decode(cls, stored: str) -> Backoff:
        """The opposite of `encode`."""
        return cls(*(float(part) for part in stored.split(":"))) if stored else cls()
