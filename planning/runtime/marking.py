"""Monitoring samples: which items are marked, and how they reach the landing folder.

Marked items bypass the filter, so the samples show the stream as it is and not as it was shed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from planning.arrays import BoolArray
from planning.artifacts.acknowledgement import check_node
from planning.errors import InvalidInput, StoreError, check_between
from planning.pacing import ONE, Pacer


class SampleMarker:
    """Marks items at regular intervals; ``seed`` shifts them, so that nodes do not mark in step.

    Examples
    --------
    >>> int(SampleMarker(0.01, seed=7).mark(10_000).sum())
    100
    """

    def __init__(self, sampling_fraction: float, seed: int = 0) -> None:
        self.sampling_fraction = check_between("sampling_fraction", sampling_fraction, 0.0, 1.0)
        digest = hashlib.sha256(str(seed).encode()).digest()
        self._pacer = Pacer(sampling_fraction, int.from_bytes(digest[:4], "big") % ONE)

    def mark(self, count: int) -> BoolArray:
        """Return which of the next ``count`` items are marked."""
        return self._pacer.next(count)

    def share(self, load: float) -> float:
        """Charge the marks to the load first; return the load that is left for other items.

        Marks never exceed the load: with less of it than the sampling fraction, fewer are made.

        >>> marker = SampleMarker(0.1)
        >>> round(marker.share(0.55), 9)
        0.5
        >>> marker.share(0.05)  # every second mark is left out
        0.0
        """
        fraction = self._pacer.fraction = min(self.sampling_fraction, load)
        return (load - fraction) / (1.0 - fraction) if fraction < 1.0 else 1.0

    def mark_one(self) -> bool:
        """Return whether the next item is marked."""
        return self._pacer.next_one()


class SampleWriter:
    """Collects marked items and lands them as files that appear whole or not at all.

    ``add`` only appends to memory, so it may be called on the data path; :meth:`roll` does the
    I/O and belongs to another thread. Beyond ``max_buffered`` items, further ones are counted as
    ``lost`` instead of filling the memory.

    Parameters
    ----------
    folder
        The landing folder, local.
    node
        Part of the file names, so that nodes may share a folder.
    format
        ``parquet`` (needs pyarrow), ``jsonl``, or None for the best one available here.
    max_items, max_age_s
        A file is due when it has that many items, or when its first item is that old.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as landing:
    ...     writer = SampleWriter(landing, node="edge-7", format="jsonl", max_items=2)
    ...     writer.add({"price": [12.5, 80.0], "volume": [700, 40]}, now_s=0.0)
    ...     [path.read_text().split() for path in writer.roll(now_s=1.0)]
    [['{"price":12.5,"volume":700}', '{"price":80.0,"volume":40}']]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        node: str,
        format: Literal["parquet", "jsonl"] | None = None,
        max_items: int = 10_000,
        max_age_s: float = 60.0,
        max_buffered: int = 100_000,
    ) -> None:
        if max_items < 1 or max_buffered < max_items or not max_age_s > 0:
            raise InvalidInput(
                "max_items must be at least 1, max_buffered at least max_items and max_age_s "
                f"positive, got {max_items}, {max_buffered} and {max_age_s}"
            )
        has_arrow = importlib.util.find_spec("pyarrow") is not None
        self.format = format or ("parquet" if has_arrow else "jsonl")
        self.folder = Path(folder)
        self.node = check_node(node)
        self.max_items = max_items
        self.max_age_s = max_age_s
        self.max_buffered = max_buffered
        self.landed = 0
        self.lost = 0
        self._rows: list[Mapping[str, Any]] = []
        self._first_s = 0.0
        self._lock = threading.Lock()

    def add(self, items: Mapping[str, Any] | Sequence[Mapping[str, Any]], now_s: float) -> None:
        """Take marked items: columns by name, or a sequence of records."""
        rows = _records(items)
        with self._lock:
            free = self.max_buffered - len(self._rows)
            if rows and not self._rows:
                self._first_s = now_s
            self._rows.extend(rows[:free])
            self.lost += len(rows) - len(rows[:free])

    def due(self, now_s: float) -> bool:
        """Whether a file should be written."""
        with self._lock:
            aged = bool(self._rows) and now_s - self._first_s >= self.max_age_s
            return aged or len(self._rows) >= self.max_items

    def roll(self, now_s: float, *, force: bool = False) -> list[Path]:
        """Write what is due (everything with ``force``) and return the new files."""
        written = []
        while self.due(now_s) or (force and self._rows):
            with self._lock:
                rows, self._rows = self._rows[: self.max_items], self._rows[self.max_items :]
                first_s, self._first_s = self._first_s, now_s
            try:
                written.append(self._land(rows, first_s))
            except OSError as error:
                with self._lock:
                    self._rows, self._first_s = rows + self._rows, first_s
                raise StoreError(
                    f"{self.folder} cannot take samples ({error}); they are kept in memory; check "
                    "that the folder is writable and has space left"
                ) from None
            self.landed += len(rows)
        return written

    def _land(self, rows: list[Mapping[str, Any]], first_s: float) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = f"{self.node}-{os.getpid()}-{int(first_s * 1e6)}-{self.landed}"
        path = self.folder / f"{stem}.{self.format}"
        part = self.folder / f".{stem}.part"
        try:
            if self.format == "parquet":
                _write_parquet(rows, part)
            else:
                part.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.rename(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return path


def _records(items: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if not isinstance(items, Mapping):
        return list(items)
    columns = [np.asarray(column).tolist() for column in items.values()]
    return [dict(zip(items, values, strict=True)) for values in zip(*columns, strict=True)]


def _write_parquet(rows: list[Mapping[str, Any]], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path)
