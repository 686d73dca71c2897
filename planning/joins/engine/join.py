"""The windowed join operator: ``join.push(stream, batch)`` returns the matches.

Every tuple is compared with tuples of the other stream's window when it arrives (Figure 3); a
:class:`Selection` decides which ones. Without one the join is complete: it finds each pair with
-w_2 <= T_2 - T_1 <= w_1 that satisfies the condition exactly once, provided that no tuple arrives
more than one basic window later than its timestamp says (streams may be pushed in turn, in batches
up to that length), and that each stream is in time order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.errors import InvalidInput
from planning.joins.engine import probe, storage
from planning.joins.engine.storage import HEAD, POSTED, SEQ, TAIL, Scratch, Selection, State
from planning.joins.model import Condition, Tuples, Windows, tuples, types_in_range

Access = Literal["bitset", "inverted", "hash"]
SMALL_VOCABULARY = 512
CHUNK = 4096
ROOM = 1 << 15  # matches collected before they are handed over: they stay in the cache so long
PADDING = 8  # words after each bitmap: at a power of two all would compete for one cache set
FARTHEST = 2.0**52  # basic windows from the origin; beyond it epochs lose precision


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Pairs of matching tuples; ``left[k]`` and ``right[k]`` number tuples of stream 0 and 1."""

    left: IntArray
    right: IntArray

    def __len__(self) -> int:
        return int(self.left.size)

    @classmethod
    def together(cls, parts: Sequence[Matches]) -> Matches:
        """Return the pairs of all parts, in their order."""
        if not parts:
            return cls(_integers(0), _integers(0))
        if len(parts) == 1:
            return parts[0]
        left, right = ([getattr(p, side) for p in parts] for side in ("left", "right"))
        return cls(np.concatenate(left), np.concatenate(right))


