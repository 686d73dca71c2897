"""The real pairs of streams in ``shared/data/joins``: flights, and edits on Wikipedia."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planning.arrays import FloatArray
from planning.joins.engine import Access
from planning.joins.model import Condition, Tuples, Windows, from_arrays, single_values

MINUTE = 60.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class RealPair:
    """Two recorded streams and the join that is asked of them."""

    name: str
    left: Tuples
    right: Tuples
    windows: Windows
    condition: Condition
    access: Access

    def halves(self) -> tuple[tuple[Tuples, Tuples], tuple[Tuples, Tuples]]:
        """Split both streams at the middle of the time: to plan from, and to try on."""
        times = np.concatenate((self.left.time, self.right.time))
        middle = float(times.min() + times.max()) / 2
        early = (self.left.take(self.left.time < middle), self.right.take(self.right.time < middle))
        late = (self.left.take(self.left.time >= middle), self.right.take(self.right.time >= middle))
        return early, late


def flights(folder: Path) -> RealPair:
    """Departures and arrivals joined on the aircraft, within twelve hours."""
    left, right = _read(folder, "flights_departures"), _read(folder, "flights_arrivals")
    names = np.unique(np.concatenate([t.column("tail_number").to_numpy() for t in (left, right)]))
    parts = [
        single_values(_seconds(t), np.searchsorted(names, t.column("tail_number").to_numpy()))
        for t in (left, right)
    ]
    windows = Windows((12 * HOUR, 12 * HOUR), 30 * MINUTE)
    return RealPair("flights", parts[0], parts[1], windows, Condition("equality"), "hash")


def wiki_keywords(folder: Path) -> RealPair:
    """Edits of articles and of other pages joined on a common word of the title, within two hours."""
    left, right = _read(folder, "wiki_article_edits"), _read(folder, "wiki_other_edits")
    columns = [t.column("keywords").to_pylist() for t in (left, right)]
    words = {w: k for k, w in enumerate(sorted({w for rows in columns for row in rows for w in row}))}
    parts = []
    for table, rows in zip((left, right), columns, strict=True):
        sets = [sorted({words[w] for w in row}) for row in rows]
        first = np.concatenate(([0], np.cumsum([len(s) for s in sets])))
        items = np.array([a for s in sets for a in s], dtype=np.int64)
        parts.append(from_arrays(_seconds(table), first, items))
    windows = Windows((2 * HOUR, 2 * HOUR), 5 * MINUTE)
    return RealPair(
        "wiki keywords", parts[0], parts[1], windows, Condition("overlap", 1), "inverted"
    )


def wiki_users(folder: Path) -> RealPair:
    """The same edits joined on the user, within two hours."""
    left, right = _read(folder, "wiki_article_edits"), _read(folder, "wiki_other_edits")
    parts = [
        single_values(_seconds(t), t.column("user_id").to_numpy()) for t in (left, right)
    ]
    windows = Windows((2 * HOUR, 2 * HOUR), 5 * MINUTE)
    return RealPair("wiki users", parts[0], parts[1], windows, Condition("equality"), "hash")


def _read(folder: Path, name: str):  # type: ignore[no-untyped-def]
    import pyarrow.parquet as pq

    return pq.read_table(folder / "joins" / f"{name}.parquet")


def _seconds(table) -> FloatArray:  # type: ignore[no-untyped-def]
    moments = table.column("timestamp").to_numpy().astype("datetime64[ms]").astype(np.int64)
    return np.asarray(moments / 1000.0)
