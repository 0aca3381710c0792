"""The timeline of the demonstration for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from redislease.demo.record import Event, Record

ACTOR_WIDTH = 10


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # Rich would end the program with 1, which means here that something was not refused.
        raise BrokenPipeError


class Timeline:
    """Prints events as they happen, on standard output."""

    def __init__(self) -> None:
        self._console = _Console(highlight=False, emoji=False, soft_wrap=True)

    def begin(self, engine: str) -> None:
        """Says where it takes place."""
        self._console.print(Text.assemble("Server: ", (engine, "bold")))

    def heading(self, title: str) -> None:
        """Begins a scene."""
        self._console.print()
        self._console.print(Text(title, style="bold"))

    def show(self, event: Event) -> None:
        """Prints one event: when, who, what, and what was answered."""
        when = f"+{event.at_ms / 1000:.3f} s".rjust(10)
        line = Text.assemble(when, "  ", (event.actor.ljust(ACTOR_WIDTH), "cyan"), "  ", event.what)
        if event.answer:
            line.append(": ")
            if event.refusal and event.passed:
                line.append(f"refused, {event.answer}", style="yellow")
            else:
                line.append(event.answer, style="green" if event.passed else "bold red")
        if not event.passed:
            line.append(f"   WRONG, expected {event.expected}", style="bold red")
        self._console.print(line)

    def end(self, record: Record, problem: str) -> None:
        """Prints the verdict."""
        console = self._console
        console.print()
        for event in record.failures:
            console.print(Text(f"WRONG: {event.fault}", style="bold red"))
        if problem:
            console.print(Text(problem, style="bold red"))
        elif not record.failures:
            refusals = len(record.refusals)
            others = len(record.checks) - refusals
            text = f"All {refusals} refusals happened, each for its reason; {others} other checks passed"
            console.print(Text(f"{text} ({record.elapsed_s:.1f} s).", style="bold green"))
