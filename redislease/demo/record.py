"""What happened in the demonstration, and whether it was what had to happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the timeline. With `expected` it is a check.

    Attributes:
        at_ms: Milliseconds since the demonstration began, by this machine's clock.
        actor: Who acted.
        what: What they did or tried.
        answer: What the server or the resource answered: `accepted`, the reason of a refusal, or a state of things.
        expected: What it had to answer.
        refusal: Whether it had to be refused, for the reason in `expected`.
    """

    at_ms: int
    actor: str
    what: str
    answer: str = ""
    expected: str | None = None
    refusal: bool = False

    @property
    def passed(self) -> bool:
        """Whether it was answered as expected; an event that is no check always was."""
        return self.expected is None or self.answer == self.expected

    @property
    def name(self) -> str:
        """Who did what."""
        return f"{self.actor}: {self.what}"

    @property
    def fault(self) -> str:
        """What is wrong with the answer, in a sentence."""
        if self.refusal and self.answer == ACCEPTED:
            return f"{self.name} was not refused; it had to be, as {self.expected}"
        expected = f"refused as {self.expected}" if self.refusal else self.expected
        return f"{self.name} was answered {self.answer}; expected: {expected}"

    def as_data(self) -> dict[str, Any]:
        """The event for `--json`."""
        data: dict[str, Any] = {"at_ms": self.at_ms, "actor": self.actor, "what": self.what}
        if self.answer:
            data["answer"] = self.answer
        return data

    def as_check(self) -> dict[str, Any]:
        """The check for `--json`."""
        return {
            "name": self.name,
            "kind": "refusal" if self.refusal else "acceptance" if self.expected == ACCEPTED else "state",
            "expected": self.expected,
            "actual": self.answer,
            "passed": self.passed,
        }


@dataclass(slots=True)
class Record:
    """The timeline.

    Attributes:
        listener: Is told of each event as it happens.
        heading: Is told when an act begins.
    """

    listener: Callable[[Event], object] = lambda event: None
    heading: Callable[[str], object] = lambda title: None
    events: list[Event] = field(default_factory=list)
    _started_s: float = field(default_factory=time.monotonic)

    @property
    def checks(self) -> list[Event]:
        """The events that had to have a certain answer."""
        return [event for event in self.events if event.expected is not None]

    @property
    def refusals(self) -> list[Event]:
        """The events that had to be refused."""
        return [event for event in self.events if event.refusal]

    @property
    def failures(self) -> list[Event]:
        """The checks that were answered otherwise."""
        return [event for event in self.checks if not event.passed]

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started_s

    def note(self, actor: str, what: str, answer: str = "") -> None:
        """Writes down what happened."""
        self._add(actor, what, answer)

    def accepted(self, actor: str, what: str, answer: str) -> None:
        """Writes down the answer to what had to be accepted."""
        self._add(actor, what, answer, ACCEPTED)

    def refused(self, actor: str, what: str, answer: str, *, reason: str) -> None:
        """Writes down the answer to what had to be refused for a reason."""
        self._add(actor, what, answer, reason, refusal=True)

    def seen(self, actor: str, what: str, actual: object, *, expected: object) -> None:
        """Writes down a state of things, and what it had to be."""
        self._add(actor, what, str(actual), str(expected))

    def _add(self, actor: str, what: str, answer: str, expected: str | None = None, *, refusal: bool = False) -> None:
        event = Event(round(self.elapsed_s * 1000), actor, what, answer, expected, refusal)
        self.events.append(event)
        self.listener(event)
