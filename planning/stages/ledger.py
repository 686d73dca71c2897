"""The ledger of landing files: which run used which file, so that none is counted twice.

A file is known by its content (SHA-256), so a copy under another name is recognised; path, size and
modification time only save reading known files again. One SQLite transaction decides, so two runs
at once never share a file, and a repeated run gets the files it had.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upath import UPath

from planning.errors import StoreError

Status = Literal["used", "set_aside", "duplicate"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS landed (
    stream TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, modified_ns INTEGER NOT NULL,
    digest TEXT NOT NULL, status TEXT NOT NULL, run TEXT NOT NULL, rows INTEGER NOT NULL,
    reason TEXT NOT NULL, position INTEGER PRIMARY KEY AUTOINCREMENT,
    UNIQUE (stream, path, size, modified_ns)
);
CREATE UNIQUE INDEX IF NOT EXISTS once ON landed (stream, digest) WHERE status = 'used';
CREATE INDEX IF NOT EXISTS by_run ON landed (stream, run);
"""
COLUMNS = "path, size, modified_ns, digest, status, run, rows, reason"


@dataclass(frozen=True, slots=True)
class LandedFile:
    """One file of the landing folder, as it was when it was looked at.

    Examples
    --------
    >>> file = LandedFile("ticks.parquet", size=10, modified_ns=1, digest="e3b0", rows=2)
    >>> file.status, file.run
    ('used', '')
    """

    path: str
    size: int
    modified_ns: int
    digest: str
    status: Status = "used"
    run: str = ""
    rows: int = 0
    reason: str = ""


class Ledger:
    """The landing files of all streams of one installation.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/ledger.sqlite")
    ...     first = ledger.claim("ticks", "run-1", [LandedFile("a.parquet", 10, 1, "e3b0")])
    ...     copied = ledger.claim("ticks", "run-2", [LandedFile("copy.parquet", 10, 2, "e3b0")])
    >>> [file.status for file in first + copied], copied[0].reason
    (['used', 'duplicate'], 'same content as a.parquet')
    """

    def __init__(self, path: str | UPath) -> None:
        location = UPath(path)
        if location.protocol not in ("", "file"):
            raise StoreError(
                f"the ledger must lie on a local disk, got {path}; set HEADGATE_HOME to a local "
                "folder and name object storage in the definitions' samples.landing instead"
            )
        self._path = Path(str(location.absolute()))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._transaction() as connection:
                for statement in SCHEMA.split(";\n"):
                    connection.execute(statement)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"the ledger {self._path} cannot be opened ({error}); check that its folder exists "
                "and is writable, or set HEADGATE_HOME to one that is"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=60, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()

    def of_run(self, stream: str, run: str) -> list[LandedFile]:
        """Return the files that a run used or set aside, in the order it took them."""
        with self._transaction() as connection:
            return _of_run(connection, stream, run)

    def known(self, stream: str) -> dict[tuple[str, int, int], LandedFile]:
        """Return every file looked at so far, by path, size and modification time."""
        with self._transaction() as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM landed WHERE stream = ?", (stream,))
            files = [LandedFile(*row) for row in rows]
        return {(f.path, f.size, f.modified_ns): f for f in files}

    def last_run(self, stream: str) -> str | None:
        """Return the id of the last run that used a file, if any."""
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT run FROM landed WHERE stream = ? AND status = 'used'"
                " ORDER BY position DESC LIMIT 1",
                (stream,),
            ).fetchone()
        return None if row is None else str(row[0])

    def claim(
        self, stream: str, run: str, files: list[LandedFile], *, keep: bool = True
    ) -> list[LandedFile]:
        """Record ``files`` for ``run`` and return what the run now has.

        Content that any run used already is recorded as a duplicate. A run that has claimed before
        keeps what it had and gets nothing new. Without ``keep`` nothing stays recorded: the answer
        is what the run would have got.
        """
        with self._transaction() as connection:
            had = _of_run(connection, stream, run)
            if had:
                return had
            connection.execute("SAVEPOINT claim")
            for file in files:
                used = connection.execute(
                    "SELECT path FROM landed WHERE stream = ? AND digest = ? AND status = 'used'",
                    (stream, file.digest),
                ).fetchone()
                duplicate = file.status == "used" and used is not None
                status = "duplicate" if duplicate else file.status
                reason = f"same content as {used[0]}" if duplicate else file.reason
                connection.execute(
                    "INSERT OR IGNORE INTO landed"
                    " (stream, path, size, modified_ns, digest, status, run, rows, reason)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (stream, file.path, file.size, file.modified_ns, file.digest, status, run,
                     file.rows, reason),
                )
            claimed = _of_run(connection, stream, run)
            if not keep:
                connection.execute("ROLLBACK TO claim")
            return claimed


def _of_run(connection: sqlite3.Connection, stream: str, run: str) -> list[LandedFile]:
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM landed WHERE stream = ? AND run = ? ORDER BY position",
        (stream, run),
    )
    return [LandedFile(*row) for row in rows]
