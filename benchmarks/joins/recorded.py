"""The real pairs of streams in ``shared/data/joins``: flights, and edits on Wikipedia."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.joins.definitions import MOST_ITEMS, pair_definition
from benchmarks.joins.workload import single_values
from planning.arrays import FloatArray
from planning.joins import planner
from planning.joins.engine import Access
from planning.joins.layout import Layout
from planning.joins.model import Condition, Tuples, Windows, from_arrays
from planning.joins.plan import Plan
from planning.joins.statistics import from_tuples

MINUTE = 60.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class RealPair:
    """Two recorded streams and how they are joined."""

    name: str
    left: Tuples
    right: Tuples
    windows: Windows
    condition: Condition
    access: Access

    def halves(self) -> tuple[tuple[Tuples, Tuples], tuple[Tuples, Tuples]]:
        """Split both streams at the midpoint in time: to plan from, and to test on."""
        times = np.concatenate((self.left.time, self.right.time))
        middle = float(times.min() + times.max()) / 2
        (a, c), (b, d) = (
            (part.take(part.time < middle), part.take(part.time >= middle))
            for part in (self.left, self.right)
        )
        return (a, b), (c, d)

    def shortened(self, share: float) -> RealPair:
        """Return the first part of the recording."""
        begin, end = float(self.left.time[0]), float(self.left.time[-1])
        limit = begin + share * (end - begin)
        left, right = (part.take(part.time < limit) for part in (self.left, self.right))
        return replace(self, left=left, right=right)

    def plan(self, streams: tuple[Tuples, Tuples], sizes: tuple[int, ...] = ()) -> Plan:
        """Return the plan made from a stretch of both streams."""
        definition = pair_definition(
            self.windows,
            self.condition,
            vocabulary=1 + int(max(self.left.items.max(), self.right.items.max())),
            items=1 if self.access == "hash" else MOST_ITEMS,
            sizes=sizes,
        )
        left, right = (Layout.of(definition).refine(part) for part in streams)
        return planner.plan(from_tuples(left, right, definition), definition)


def flights(folder: Path) -> RealPair:
    """Join departures and arrivals on the aircraft, within twelve hours."""
    left, right = _read(folder, "flights_departures"), _read(folder, "flights_arrivals")
    names = np.unique(np.concatenate([t.column("tail_number").to_numpy() for t in (left, right)]))
    parts = [
        single_values(_seconds(t), np.searchsorted(names, t.column("tail_number").to_numpy()))
        for t in (left, right)
    ]
    windows = Windows((12 * HOUR, 12 * HOUR), 30 * MINUTE)
    return RealPair("flights", parts[0], parts[1], windows, Condition("equality"), "hash")


def wiki_keywords(folder: Path) -> RealPair:
    """Join edits of articles and of other pages on common words of the title within two hours."""
    left, right = _read(folder, "wiki_article_edits"), _read(folder, "wiki_other_edits")
    columns = [t.column("keywords").to_pylist() for t in (left, right)]
    known = sorted({word for rows in columns for row in rows for word in row})
    words = {word: k for k, word in enumerate(known)}
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
    """Join the same edits on the user, within two hours."""
    left, right = _read(folder, "wiki_article_edits"), _read(folder, "wiki_other_edits")
    parts = [
        single_values(_seconds(t), t.column("user_id").to_numpy()) for t in (left, right)
    ]
    windows = Windows((2 * HOUR, 2 * HOUR), 5 * MINUTE)
    return RealPair("wiki users", parts[0], parts[1], windows, Condition("equality"), "hash")


def _read(folder: Path, name: str) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(folder / "joins" / f"{name}.parquet")


def _seconds(table: Any) -> FloatArray:
    moments = table.column("timestamp").to_numpy().astype("datetime64[ms]").astype(np.int64)
    return np.asarray(moments / 1000.0)
