"""The protected resource of the demonstration: a receiver that knows nothing of the queue but fencing tokens.

It stands for whatever a worker touches outside: a file store, a database, an API. It is not Redis on purpose. All that
it needs to keep a stale worker out is the highest token that it has seen, and one comparison.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


class StaleToken(Exception):
    """The resource has seen a newer token; nothing was written."""


class Ledger:
    """Named entries in an SQLite file, each written only under its highest token.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        """Makes the file."""
        with self._database() as database:
            database.execute("CREATE TABLE entry (name TEXT PRIMARY KEY, token INTEGER NOT NULL, text TEXT NOT NULL)")

    def write(self, name: str, token: int, text: str) -> None:
        """Writes an entry.

        Raises:
            StaleToken: Somebody with a higher token was here before.
        """
        with self._database() as database:
            # The lock is taken before the token is read, so that nobody comes in between.
            database.execute("BEGIN IMMEDIATE")
            highest, _ = _entry(database, name)
            if token < highest:
                raise StaleToken(f"token {token} is older than {highest}")
            database.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?)", (name, token, text))
            database.execute("COMMIT")

    def read(self, name: str) -> tuple[int, str]:
        """The highest token and the text of an entry; 0 and '' before the first write."""
        with self._database() as database:
            return _entry(database, name)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        # Closing it rolls an open transaction back.
        with closing(sqlite3.connect(self._path, timeout=5.0, isolation_level=None)) as database:
            yield database


def _entry(database: sqlite3.Connection, name: str) -> tuple[int, str]:
    row = database.execute("SELECT token, text FROM entry WHERE name = ?", (name,)).fetchone()
    return (int(row[0]), str(row[1])) if row else (0, "")
