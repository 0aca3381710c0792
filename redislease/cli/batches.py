"""Many things in one run: JSON Lines in, one answer for each line out, one round trip for each portion."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Generic, Protocol, TypeVar

from redislease.cli import output
from redislease.cli.errors import ExitCode, describe, exit_code, message, worst
from redislease.cli.inputs import Line, chunks
from redislease.cli.session import Session
from redislease.errors import RedisLeaseError, ServerError

T = TypeVar("T")

Outcome = dict[str, Any] | RedisLeaseError
"""What became of one thing: an answer, or why it was refused."""


class Batch(ABC, Generic[T]):
    """One verb on many things.

    Attributes:
        portion: How many lines share a round trip.
    """

    portion = 100

    @abstractmethod
    def read(self, line: Mapping[str, Any]) -> T:
        """One thing from the fields of a line.

        Raises:
            RedisLeaseError: It is not acceptable.
        """

    @abstractmethod
    def carry_out(self, things: Sequence[T]) -> list[Outcome]:
        """Does it, in one round trip, and answers each thing in order."""

    def one(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Does it for a single thing.

        Raises:
            RedisLeaseError: It was refused.
        """
        outcome = self.carry_out([self.read(line)])[0]
        if isinstance(outcome, RedisLeaseError):
            raise outcome
        return outcome

    def outcomes(self, portion: Sequence[Line]) -> list[Outcome]:
        """The outcome of each line; a broken line does not stop the others."""
        outcomes: list[Outcome | None] = []
        things: list[T] = []
        for line in portion:
            try:
                if isinstance(line.value, RedisLeaseError):
                    raise line.value
                things.append(self.read(line.value))
                outcomes.append(None)
            except RedisLeaseError as problem:
                outcomes.append(problem)
        answers = iter(self.carry_out(things) if things else [])
        return [next(answers) if outcome is None else outcome for outcome in outcomes]


class _Advance(Protocol):
    def __call__(self, size: int) -> None: ...


def run(session: Session, batch: Batch[Any], source: IO[bytes]) -> ExitCode:
    """Carries out a stream of lines, and answers the exit code of them all."""
    tally: Counter[ExitCode] = Counter()
    with _progress_bar(source) as advance:
        for portion in chunks(source, batch.portion):
            try:
                outcomes = batch.outcomes(portion)
            except ServerError:
                output.complain(
                    f"stopped: lines {portion[0].number} to {portion[-1].number} may or may not be done, "
                    "those before are, those behind are not"
                )
                raise
            _tell(session, portion, outcomes)
            tally.update(ExitCode.DONE if isinstance(one, dict) else exit_code(one) for one in outcomes)
            advance(sum(line.size for line in portion))
    _summarize(session, tally)
    return worst(tally)


def _tell(session: Session, portion: Sequence[Line], outcomes: Sequence[Outcome]) -> None:
    answers = []
    for line, outcome in zip(portion, outcomes, strict=True):
        if isinstance(outcome, dict):
            answers.append({"line": line.number, **outcome})
        else:
            answers.append({"line": line.number, **describe(outcome)})
            output.complain(f"line {line.number}: {message(outcome)}")
    if session.format == "jsonl":
        output.write_lines(output.document(answer) for answer in answers)


def _summarize(session: Session, tally: Counter[ExitCode]) -> None:
    counts = {
        "lines": tally.total(),
        "done": tally[ExitCode.DONE],
        "lost": tally[ExitCode.LEASE_LOST],
        "refused": tally[ExitCode.REFUSED],
        "invalid": tally[ExitCode.USAGE],
    }
    if session.format == "json":
        output.write(output.document(counts))
    said = [f"{count:,} {what}" for what, count in counts.items() if what != "lines" and count]
    output.complain(f"{output.counted(counts['lines'], 'line')}: {', '.join(said) or 'nothing to do'}")


@contextmanager
def _progress_bar(source: IO[bytes]) -> Iterator[_Advance]:
    """A bar on standard error when that is a terminal which does not show the answers too."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=_size(source))
        yield lambda size: progress.advance(task, size)


def _size(source: IO[bytes]) -> int | None:
    """The bytes of a file; None for a pipe."""
    try:
        return os.fstat(source.fileno()).st_size or None
    except (OSError, ValueError):
        return None