class WindowedJoin:
    """A binary windowed stream join with selective processing.

    Parameters
    ----------
    windows
        Window sizes, basic window size and origin of the grid.
    condition
        When two tuples match.
    vocabulary
        Items are 0 … vocabulary − 1; None means any int64. Up to 512 items the window is kept as
        vertical bitmaps, otherwise as an inverted index; tuples with other items are set aside.
    single_valued
        Every tuple has exactly one item: keep a hash index.
    values
        Utility of a match per pair of types; its size is the number of types.
    unknown_type
        Type used in place of types outside 0 … Z − 1.
    full_fraction
        Share of tuples compared with the whole window, to watch the time correlation.

    Examples
    --------
    >>> from planning.joins.model import tuples
    >>> join = WindowedJoin(Windows((10, 10), 1), Condition("overlap", 2), vocabulary=100)
    >>> len(join.push(0, tuples([0.0, 1.0], [{1, 2, 3}, {4, 5}])))
    0
    >>> matches = join.push(1, tuples([2.0], [{2, 3, 4, 5}]))
    >>> list(zip(matches.left.tolist(), matches.right.tolist()))
    [(0, 0), (1, 0)]
    """

    def __init__(
        self,
        windows: Windows,
        condition: Condition,
        *,
        vocabulary: int | None = None,
        single_valued: bool = False,
        access: Access | None = None,
        values: FloatArray | None = None,
        unknown_type: int = 0,
        full_fraction: float = 0.0,
        seed: int = 0,
        emit: bool = True,
    ) -> None:
        self.windows = windows
        self.condition = condition
        self.vocabulary = vocabulary
        small = vocabulary is not None and vocabulary <= SMALL_VOCABULARY
        by_items: Access = "bitset" if small else "inverted"
        self.access = access or ("hash" if single_valued else by_items)
        if self.access == "bitset" and vocabulary is None:
            raise InvalidInput("vocabulary must be given for bitmaps, got None")
        self.values = np.ones((1, 1)) if values is None else np.array(values, dtype=np.float64)
        self.types = int(self.values.shape[0])
        self.unknown_type = unknown_type
        self.full_fraction = full_fraction
        self.emit = emit
        self._seed = np.uint64(seed)
        self._ceiling = 1.0
        self.rejected = 0
        self._numbers = [0, 0]
        n, z = windows.most, self.types
        self.tally = probe.Tally(
            hits=_integers(2, 2, n, z, z),
            comparisons=_integers(2, 2, n, z),
            total=_integers(7),
            now=np.full(1, -np.inf),
            run=_integers(2),
            utility=np.zeros(1),
            since=_integers(2),
        )
        self.state = self._empty(1024, 8192, 1024)
        self.scratch = self._work_space()
        self.out = self._room(ROOM)
        self.select(Selection.everything(windows, z))

    def _empty(self, capacity: int, postings: int, buckets: int) -> State:
        bitset = self.access == "bitset"
        items = int(self.vocabulary or 0) if bitset else 0
        ring = self.windows.most + 2
        words = capacity // 64 + PADDING if bitset else 0
        space = 1 if bitset else postings
        slots = {"bitset": 0, "inverted": ring, "hash": 1}[self.access]
        return State(
            meta=np.array([[0, 0, storage.NO_EPOCH, -1, 0, 0]] * 2, dtype=np.int64),
            time=np.zeros((2, capacity)),
            kind=_integers(2, capacity),
            ident=_integers(2, capacity),
            epoch=_integers(2, capacity),
            size=_integers(2, capacity),
            first=_integers(2, capacity),
            starts=_integers(2, ring),
            bits=np.zeros((2, items, words), dtype=np.uint64),
            size_bits=np.zeros((2, items.bit_length(), words), dtype=np.uint64),
            items=_integers(2, postings),
            weights=np.zeros((2, postings)),
            owner=_integers(2, space),
            older=_integers(2, space),
            heads=np.full((2, slots, buckets), -1, dtype=np.int64),
        )

    def _work_space(self) -> Scratch:
        capacity = self.state.time.shape[1]
        ranges = self.windows.most
        bitset = self.access == "bitset"
        threshold = int(self.condition.threshold) if self.condition.kind == "overlap" else 1
        rows = max(threshold, 2 + self.state.size_bits.shape[1]) if bitset else 0
        sparse = 1 if bitset else capacity
        return Scratch(
            window=_integers(ranges),
            begin=_integers(ranges),
            end=_integers(ranges),
            low=_integers(ranges),
            high=_integers(ranges),
            chosen=_integers(2),
            work=np.zeros((rows, capacity // 64), dtype=np.uint64),
            common=_integers(sparse),
            score=np.zeros(sparse),
            touched=_integers(capacity),
        )

    @staticmethod
    def _room(size: int) -> probe.Output:
        return probe.Output(_integers(size), _integers(size), _integers(1))

    def select(self, selection: Selection) -> None:
        """Use another selection from the next tuple on."""
        wanted = (2, self.types, self.windows.most)
        if selection.take.shape != wanted:
            raise InvalidInput(
                f"selection must have the shape {wanted} (windows, types, basic windows), "
                f"got {selection.take.shape}"
            )
        self.selection = selection._replace(carry=np.zeros(wanted))

    def limit(self, share: float) -> None:
        """Make at most this share of all comparisons from now on, plus one tuple's; 1: no limit.

        A tuple that arrives while more have been made is compared with nothing. What was made
        beyond an earlier share, or left of it, still counts.
        """
        now = self.tally.total[[probe.COMPARED, probe.POSSIBLE]]
        made, possible = now - self.tally.since
        beyond = int(np.ceil(made - self._ceiling * possible))
        now[0] -= beyond if self._ceiling < 1.0 else max(beyond, 0)
        self.tally.since[:] = now
        self._ceiling = float(share)

    @property
    def rules(self) -> probe.Rules:
        """What the compiled kernels need to know."""
        return probe.Rules(
            self.condition.code,
            float(self.condition.threshold),
            ("bitset", "inverted", "hash").index(self.access),
            (float(self.windows.window_s[0]), float(self.windows.window_s[1])),
            self.windows.counts,
            float(self.windows.basic_window_s),
            float(self.windows.origin_s),
            float(self.full_fraction),
            self._ceiling,
            self._seed,
            self.emit,
        )

    def populations(self) -> IntArray:
        """Return |B_{i,j}| now, one row per window."""
        table = np.zeros((2, self.windows.most), dtype=np.int64)
        low, high = self.scratch.begin, self.scratch.end
        for i, n in enumerate(self.windows.counts):
            meta = self.state.meta[i]
            storage.cut(meta, self.state.starts[i], int(meta[HEAD]), n, low, high)
            table[i, :n] = high[:n] - low[:n]
        return table

    def advance_to(self, now: float) -> None:
        """Let time pass without a tuple: shift basic windows and expire."""
        if not np.isfinite(now) or now <= self.tally.now[0]:
            return
        self.tally.now[0] = now
        epoch = int(np.floor((now - self.windows.origin_s) / self.windows.basic_window_s))
        for i in range(2):
            storage.advance(
                self.state, i, epoch, now, float(self.windows.window_s[i]),
                float(self.windows.basic_window_s), self.rules.access,
            )  # fmt: skip

    def push(self, stream: int, batch: Tuples) -> Matches:
        """Process a batch of one stream in its order; return the matches it completes.

        Tuples are numbered per stream, from 0, in the order they are pushed. A tuple may be late by
        a basic window without loss, and by the longer window with some. Tuples with a timestamp
        that is not a number, or with items outside the vocabulary, are set aside (``rejected``);
        tuples older than the windows cannot match and are ignored; a hundred of those in a row
        mean that the clock was set back, and the windows start over.
        """
        if stream not in (0, 1):
            raise InvalidInput(f"stream must be 0 or 1, got {stream!r}")
        idents = np.arange(self._numbers[stream], self._numbers[stream] + len(batch))
        self._numbers[stream] += len(batch)
        return self.push_merged(np.full(len(batch), stream), idents, batch)

    def push_merged(self, stream: IntArray, idents: IntArray, batch: Tuples) -> Matches:
        """Process tuples of both streams, already merged in order of arrival."""
        keep = self._usable(batch)
        if not keep.all() or not _plain(batch):
            self.rejected += int((~keep).sum())
            batch, stream, idents = batch.take(keep), stream[keep], idents[keep]
        known = types_in_range(batch.kind, self.types, self.unknown_type)
        batch = replace(batch, kind=known)
        parts: list[Matches] = []
        for low in range(0, len(batch), CHUNK):
            high = min(low + CHUNK, len(batch))
            parts += self._chunk(batch.slice(low, high), stream[low:high], idents[low:high])
        return Matches.together(parts)

    def _usable(self, batch: Tuples) -> BoolArray:
        distance = (batch.time - self.windows.origin_s) / self.windows.basic_window_s
        keep: BoolArray = np.abs(distance) < FARTHEST  # False for NaN
        wrong = []
        items, known = batch.items, self.vocabulary
        if known is not None and items.size and (items.min() < 0 or items.max() >= known):
            wrong.append((items < 0) | (items >= known))
        if self.condition.kind == "inner_product":
            wrong.append(~np.isfinite(batch.weights))
        for each in wrong:
            keep[np.searchsorted(batch.first, np.flatnonzero(each), side="right") - 1] = False
        if self.access == "hash":
            keep &= np.diff(batch.first) == 1
        return keep

    def _chunk(self, batch: Tuples, stream: IntArray, idents: IntArray) -> list[Matches]:
        posted = max(
            int(self.state.meta[i, POSTED]) - storage.first_posting(self.state, i) for i in (0, 1)
        )
        self.reserve(self._kept() + len(batch), posted + len(batch) + batch.items.size)
        parts = []
        begin = 0
        while begin < len(batch):
            begin = probe.process(
                self.state, begin, batch.time, stream, batch.kind, idents,
                batch.first, batch.items, batch.weights, self.rules, self.selection, self.values,
                self.scratch, self.tally, self.out,
            )  # fmt: skip
            used = int(self.out.used[0])
            if used:
                parts.append(Matches(self.out.left[:used].copy(), self.out.right[:used].copy()))
                self.out.used[0] = 0
            if begin < len(batch) and self.out.left.size < self._kept() + ROOM // 2:
                self.out = self._room(self._kept() + ROOM)
        return parts

    def _kept(self) -> int:
        """Most tuples kept of a stream, expired ones that late tuples may find included."""
        return max(int(row[SEQ] - row[TAIL]) for row in self.state.meta.tolist())

    def reserve(self, tuples: int, postings: int) -> None:
        """Make room for this many tuples, and items of tuples, per window."""
        old = self.state
        now = (old.time.shape[1], old.items.shape[1], old.heads.shape[2])
        capacity, space, buckets = now
        while capacity < tuples + 64:
            capacity *= 2
        while space < postings:
            space *= 2
        lists = {"bitset": postings, "hash": 1, "inverted": min(self.windows.counts)}[self.access]
        while buckets < postings // max(lists, 1):
            buckets *= 2
        if (capacity, space, buckets) != now:
            self.state = self._empty(capacity, space, buckets)
            storage.move_to_larger(old, self.state, self.rules.access)
            self.scratch = self._work_space()


def _plain(batch: Tuples) -> bool:
    """Whether compiled code takes the arrays as they are; a copy of them is always plain."""
    arrays = (batch.time, batch.first, batch.items, batch.weights, batch.kind)
    return all(a.flags.c_contiguous and a.flags.writeable for a in arrays)


@cache
def compile_all() -> None:
    """Compile all that a join calls, or load it from the cache, so that no tuple waits for it.

    Types of arrays do not depend on the windows or the condition: one join stands for all.
    """
    join = WindowedJoin(Windows((1.0, 1.0), 1.0), Condition(), single_valued=True)
    for stream in range(2):
        join.push(stream, tuples([0.0], [{1}]))
    join.populations()
    join.advance_to(1.0)
    join.reserve(1 << 11, 1)


def _integers(*shape: int) -> IntArray:
    return np.zeros(shape, dtype=np.int64)
