"""The runtime of FIT: drop operators on the arcs of a query network.

An item belongs to an arc (column ``arc``) or to a stream (column ``element``, ``stream`` or
``input``). The drops of a stream are nested over its arcs: what an arc drops, every arc that drops
more drops too, so an item of a stream is dropped only where all arcs drop it. Items of unknown
arcs pass.

The n-th item has the same rank in [0, 1) on every arc of its stream, and an arc drops the items
whose rank lies below its fraction. Ranks do not depend on loads, so drops are nested however items
are cut into batches, and even if the load changes between an item's arcs; what is required is that
every arc is offered all items of its stream in order. Ranks are multiples of the golden ratio: of
the first n items an arc drops its fraction to within a few (4 of 10,000).

On an arc before an aggregate with a declared window, whole windows are dropped: batches of windows
pass or not, and a kept batch keeps the tuples that its last windows need. The other arcs of such a
stream drop as many items together, so that they stay nested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from planning import batches
from planning.arrays import BoolArray, IntArray
from planning.batches import Batch, Schema
from planning.fit.network import Rates, graph
from planning.fit.plan import Plan
from planning.pacing import ONE, UNLIMITED, spread_credits
from planning.shedder import BaseShedder, Decision, Draws, ItemCounters, Measures

SCHEMA = Schema((), any_of=("arc", "element", "stream", "input"))


@dataclass(frozen=True, slots=True, eq=False)
class Counters(ItemCounters):
    """Items offered and dropped per name; the last entry counts items of unknown arcs."""

    names: tuple[str, ...]


class Operators(NamedTuple):
    """What the drop operator of each name should do."""

    step: IntArray  # spans that rank below it fall
    span: IntArray  # items that are dropped or kept together
    tail: IntArray  # items that a kept span needs from the next one


class State(NamedTuple):
    """Where the drop operator of each name is, and what it has done."""

    rank: IntArray  # of the next span
    position: IntArray  # within the span
    dropping: BoolArray
    left: IntArray  # of the tail
    offered: IntArray
    dropped: IntArray


class Shedder(BaseShedder[Plan, dict[str, float], float | Rates]):
    """Applies the drops of a plan at a load: a scalar z, or measured input rates.

    With ``server``, only the drops that this server applies; other items pass.

    With keys, an item is dropped iff its draw is below the drop fraction of its arc. A stream's
    items that have the same key on every arc keep the plan's nesting. Keys decide on single items
    also before a windowed aggregate: to drop whole windows, make the window's number the key.

    Examples
    --------
    >>> from planning.fit.demo import figure_1
    >>> from planning.fit.planner import plan_network
    >>> shedder = Shedder(plan_network(figure_1()), {"i1": 1.0, "i2": 1.0})
    >>> keep = shedder.offer({"input": ["i1", "i2"] * 1000})
    >>> int(keep[::2].sum()), int(keep[1::2].sum())  # 80 % of i1 and 60 % of i2 must go
    (200, 400)
    >>> shedder.arrivals(batches.read(["i1->a1", "i2->a2", "i1->a1"], shedder.schema))
    {'i1': 2, 'i2': 1}
    """

    WEIGHTED: ClassVar[bool] = True

    _state: State
    _older: dict[str, tuple[int, int]]  # counts of names that only older plans had
    _last: tuple[Batch | None, IntArray]  # a batch and its codes
    _values: IntArray | None  # rank of every name by value; made when a limit first bites

    def __init__(self, plan: Plan, load: float | Rates = 1.0, *, server: str | None = None) -> None:
        self.server = server
        super().__init__(plan, load)

    @property
    def schema(self) -> Schema:
        """One column of labels: arcs, or streams by the name of their input or operator."""
        return SCHEMA

    @property
    def setting(self) -> dict[str, float]:
        """The drop fraction per arc in force."""
        names = zip(self._names, self._drops.tolist(), strict=False)
        return {name: fraction for name, fraction in names if fraction > 0.0}

    @property
    def counters(self) -> Counters:
        """Items offered and dropped, also on arcs that only older plans had."""
        counts = np.stack([self._state.offered, self._state.dropped])
        older = np.array([*self._older.values()], dtype=np.int64).reshape(-1, 2).T
        offered, dropped = np.concatenate([counts[:, :-1], older, counts[:, -1:]], axis=1)
        return Counters(offered, dropped, (*self._names, *self._older, ""))

    def measures(self) -> Measures:
        """Return what is dropped on each arc; and of streams, for items that name no arc."""
        offered, dropped = self._state.offered[:-1], self._state.dropped[:-1]
        values = {
            "drop_ratio": self._steps[:-1] / ONE,
            "offered_items_total": offered,
            "dropped_items_total": dropped,
        }
        return Measures("arc", self._names, offered, values)

    def probe(self, rows: int) -> dict[str, Any]:
        """Return a column of arcs and streams."""
        return {"arc": np.array(self._names)[np.arange(rows) % len(self._names)]}

    def set_load(self, load: float | Rates) -> None:
        """Follow a new load; credits and counters continue."""
        asked = load
        if not isinstance(load, (int, float)):
            asked = self._plan.network.rate_vector(load) * self._plan.headroom
        planned = self._plan.fractions(asked)
        drops = planned * self._applied
        fractions = np.concatenate([drops, self._plan.least_of_streams(drops), [0.0]])
        steps = np.ceil(fractions * ONE - 1e-6).astype(np.int64)
        self._steps[:] = steps
        self._load, self._planned, self._drops = load, planned, drops
        self._values = None

    def arrivals(self, batch: Batch) -> dict[str, int]:
        """Return how many items of each input a batch holds.

        Every arc of an input carries all its items: where they are labelled by arc, the arc with
        the most items counts.
        """
        counts = self._counts(self._codes(batch))
        inputs = self._plan.network.input_ids
        most = np.maximum.reduceat(counts[self._of_inputs], self._from_input)
        return dict(zip(inputs, most.tolist(), strict=True))

    def affordable(self, rates: Rates) -> float:
        """Return the share of these rates that the busiest server can take, at most 1."""
        return self._plan.affordable(rates)

    def decide(
        self, batch: Batch, *, draws: Draws = None, most: int = UNLIMITED, weighted: bool = False
    ) -> Decision:
        """Decide on a batch that has been read; beyond ``most``, the least valuable items go first.

        The value of an item is what it adds to the weighted throughput, given the drops that it
        has yet to pass. Items of unknown arcs have none.
        """
        codes = self._codes(batch)
        keep = np.empty(len(codes), dtype=np.bool_)
        if draws is None:
            self._follow(codes, self._operators, self._state, keep)
        else:
            np.greater_equal(draws, self._steps[codes], out=keep)
            self._state.offered[:] += self._counts(codes)
            self._state.dropped[:] += self._counts(codes[~keep])
        weight = None
        if weighted:
            kept = 1.0 - self._steps / ONE
            weight = np.where(keep, (1.0 / np.where(kept > 0.0, kept, 1.0))[codes], 0.0)
        passing = int(np.count_nonzero(keep))
        cut = max(passing - max(most, 0), 0)
        if cut:
            gone, among = self._least_valuable(codes, np.flatnonzero(keep), cut)
            keep[gone] = False
            self._state.dropped[:] += self._counts(codes[gone])
            if weight is not None:
                left = max(int(np.count_nonzero(keep[among])), 1)
                weight[among] *= len(among) / left  # they stand for those cut beside them
                weight[gone] = 0.0
        return Decision(keep, passing - cut, cut, weight)

    def adopt(self, old: Self) -> None:
        """Go on where the shedder of an older plan stopped: ranks, windows and counters by name.

        New arcs of a known stream go on where another of its arcs is; the counts of names that are
        gone are kept.
        """
        counted = old.counters
        pairs = zip(counted.offered.tolist(), counted.dropped.tolist(), strict=True)
        counts = dict(zip(counted.names, pairs, strict=True))
        state = self._start()
        for name, code in self._code.items():
            of_stream = (self._names[other] for other in self._alike[self._streams[code]])
            before = next((other for other in (name, *of_stream) if other in old._code), None)
            if before is not None:
                self._take_over(state, code, old, old._code[before])
        known = [counts.pop(name, (0, 0)) for name in (*self._names, "")]
        state.offered[:], state.dropped[:] = np.array(known).T
        self._state, self._older = state, counts

    def _codes(self, batch: Batch) -> IntArray:
        """Return the code of every item's label; the last one is for unknown ones.

        Those of the last batch are kept: its arrivals are counted before it is decided on.
        """
        if self._last[0] is not batch:
            codes = batches.codes(next(iter(batch.columns.values())), self._code)
            codes[codes < 0] = len(self._names)
            self._last = batch, codes
        return self._last[1]

    def _counts(self, codes: IntArray) -> IntArray:
        return np.bincount(codes, minlength=len(self._names) + 1)

    def _refused(self, rows: int) -> BoolArray:
        self._state.offered[-1] += rows
        return np.ones(rows, dtype=np.bool_)

    def _least_valuable(
        self, codes: IntArray, kept: IntArray, cut: int
    ) -> tuple[IntArray, IntArray]:
        """Return which of the kept items go: whole arcs by value, and of the last one evenly.

        The second array holds all items that have the value of the last ones to go.

        Before a windowed aggregate the last items of the batch go, so that windows stay whole.
        """
        if self._values is None:
            values = graph.values(self._plan.network, self._planned)
            self._values = np.unique(values.T, axis=0, return_inverse=True)[1].reshape(-1)
        rank = self._values[codes[kept]]
        below = np.cumsum(np.bincount(rank))
        last = int(np.searchsorted(below, cut))
        among = kept[rank == last]
        count = cut - (int(below[last - 1]) if last else 0)
        if (self._operators.span[codes[among]] > 1).any():
            chosen = among[len(among) - count :]
        else:
            chosen = among[(2 * np.arange(count) + 1) * len(among) // (2 * count)]
        return np.concatenate([kept[rank < last], chosen]), among

    def _install(self, plan: Plan) -> None:
        """Take the plan's arcs; they count from zero."""
        from planning.fit.kernels.drops import decide

        plan.check()
        network = plan.network
        self._plan = plan
        self._follow = decide
        self._applied = plan.applied_by(self.server)
        streams = network.streams
        self._names = (*(arc.name for arc in network.arcs), *streams)
        self._code = {name: code for code, name in enumerate(self._names)}
        self._streams = (*(arc.stream for arc in network.arcs), *streams)
        self._alike: dict[str, list[int]] = {stream: [] for stream in streams}
        for code, stream in enumerate(self._streams):
            self._alike[stream].append(code)
        size = len(self._names) + 1
        span, tail = np.ones(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for code, window in enumerate(network.arc_windows):
            if window is not None:
                span[code] = max(round(window.batch * window.slide), 1)
                tail[code] = max(round(window.size - window.slide), 0)
        for codes in self._alike.values():
            span[codes] = np.where(span[codes] > 1, span[codes], span[codes].max())
            tail[codes[-1]] = tail[codes].max()  # the stream's own name
        self._steps = np.zeros(size, dtype=np.int64)
        self._operators = Operators(self._steps, span, tail)
        carrying = [(self._code[i], *network.arcs_from[i]) for i in network.input_ids]
        self._of_inputs = np.concatenate(carrying)
        self._from_input = np.cumsum([0, *map(len, carrying[:-1])])
        self._older = {}
        self._last = None, self._of_inputs[:0]
        self._state = self._start()
        # Compiled here rather than on the data path.
        decide(self._of_inputs[:0], self._operators, self._state, np.empty(0, dtype=np.bool_))

    def _start(self) -> State:
        """Return the state of drop operators that have seen no item; no two streams in step."""
        size = len(self._names) + 1
        rank, position, left, offered, dropped = np.zeros((5, size), dtype=np.int64)
        for first, stream in zip(spread_credits(len(self._alike)), self._alike, strict=True):
            rank[self._alike[stream]] = first
        return State(rank, position, np.zeros(size, dtype=np.bool_), left, offered, dropped)

    def _take_over(self, state: State, code: int, old: Self, other: int) -> None:
        """Let one name go on where the old shedder's stopped; other windows start afresh."""
        state.rank[code] = old._state.rank[other]
        mine, theirs = self._operators, old._operators
        if (mine.span[code], mine.tail[code]) == (theirs.span[other], theirs.tail[other]):
            for into, values in zip(state[1:4], old._state[1:4], strict=True):
                into[code] = values[other]
