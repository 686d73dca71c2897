"""A join operator on a processor of known speed: the deterministic cost model.

The processor makes ``budget`` comparisons per second. Tuples wait in input buffers of one second in
front of it, are fetched in order of arrival, and are dropped at random when a buffer overflows
(Section 6.1). Time is simulated, so results do not depend on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit, types

from benchmarks.joins.ordered import Ordered, arrange
from planning.arrays import FloatArray, IntArray
from planning.hashing import GOLDEN
from planning.joins.control import View
from planning.joins.engine import Selection, WindowedJoin, probe
from planning.joins.engine.bitmaps import inside, intrinsic
from planning.joins.engine.probe import Output, Rules, Tally
from planning.joins.engine.storage import HEAD, SEQ, Scratch, State, cut, scramble
from planning.joins.model import Condition, Tuples, Windows, merge

SCAN, TIME_SORTED, ID_SORTED, HASH = range(4)
METHODS = {"scan": SCAN, "time_sorted": TIME_SORTED, "id_sorted": ID_SORTED, "hash": HASH}
POSTING = 0.075  # cost of visiting a posting, in comparisons of two sets (docs: from Figure 7)
LOOKUP = 0.15  # of finding one identifier list


class Queue(NamedTuple):
    """Input buffers: tuples from ``at[0]`` to ``at[1]`` are waiting if alive."""

    at: IntArray  # [3] first waiting, next to arrive, chance counter
    alive: IntArray
    room: IntArray  # buffer size when each tuple arrives
    waiting: IntArray  # [2, Z]
    arrived: IntArray  # [2, Z]
    fetched: IntArray  # [2, Z]
    dropped: IntArray  # [2]
    free: FloatArray  # [2] when the processor is free; cost spent
    unit: FloatArray  # [1] cost per comparison, measured
    budget: float
    method: int


@intrinsic
def population(typingctx: Any, word: Any) -> Any:
    """Return the number of set bits of a uint64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@njit(cache=True, nogil=True)
def postings_in(state: State, i: int, items: IntArray, low: int, high: int) -> int:
    """Count the postings of the given items between two sequence numbers."""
    words = state.time.shape[1] >> 6
    total = 0
    for word in range(low >> 6, ((high - 1) >> 6) + 1):
        mask = inside(word << 6, low, high)
        for q in range(items.size):
            row = state.bits[i, items[q], word & (words - 1)] & mask
            total += int(population(row))
    return total


@njit(cache=True, nogil=True)
def cost_of(
    state: State, i: int, n: int, items: IntArray, compared: int, scratch: Scratch, method: int
) -> float:
    """Cost of the comparisons just made, in comparisons of two sets."""
    if method in (SCAN, HASH):
        return float(compared) if method == SCAN else LOOKUP
    postings = 0
    windows = scratch.chosen[0]
    lists = 0
    for k in range(windows):
        if scratch.end[k] > scratch.begin[k]:
            lists += items.size
    for q in range(scratch.chosen[1]):
        postings += postings_in(state, i, items, scratch.low[q], scratch.high[q])
    insertion = items.size * POSTING
    if method == ID_SORTED:
        # No early stop inside a basic window, and balanced trees to insert into and remove from.
        postings = 0
        chosen = scratch.window[:windows].copy()
        some = (scratch.end[:windows] > scratch.begin[:windows]).copy()
        head = state.meta[i, HEAD]
        cut(state.meta[i], state.starts[i], head, n, scratch.begin, scratch.end)
        for k in range(windows):
            if some[k]:
                j = chosen[k]
                postings += postings_in(state, i, items, scratch.begin[j], scratch.end[j])
        held = max(state.meta[i, SEQ] - head, 2)
        insertion *= 2.0 * np.log2(held)
    return postings * POSTING + lists * LOOKUP + insertion


@njit(cache=True, nogil=True)
def admit(queue: Queue, t: int, stream: IntArray, kind: IntArray, seed: np.uint64) -> None:
    """Put the next tuple into its buffer; if that overflows, drop one tuple of it at random."""
    s = stream[t]
    queue.alive[t] = 1
    queue.waiting[s, kind[t]] += 1
    queue.arrived[s, kind[t]] += 1
    queue.at[1] = t + 1
    total = 0
    for z in range(queue.waiting.shape[1]):
        total += queue.waiting[s, z]
    if total <= queue.room[t]:
        return
    span = queue.at[1] - queue.at[0]
    while True:
        queue.at[2] += 1
        dice = scramble((seed ^ np.uint64(queue.at[2])) + GOLDEN)
        victim = queue.at[0] + np.int64(dice % np.uint64(span))
        if queue.alive[victim] == 1 and stream[victim] == s:
            queue.alive[victim] = 0
            queue.waiting[s, kind[victim]] -= 1
            queue.dropped[s] += 1
            return


