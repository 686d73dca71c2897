"""Monitoring samples: which items are marked, and how they reach the landing folder.

Marked items bypass the filter, so the samples show the stream as it is and not as it was shed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import math
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from planning import batches
from planning.arrays import BoolArray
from planning.artifacts.status import check_node
from planning.errors import InvalidInput, StoreError, check_between
from planning.pacing import ONE, Pacer
from planning.runtime import metrics

EXACT = 1 << 53  # whole numbers up to here are exact as floats
FILES = itertools.count()  # so that writers in one process never share a name
Row = dict[str, Any]


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

    @property
    def fraction(self) -> float:
        """The fraction that is marked at the load in force."""
        return self._pacer.fraction

    @property
    def ahead(self) -> int:
        """How many items come before the next one that is marked.

        >>> marker = SampleMarker(0.25)
        >>> marker.mark(marker.ahead).any(), marker.mark_one()
        (np.False_, True)
        """
        return self._pacer.ahead

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

    ``add`` only appends to memory and never raises, so it may be called on the data path;
    :meth:`roll` does the I/O and belongs to another thread, which :meth:`start` provides. Every
    item added is buffered, landed, or counted as lost: ``added = landed + lost + buffered``.
    ``lost_by`` says how many were lost to what, ``last_error`` what went wrong last. If a file
    cannot be written, its items stay in memory, up to ``max_buffered``.

    A column in which a file has values of different types is written as text. So the validation
    stage reads its numbers as numbers again, and quarantines only the rows that are wrong; with
    one file per type, a file of wrong rows could be refused as a whole, and null would stand for a
    wrong value like a missing one. Bytes, decimals and nested values are text in every file, times
    are UTC. An item that has no such form is lost alone.

    Parameters
    ----------
    folder
        The landing folder, local.
    node
        Part of the file names, so that nodes may share a folder.
    format
        ``parquet`` (needs pyarrow), ``jsonl``, or None for the best one available here.
    columns
        Names for items that are rows by position.
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
        columns: Sequence[str] = (),
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
        self.columns = tuple(columns)
        self.max_items = max_items
        self.max_age_s = max_age_s
        self.max_buffered = max_buffered
        self.landed = 0
        self.lost_by = dict.fromkeys(("unreadable", "buffer full", "not encodable"), 0)
        self.last_error = ""
        self._rows: list[Any] = []
        self._first_s = 0.0
        self._lock = threading.Lock()
        self._rolling = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        metrics.watch_samples(self)

    @property
    def lost(self) -> int:
        """Items that will never land."""
        return sum(self.lost_by.values())

    @property
    def buffered(self) -> int:
        """Items that are in memory."""
        return len(self._rows)

    def add(self, items: Any, now_s: float) -> None:
        """Take marked items in any form that a shedder takes; ``now_s`` is Unix time."""
        try:
            rows = _rows_of(items)
            if not math.isfinite(now_s):
                raise InvalidInput(f"now_s must be a time, got {now_s}")
        except Exception as error:
            with self._lock:
                self._lose("unreadable", max(batches.size(items), 1), error)
            return
        with self._lock:
            free = self.max_buffered - len(self._rows)
            if rows and not self._rows:
                self._first_s = now_s
            self._rows.extend(rows[:free])
            if len(rows) > free:
                self._lose("buffer full", len(rows) - free)

    def due(self, now_s: float) -> bool:
        """Whether a file should be written."""
        with self._lock:
            aged = bool(self._rows) and now_s - self._first_s >= self.max_age_s
            return aged or len(self._rows) >= self.max_items

    def roll(self, now_s: float, *, force: bool = False) -> list[Path]:
        """Write what is due (everything with ``force``) and return the new files."""
        written = []
        with self._rolling:
            while self.due(now_s) or (force and self._rows):
                rows = self._rows[: self.max_items]
                landed = 0
                try:
                    usable, wrong = _usable(rows, self.columns)
                    if usable:
                        written.append(self._land(usable))
                        landed = len(usable)
                except (OSError, MemoryError) as error:
                    self.last_error = f"cannot be written: {error!r}"
                    raise StoreError(
                        f"{self.folder} cannot take samples ({error}); they are kept in memory; "
                        "check that the folder is writable and has space left"
                    ) from None
                except Exception as error:
                    wrong = [error] * len(rows)
                with self._lock:
                    del self._rows[: len(rows)]
                    self._first_s = now_s
                    self.landed += landed
                    if wrong:
                        self._lose("not encodable", len(wrong), wrong[-1])
        return written

    def start(self, every_s: float = 1.0) -> None:
        """Write what is due from a thread of the writer's own, until :meth:`close`."""

        def run() -> None:
            while not self._closing.wait(every_s):
                with suppress(StoreError):  # tried again; meanwhile in last_error
                    self.roll(time.time())

        if self._thread is None:
            self._closing.clear()
            self._thread = threading.Thread(target=run, name="headgate-samples", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop the thread and land what is left."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.roll(time.time(), force=True)

    def _lose(self, reason: str, count: int, error: Exception | None = None) -> None:
        self.lost_by[reason] += count
        said = f": {type(error).__name__} {error}"[:200] if error else ""
        self.last_error = f"{count} lost, {reason}{said}"

    def _land(self, rows: list[Row]) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = f"{self.node}-{os.getpid()}-{int(self._first_s * 1e6)}-{next(FILES):06}"
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


def _rows_of(items: Any) -> list[Any]:
    """Return items of any form one by one; they are looked into when they are written."""
    if isinstance(items, batches.Batch):
        items = items.columns
    if isinstance(items, np.ndarray) and items.dtype.names:
        items = {name: items[name] for name in items.dtype.names}
    if isinstance(items, Mapping):
        columns = [_values(column) for column in items.values()]
        return [dict(zip(items, values, strict=True)) for values in zip(*columns, strict=True)]
    source = batches.library(items)
    if source == "pandas":
        return list(items.to_dict("records"))
    if source in ("pyarrow", "polars"):
        return list(items.to_pylist() if source == "pyarrow" else items.to_dicts())
    if isinstance(items, batches.NO_ITEMS):
        raise TypeError(f"{type(items).__name__} is no batch of items")
    return list(items)


def _values(column: Any) -> Iterable[Any]:
    if isinstance(column, batches.NO_ITEMS):
        raise TypeError(f"{type(column).__name__} is no column")
    if isinstance(column, np.ndarray) and column.dtype.kind != "M":
        return column.tolist()  # type: ignore[no-any-return]
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def _usable(rows: list[Any], columns: Sequence[str]) -> tuple[list[Row], list[Exception]]:
    """Return the rows as they can be written, and why others cannot."""
    usable: list[Row] = []
    wrong: list[Exception] = []
    kinds: dict[str, set[str]] = {}
    for row in rows:
        try:
            plain = {str(_plain(n)): _plain(v) for n, v in _named(row, columns).items()}
            found = [(name, _kind(value)) for name, value in plain.items() if value is not None]
        except Exception as error:
            wrong.append(error)
            continue
        usable.append(plain)
        for name, kind in found:
            kinds.setdefault(name, set()).add(kind)
    for name, seen in kinds.items():
        if len(seen) > 1 and not (seen <= {"int", "wide"} or seen <= {"int", "float"}):
            for row in usable:
                if row.get(name) is not None:
                    row[name] = _text(row[name])
    return usable, wrong


def _named(row: Any, columns: Sequence[str]) -> Any:
    if hasattr(row, "_asdict"):
        row = row._asdict()
    if not isinstance(row, Mapping):
        lone = isinstance(row, str) or not hasattr(row, "__len__")
        row = dict(zip(columns, [row] if lone else row, strict=True))
    if not row:
        raise InvalidInput("an item must have columns, got none")
    return row


def _plain(value: Any) -> Any:
    """Return a value as null, a boolean, a number, a text, a date or a time; raise if it is none.

    >>> [_plain(x) for x in (np.float32(0.5), b"7", 2**70, [1, None])]
    [0.5, '7', '1180591620717411303424', '[1,null]']
    """
    if isinstance(value, (np.generic, np.ndarray)):
        if value.dtype.kind == "M":
            value = value.astype("M8[us]")  # finer ones would become whole numbers
        listed = value.tolist()
        return float(listed) if isinstance(listed, np.generic) else _plain(listed)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else str(int(value))
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, date):
        return value
    if not isinstance(value, (Mapping, list, tuple)):
        value = msgspec.to_builtins(value)
    if isinstance(value, (Mapping, list, tuple)):
        return msgspec.json.encode(value, enc_hook=_plain, order="deterministic").decode()
    return _plain(value)


def _kind(value: Any) -> str:
    if type(value) is int and abs(value) > EXACT:
        return "wide"
    return type(value).__name__


def _text(value: Any) -> str:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_parquet(rows: list[Row], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        empty = all(value is None for value in values)  # Spark reads no column without a type
        columns[name] = pyarrow.array(values, pyarrow.string() if empty else None)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
