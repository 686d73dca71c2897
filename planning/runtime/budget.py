"""A hard budget for a fleet: several shedder processes draw from one ledger.

The ledger is a bucket of tokens in a small memory-mapped file. Every offered item adds z tokens,
every kept item takes one, and at most ``slack`` unused ones are saved up. A shedder draws before it
decides, and gives back what its plan did not use. So over any stretch of the fleet's stream, the
items that pass are at most z times those offered, plus ``slack``; since the start, at most
floor(z * offered) + slack. Where a family sheds parts of items, read units for items.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from planning.errors import InvalidInput, StoreError, check_between

MAGIC = b"HGBUDGT1"
# Offered, kept, tokens (low and high half). Two slots: one is in force, the other is being written.
SLOT = struct.Struct("<QQQQ")
ACTIVE = len(MAGIC)
FIRST = 16
SIZE = FIRST + 2 * SLOT.size
TOKEN = 1 << 62  # tokens are integers: the arithmetic is exact for every float z
HALF = 1 << 64


@dataclass(frozen=True, slots=True)
class Totals:
    """What the whole fleet has been offered and has kept."""

    offered: int
    kept: int


class SharedBudget:
    """One process's access to the fleet's ledger; for use by one thread.

    Drawing never waits longer than ``patience_s`` for another process. If the ledger is busy for
    longer, the process carries on with the tokens of its own items, which keeps the promise, and
    settles at its next draw.

    Parameters
    ----------
    path
        The ledger, on a local file system; created on first use.
    slack
        Tokens that may be saved up for bursts of wanted items.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SharedBudget(f"{folder}/ledger", slack=1) as budget:
    ...         budget.take(10, wanted=10, z=0.5), budget.take(10, wanted=2, z=0.5)
    (6, 2)
    """

    def __init__(
        self, path: str | os.PathLike[str], *, slack: int = 1000, patience_s: float = 0.001
    ) -> None:
        if slack < 0:
            raise InvalidInput(f"slack must be at least 0, got {slack}")
        self.path = Path(path)
        self.slack = slack
        self.patience_s = patience_s
        self.busy = 0
        self._own = [0, 0, 0]  # offered, kept and tokens that the ledger does not have yet
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._ledger = self._open()
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be used as a budget ledger ({error}); name a file in a "
                "writable local folder"
            ) from None

    def take(self, offered: int, wanted: int, z: float) -> int:
        """Account for ``offered`` items of which ``wanted`` should pass; return how many may."""
        check_between("z", z, 0.0, 1.0)
        own = self._own
        own[0] += offered
        own[2] += int(z * TOKEN) * offered
        if not self._lock():
            self.busy += 1
            granted = max(0, min(wanted, own[2] // TOKEN))
            own[1] += granted
            own[2] -= granted * TOKEN
            return granted
        try:
            known_offered, kept, tokens = self._read()
            granted = max(0, min(wanted, (tokens + own[2]) // TOKEN))
            self._settle(known_offered, kept + granted, tokens + own[2] - granted * TOKEN)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return granted

    def give_back(self, unused: int) -> None:
        """Return part of what was granted: it did not pass after all.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with SharedBudget(f"{folder}/ledger", slack=0) as budget:
        ...         budget.take(10, wanted=10, z=0.5), budget.give_back(1), budget.totals().kept
        (5, None, 4)
        """
        own = self._own
        own[1] -= unused
        own[2] += unused * TOKEN
        if unused and self._lock():
            try:
                offered, kept, tokens = self._read()
                self._settle(offered, kept, tokens + own[2])
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def totals(self) -> Totals:
        """Return the fleet's totals, as far as they are settled."""
        fcntl.flock(self._file, fcntl.LOCK_SH)
        try:
            offered, kept, _ = self._read()
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return Totals(offered, kept)

    def close(self) -> None:
        """Close the file; the ledger stays."""
        self._ledger.close()
        os.close(self._file)

    def __enter__(self) -> SharedBudget:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> mmap.mmap:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        if os.fstat(self._file).st_size == 0:
            tokens = self.slack * TOKEN
            first = SLOT.pack(0, 0, tokens % HALF, tokens // HALF)
            os.pwrite(self._file, MAGIC.ljust(FIRST, b"\0") + first + bytes(SLOT.size), 0)
        start = os.pread(self._file, len(MAGIC), 0)
        if start != MAGIC or os.fstat(self._file).st_size != SIZE:
            os.close(self._file)
            raise InvalidInput(
                f"{self.path} must be a budget ledger, got a file that starts with {start!r}; "
                "name another file, or delete it if it is a damaged ledger"
            )
        ledger = mmap.mmap(self._file, SIZE)
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return ledger

    def _lock(self) -> bool:
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0)

    def _settle(self, offered: int, kept: int, tokens: int) -> None:
        """Enter this process's own items; ``tokens`` include them already."""
        # A slack of 0 still keeps a fraction of a token, else small batches would never add up.
        left = min(tokens, max(self.slack, 1) * TOKEN)
        self._write(offered + self._own[0], kept + self._own[1], left)
        self._own = [0, 0, 0]

    def _read(self) -> tuple[int, int, int]:
        at = FIRST + SLOT.size * self._ledger[ACTIVE]
        offered, kept, low, high = SLOT.unpack_from(self._ledger, at)
        return offered, kept, low + high * HALF

    def _write(self, offered: int, kept: int, tokens: int) -> None:
        """Write the spare slot, then make it active: a killed writer leaves the old state."""
        spare = 1 - self._ledger[ACTIVE]
        SLOT.pack_into(
            self._ledger, FIRST + SLOT.size * spare, offered, kept, tokens % HALF, tokens // HALF
        )
        self._ledger[ACTIVE] = spare