@njit(cache=True, nogil=True)
def serve(
    state: State, queue: Queue, until: float, time: FloatArray, stream: IntArray, kind: IntArray,
    first: IntArray, items: IntArray, weights: FloatArray, rules: Rules, selection: Selection,
    ordered: Ordered, values: FloatArray, scratch: Scratch, tally: Tally, out: Output,
) -> None:
    """Run the processor until a given time."""
    number = time.size
    in_order = ordered.order.size > 0
    while True:
        while queue.at[0] < queue.at[1] and queue.alive[queue.at[0]] == 0:
            queue.at[0] += 1
        t, coming = queue.at[0], queue.at[1]
        start = max(queue.free[0], time[t]) if t < coming else np.inf
        if coming < number and time[coming] <= min(start, until):
            admit(queue, coming, stream, kind, rules.seed)
            continue
        if start >= until:
            return
        a, b = first[t], first[t + 1]
        other = 1 - stream[t]
        full = tally.total[probe.FULL]
        owed = 0.0
        if in_order:
            owed = arrange(
                ordered, state, time[t], stream[t], kind[t], rules, selection, scratch, tally
            )
        compared = probe.step(
            state, time[t], stream[t], kind[t], t, items[a:b], weights[a:b], rules, selection,
            values, scratch, tally, out,
        )
        if in_order and tally.total[probe.FULL] == full:
            ordered.owed[other, kind[t]] = owed
        cost = cost_of(
            state, other, rules.counts[other], items[a:b], compared, scratch, queue.method
        )
        queue.free[0] = start + cost / queue.budget
        queue.free[1] += cost
        queue.alive[t] = 0
        queue.waiting[stream[t], kind[t]] -= 1
        queue.fetched[stream[t], kind[t]] += 1
        queue.at[0] = t + 1


class Strategy(Protocol):
    """A way to shed: it decides at every tick what to compare."""

    def decide(self, view: View, fetched: FloatArray) -> tuple[Selection | Ordered, float]:
        """Return the selection and the share of tuples to compare with the whole window."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What happened, tick by tick; row k covers the time up to ``time[k]``."""

    time: FloatArray
    matches: FloatArray
    utility: FloatArray
    comparisons: FloatArray
    cost: FloatArray
    arrived: FloatArray
    dropped: FloatArray
    fractions: FloatArray  # [ticks, 2] share of each window that tuples are compared with
    hits: IntArray  # [2, n, Z, Z] over the measured span
    made: IntArray  # [2, n, Z]

    def total(self, column: str, begin: float = 0.0, end: float = np.inf) -> float:
        """Sum of a column over ticks inside [begin, end]."""
        inside = (self.time > begin + 1e-9) & (self.time <= end + 1e-9)
        return float(getattr(self, column)[inside].sum())


def run(
    left: Tuples,
    right: Tuples,
    windows: Windows,
    condition: Condition,
    strategy: Strategy,
    *,
    budget: float,
    values: FloatArray | None = None,
    vocabulary: int = 100,
    method: str = "scan",
    tick_s: float = 0.25,
    buffer_s: float = 1.0,
    measure_from: float = 0.0,
    seed: int = 1,
) -> Trace:
    """Run a strategy over two streams on a processor of ``budget`` comparisons per second."""
    worth = np.ones((1, 1)) if values is None else np.asarray(values, dtype=np.float64)
    stream, _, batch = merge(left, right)
    join = WindowedJoin(
        windows,
        condition,
        vocabulary=vocabulary,
        single_valued=method == "hash",
        values=worth,
        seed=seed,
        emit=False,
    )
    join.reserve(_most_held(left, right, windows, buffer_s), len(batch.items))
    queue = _queue(stream, batch, worth.shape[0], max(budget, 1e-9), METHODS[method], buffer_s)
    end = float(batch.time[-1]) if len(batch) else 0.0
    ticks = np.arange(tick_s, end + tick_s, tick_s)
    rows: list[tuple[float, ...]] = []
    ordered = unordered = Ordered.none(worth.shape[0])
    before = _Totals.of(join, queue)
    base = (join.tally.hits.sum(axis=0), join.tally.comparisons.sum(axis=0))
    for now in ticks:
        serve(
            join.state, queue, float(now), batch.time, stream, batch.kind, batch.first,
            batch.items, batch.weights, join.rules, join.selection, ordered, join.values,
            join.scratch, join.tally, join.out,
        )  # fmt: skip
        join.advance_to(float(now))
        after = _Totals.of(join, queue)
        view, fetched = _view(join, queue, before, after, float(now), tick_s)
        rows.append((float(now), *_row(before, after), *_shares(join, ordered)))
        if now <= measure_from + 1e-9:
            base = (after.hits.sum(axis=0), after.comparisons.sum(axis=0))
        before = after
        chosen, full = strategy.decide(view, fetched)
        if isinstance(chosen, Ordered):
            ordered = chosen._replace(owed=np.zeros(chosen.fraction.shape))
            join.select(chosen.selection())
        else:
            ordered = unordered
            join.select(chosen)
        join.full_fraction = full
    table = np.array(rows).reshape(-1, 9)
    return Trace(
        time=table[:, 0],
        matches=table[:, 1],
        utility=table[:, 2],
        comparisons=table[:, 3],
        cost=table[:, 4],
        arrived=table[:, 5],
        dropped=table[:, 6],
        fractions=table[:, 7:9],
        hits=np.asarray(before.hits.sum(axis=0) - base[0]),
        made=np.asarray(before.comparisons.sum(axis=0) - base[1]),
    )


