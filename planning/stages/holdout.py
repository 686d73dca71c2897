"""Which rows are held out for the gate: the same ones in memory and on Spark, however they lie.

Rows are told apart by their values, their file and their place in it, so that copies of a row fall
on both sides. Where the order of rows matters, the newest ones of the stream, or of each of several
parts of it, are held out instead: stretches without gaps, if they are long enough.
"""

from __future__ import annotations

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


class Times(NamedTuple):
    """Which bins of the times between the lowest and the highest are held out."""

    low: float
    high: float
    held: BoolArray


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
    >>> newest, halves = (Holdout(0.25, (), "time", parts) for parts in (1, 2))
    >>> at = np.arange(8.0)
    >>> landed = Landed(at, at, (), ())
    >>> newest.chosen({"time": at}, landed, newest.times_of(at)).nonzero()[0].tolist()
    [6, 7]
    >>> halves.chosen({"time": at}, landed, halves.times_of(at)).nonzero()[0].tolist()
    [3, 7]
    """

    share: float
    by: tuple[str, ...]
    clock: str | None
    parts: int
    """Of how many parts of the stream the newest rows are held out; 0: rows anywhere."""
    shortest: float = 0.0
    """How long a stretch must be, by the clock, for the family to measure anything on it."""

    @classmethod
    def of(cls, definition: StreamDefinition) -> Holdout:
        """Return what a definition asks for."""
        gate = definition.gate
        parts = gate.holdout_parts if gate.holdout_from == "end" else 0
        clock = next(iter(gate.holdout_by), definition.parameters.clock) if parts else None
        texts = {a.name for a in definition.attributes if a.type in ("category", "text")}
        clock = None if clock in texts else clock
        shortest = definition.parameters.shortest_stretch
        return cls(gate.holdout, gate.holdout_by, clock, parts, shortest)

    def times_of(self, times: FloatArray) -> Times | None:
        """Return which times are held out, if the rows have times that lie apart enough."""
        known = times[np.isfinite(times)]
        if not known.size:
            return None
        low, high = float(known.min()), float(known.max())
        return self.times(low, high, np.bincount(bins(known, low, high), minlength=BINS))

    def times(self, low: float, high: float, counts: IntArray) -> Times | None:
        """Return which times are held out, given how many rows each bin of them has."""
        filled = np.flatnonzero(counts)
        if filled.size < 2 or (high - low) * self.share < self.parts * self.shortest:
            return None
        ends = np.cumsum(counts)
        # A bin is as far along the stream as the middle of its rows.
        held = self._at_an_end((ends - counts / 2.0) / ends[-1])
        held[filled[0]], held[filled[-1]] = False, True
        return Times(low, high, held)

    def _at_an_end(self, along: FloatArray) -> BoolArray:
        """Return whether places, as fractions of the stream, are at the end of their part."""
        return np.asarray(along * self.parts % 1.0 >= 1.0 - self.share)

    def chosen(self, columns: Columns, landed: Landed, times: Times | None) -> BoolArray:
        """Return which rows are held out."""
        if times is not None and self.clock is not None:
            places = bins(np.asarray(columns[self.clock]), times.low, times.high)
            return (places >= 0) & times.held[places]
        if self.by:
            return in_holdout(stable_keys([columns[name] for name in self.by]), self.share)
        if self.parts and self.clock is None:
            return self._at_an_end((landed.row + 0.5) / np.array(landed.lengths)[landed.file])
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
