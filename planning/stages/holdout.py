"""Which rows are held out for the gate: the same ones in memory and on Spark, however they lie.

Rows are told apart by their values, their file and their place in it, so that copies of a row fall
on both sides. Where the order of rows matters, the newest ones are held out instead: the plan is
then tried on what followed the rows that it was made from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planning.arrays import BoolArray, Columns, FloatArray, IntArray
from planning.sampling import in_holdout, stable_keys
from planning.streams import StreamDefinition

ORDER = "_order"
"""The column of a row's place in the stream as it landed."""
ROW_BITS = 40
BINS = 4096


class Edge(NamedTuple):
    """Where the newest rows begin: a bin of the times between the lowest and the highest."""

    low: float
    high: float
    bin: int


class Landed(NamedTuple):
    """Where rows come from: of each its file, by number, and its place in it, from 0."""

    file: IntArray
    row: IntArray
    digests: tuple[str, ...]  # of the files
    lengths: tuple[int, ...]

    @property
    def order(self) -> IntArray:
        """One number per row that rises along the stream as it landed."""
        return np.asarray((self.file << ROW_BITS) | self.row)


@dataclass(frozen=True, slots=True)
class Holdout:
    """How a stream's rows are split.

    Examples
    --------
    >>> from planning.examples import demo_definition
    >>> Holdout.of(demo_definition("lira")).by, Holdout.of(demo_definition("joins")).clock
    (('object_id',), 'time_s')
    >>> newest = Holdout(0.25, (), "time", newest=True)
    >>> edge, times = newest.edge_of(np.arange(8.0)), np.array([7.0, 1.0, 6.0, 5.0])
    >>> newest.chosen({"time": times}, Landed(times, times, (), ()), edge).tolist()
    [True, False, True, False]
    """

    share: float
    by: tuple[str, ...]
    clock: str | None
    newest: bool

    @classmethod
    def of(cls, definition: StreamDefinition) -> Holdout:
        """Return what a definition asks for."""
        gate = definition.gate
        newest = gate.holdout_from == "end"
        clock = next(iter(gate.holdout_by), definition.parameters.clock) if newest else None
        texts = {a.name for a in definition.attributes if a.type in ("category", "text")}
        clock = None if clock in texts else clock
        return cls(gate.holdout, gate.holdout_by, clock, newest)

    def edge_of(self, times: FloatArray) -> Edge | None:
        """Return where the newest rows begin, if the rows have times that differ."""
        known = times[np.isfinite(times)]
        if not known.size:
            return None
        low, high = float(known.min()), float(known.max())
        return self.edge(low, high, np.bincount(bins(known, low, high), minlength=BINS))

    def edge(self, low: float, high: float, counts: Sequence[int] | IntArray) -> Edge | None:
        """Return where the newest rows begin, given how many rows each bin of times has."""
        newer = np.cumsum(np.asarray(counts)[::-1])[::-1]
        starts = np.flatnonzero((newer > 0) & (newer < newer[0]))
        if not starts.size:
            return None
        aimed = np.abs(newer[starts] - self.share * newer[0])
        return Edge(low, high, int(starts[np.argmin(aimed)]))

    def chosen(self, columns: Columns, landed: Landed, edge: Edge | None) -> BoolArray:
        """Return which rows are held out."""
        if edge is not None and self.clock is not None:
            return bins(np.asarray(columns[self.clock]), edge.low, edge.high) >= edge.bin
        if self.by:
            return in_holdout(stable_keys([columns[name] for name in self.by]), self.share)
        if self.newest:
            first = [math.ceil((1.0 - self.share) * rows) for rows in landed.lengths]
            return np.asarray(landed.row >= np.array(first)[landed.file])
        digests = np.array(landed.digests, dtype=object)[landed.file]
        return in_holdout(stable_keys([*columns.values(), digests, landed.row]), self.share)


def bins(times: FloatArray, low: float, high: float) -> IntArray:
    """Return the bin of each time; -1 where there is none.

    >>> bins(np.array([0.0, 5.0, 10.0, np.nan]), 0.0, 10.0).tolist()
    [0, 2048, 4095, -1]
    """
    width = high - low
    places = np.floor((times - low) / width * BINS) if width > 0 else np.zeros(times.shape)
    return np.where(np.isfinite(places), np.minimum(places, BINS - 1), -1).astype(np.int64)