class _Totals(NamedTuple):
    matches: int
    utility: float
    compared: int
    cost: float
    arrived: IntArray
    dropped: int
    fetched: IntArray
    hits: IntArray
    comparisons: IntArray

    @classmethod
    def of(cls, join: WindowedJoin, queue: Queue) -> _Totals:
        tally = join.tally
        return cls(
            int(tally.total[probe.MATCHED]),
            float(tally.utility[0]),
            int(tally.total[probe.COMPARED]),
            float(queue.free[1]),
            queue.arrived.copy(),
            int(queue.dropped.sum()),
            queue.fetched.copy(),
            tally.hits.copy(),
            tally.comparisons.copy(),
        )


def _row(before: _Totals, after: _Totals) -> tuple[float, ...]:
    return (
        float(after.matches - before.matches),
        after.utility - before.utility,
        float(after.compared - before.compared),
        after.cost - before.cost,
        float((after.arrived - before.arrived).sum()),
        float(after.dropped - before.dropped),
    )


def _shares(join: WindowedJoin, ordered: Ordered) -> tuple[float, float]:
    """Share of each window that the selection in force covers, averaged over types."""
    extents = join.windows.extents_s[:, None, :]
    by_take = (join.selection.take * extents).sum(axis=2) / extents.sum(axis=2)
    shares = (ordered.fraction if ordered.order.size else by_take).mean(axis=1)
    return float(shares[0]), float(shares[1])


def _view(
    join: WindowedJoin, queue: Queue, before: _Totals, after: _Totals, now: float, tick_s: float
) -> tuple[View, FloatArray]:
    owed = max(float(queue.free[0]) - now, 0.0)
    compared = after.compared - before.compared
    if compared > 0:  # the measured cost per comparison, as a real operator would see it
        queue.unit[0] += 0.3 * ((after.cost - before.cost) / compared - queue.unit[0])
    view = View(
        now=now,
        elapsed_s=tick_s,
        arrived=(after.arrived - before.arrived).astype(np.float64),
        waiting=queue.waiting.astype(np.float64),
        populations=join.populations(),
        hits=after.hits - before.hits,
        comparisons=after.comparisons - before.comparisons,
        available=queue.budget * max(tick_s - owed, 0.0) / max(float(queue.unit[0]), 1e-12),
    )
    return view, (after.fetched - before.fetched).astype(np.float64)


def _queue(
    stream: IntArray, batch: Tuples, types: int, budget: float, method: int, buffer_s: float
) -> Queue:
    room = np.zeros(len(batch), dtype=np.int64)
    for s in range(2):
        mine = stream == s
        times = batch.time[mine]
        room[mine] = np.arange(1, times.size + 1) - np.searchsorted(times, times - buffer_s)
    table = (2, types)
    return Queue(
        np.zeros(3, dtype=np.int64),
        np.zeros(len(batch), dtype=np.int64),
        np.maximum(room, 1),
        np.zeros(table, dtype=np.int64),
        np.zeros(table, dtype=np.int64),
        np.zeros(table, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.zeros(2),
        np.ones(1),
        budget,
        method,
    )


def _most_held(left: Tuples, right: Tuples, windows: Windows, buffer_s: float) -> int:
    """Most tuples a window can hold at once."""
    most = 0
    for part, size in zip((left, right), windows.window_s, strict=True):
        span = size + windows.basic_window_s + buffer_s + 2.0
        held = np.arange(1, len(part) + 1) - np.searchsorted(part.time, part.time - span)
        most = max(most, int(held.max()) if held.size else 0)
    return most
