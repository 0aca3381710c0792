"""One invocation of the program: what its options say, and the queue that they name."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from redislease.cli import output
from redislease.errors import ConfigurationError, InvalidInput
from redislease.keys import DEFAULT_PREFIX
from redislease.scripts import Arg

if TYPE_CHECKING:
    from redislease.flow import Flow
    from redislease.models import Stats
    from redislease.queue import Queue

PATIENCE_S = 5.0


class Session:
    """The options that every verb shares.

    Attributes:
        queue_name: `--queue`.
        url: `--url`; None leaves it to the library.
        prefix: `--prefix`.
        format: `text`, `json` or `jsonl`.
        by: `--by`; None leaves it to the environment.
        reason: `--reason`.
        timeout_s: Seconds for which a server that cannot be reached is tried.
    """

    def __init__(self) -> None:
        self.queue_name: str | None = None
        self.url: str | None = None
        self.prefix = DEFAULT_PREFIX
        self.format = "text"
        self.by: str | None = None
        self.reason = ""
        self.timeout_s = PATIENCE_S

    @cached_property
    def queue(self) -> Queue:
        """The queue, opened on first use.

        Raises:
            click.UsageError: No queue was named.
        """
        from redislease.queue import Queue

        if not self.queue_name:
            raise click.UsageError("which queue? Type --queue NAME, or set REDISLEASE_QUEUE")
        return Queue(self.queue_name, redis_url=self.server, prefix=self.prefix, retry_for_s=self.timeout_s)

    @property
    def server(self) -> str:
        """The URL of the server, which others can reach too.

        Raises:
            ConfigurationError: It is a server inside a process, and that process is not this one. A verb would work on
                an empty server, and lose at its end what it stored there.
        """
        from redislease.connection.memory import has_memory_server
        from redislease.connection.urls import default_url, parse_url

        url = self.url or default_url()
        parsed = parse_url(url)
        if parsed.scheme == "memory" and not has_memory_server(parsed.target):
            raise ConfigurationError(
                f"{url} is inside the process that opened it and ends with it; a command of its own needs a server "
                "that others reach, such as redis://HOST:PORT/DB, unix:///PATH or embedded:///DIRECTORY"
            )
        return url

    def adopt_queue(self, name: str) -> None:
        """Takes the queue of a lease when none was named.

        Raises:
            InvalidInput: The lease is of another queue.
        """
        if not self.queue_name:
            self.queue_name = name
        elif self.queue_name != name:
            raise InvalidInput(f"the lease is of queue {name!r}, not {self.queue_name!r}")

    def close(self) -> None:
        """Closes what was opened."""
        if "queue" in self.__dict__:
            self.queue.close()

    @property
    def operator(self) -> str:
        """Who decides: `--by`, else `REDISLEASE_BY`, else the user of the operating system.

        Raises:
            ConfigurationError: Nobody can be named.
        """
        if self.by is not None:
            return self.by
        import getpass

        try:
            return getpass.getuser()
        except (OSError, KeyError, ImportError):
            raise ConfigurationError("who decides? Type --by NAME, or set REDISLEASE_BY") from None

    def nothing_ready(self, stats: Stats) -> str:
        """What to say when a claim found nothing; a name that nobody ever stored a task under may be a slip."""
        hint = "" if stats.counters.get("enqueued") else ", and nothing was ever enqueued there"
        return f"nothing is ready in queue {self.queue_name}{hint}"

    def read(self, *commands: tuple[Arg, ...]) -> list[Any]:
        """The raw replies of plain read commands."""
        from redislease.flow import Read

        def reading() -> Flow[list[Any]]:
            replies: list[Any] = yield Read(list(commands))
            return replies

        return self.queue._drive(reading())

    def answer(self, value: Any, people: Callable[[], str]) -> None:
        """Prints an answer: as JSON, a list as JSON Lines, or as `people` puts it."""
        if self.format == "json":
            output.write(output.document(value))
        elif self.format == "jsonl":
            output.write_lines(output.document(item) for item in (value if isinstance(value, list) else [value]))
        elif text := people():
            output.write(text)

    def command(self, *words: str) -> str:
        """A command line of this program about this queue, ready to be typed."""
        import shlex

        shared = ["-q", self.queue_name or "QUEUE"]
        if self.prefix != DEFAULT_PREFIX:
            shared += ["--prefix", self.prefix]
        if self.url and self.url != os.environ.get("REDISLEASE_URL"):
            shared += ["--url", "URL"]
        return " ".join(["redislease", *(shlex.quote(word) for word in (*words, *shared))])
