"""The runtime sifter: which region a tuple lies in, and whether it is dropped (Section IV-A).

The counter rule drops the m-th tuple of a region iff ceil(d * m) > ceil(d * (m - 1)); no random
numbers. It is kept as a credit per region, in units of 2**-32 tuples: each tuple adds d, and a
carry drops it. That is exactly the same rule, needs no division, and adapts smoothly when d
changes. Deviation: the rule as printed drops the first tuple of every region with d > 0, because
its credit starts full; here each region starts at its own phase, so that regions do not drop in
step and not too much of a short stream is shed. ``start="full"`` is the printed rule.

The budget holds although the plan's frequencies come from samples and the stream changes by the
hour: an exact ledger has every tuple earn z and every kept one cost 1, and the further its balance
strays, the lower or higher is the throttle fraction at which the plan is read, so that what must
give way are the cheapest regions. No window of 10,000 tuples passes more than z times 1 plus the
plan's ``budget_tolerance`` of them, pinned tuples aside, which always pass.

By keys, a tuple is dropped iff its draw is less than d * 2**32 for the plan's d at the load: no
credit, no ledger, no correction, so that every process and every replay decides alike.

A tuple with NaN in an attribute lies in no region; it is shed at the rate of random dropping,
1 - z. A tuple outside the domain belongs to the nearest region. ``offer`` never raises: a batch
that cannot be read is shed like tuples without region.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from planning import batches
from planning.arrays import BoolArray, FloatArray, IntArray
from planning.batches import Batch, Refusal, Schema
from planning.errors import InvalidInput
from planning.pacing import ONE, UNLIMITED, spread_credits
from planning.shedder import BaseShedder, Decision, Draws, ItemCounters, Measures
from planning.sifter import kernels, lookup
from planning.sifter.lookup.kernels import descend, find_cells, find_common, mark_pinned
from planning.sifter.lookup.single import Single
from planning.sifter.plan import Plan, Setting

NO_FLAGS = np.zeros(0, dtype=np.bool_)
NO_WEIGHTS = np.zeros(0)
NO_PLACES = np.zeros(0, dtype=np.int32)
BUFFER = 1 << 16  # coordinates that are decided on in one go; they stay in the near caches
WINDOW = 10_000  # tuples over which a plan's tolerance holds
UNBOUNDED = 1 << 60  # for a ledger that cuts nothing


def _for_reading(draws: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return a contiguous read-only view: the one type that compiled code sees."""
    view = np.ascontiguousarray(draws, dtype=np.uint32).view()
    view.flags.writeable = False
    return view


NO_DRAWS = _for_reading(np.zeros(0, dtype=np.uint32))


class Fleet(Protocol):
    """Counters that several shedders share."""

    def exchange(self, offered: int, kept: int) -> tuple[int, int]:
        """Add this shedder's new tuples; return the fleet's totals, offered and kept."""
        ...


class Shedder(BaseShedder[Plan, Setting, float]):
    """Sheds with a plan at a load.

    Parameters
    ----------
    load
        Throttle fraction z; 1 keeps everything, which is the trivial filter F0.
    correct
        Whether to hold the passed fraction at z, using the shedder's own counters.
    start
        ``"spread"``, or ``"full"`` for the counter rule as printed.
    fleet
        Counters shared with other shedders; the budget is then held by all of them together: from
        the start they pass at most z of what they were offered, plus the tolerance of each.

    Examples
    --------
    >>> from planning.examples import demo_plan, demo_samples
    >>> shedder = Shedder(demo_plan("sifter"), load=0.5)
    >>> keep = shedder.offer(demo_samples("sifter", batch=1))
    >>> round(float(keep.mean()), 2), round(shedder.counters.passed_fraction, 2)
    (0.5, 0.5)
    >>> shedder.set_load(1.0)
    >>> shedder.offer_one({"price": 12.5, "volume": 700})
    True
    """

    WEIGHTED = True

    def __init__(
        self,
        plan: Plan,
        load: float = 1.0,
        *,
        correct: bool = True,
        start: Literal["spread", "full"] = "spread",
        fleet: Fleet | None = None,
    ) -> None:
        self.start = start
        self.fleet = fleet
        self._own = self._seen = 0
        self._begun = False
        self._corrects = correct
        self._control = np.zeros(4)
        self._ledger = np.zeros(9, dtype=np.int64)
        super().__init__(plan, load)
        self._set_level()

    @property
    def schema(self) -> Schema:
        """The attributes, in the plan's order."""
        return self._schema

    @property
    def counters(self) -> ItemCounters:
        """Tuples per region since this plan came into force; last row: tuples in no region."""
        self._single.flush()
        offered = self._state[:, kernels.OFFERED].astype(np.int64)
        cut = self._state[:, kernels.CUT].view(np.int64)
        return ItemCounters(offered, self._dropped + self._carries() + cut)

    def measures(self) -> Measures:
        """Return the regions' thresholds and counts; single tuples are counted block by block."""
        offered, cut = self._state[:-1, [kernels.OFFERED, kernels.CUT]].T.astype(np.int64)
        values = {
            "drop_ratio": self._setting.drop_thresholds,
            "offered_items_total": offered,
            "dropped_items_total": (self._dropped + self._carries())[:-1] + cut,
        }
        return Measures("region", range(len(offered)), self._plan.frequency, values)

    def probe(self, rows: int) -> dict[str, Any]:
        """Return tuples that are spread over the data space."""
        columns: dict[str, Any] = {}
        for k, axis in enumerate(self._plan.space.axes):
            share = spread_credits(rows * (k + 1))[k :: k + 1] / ONE
            values = np.minimum(axis.low + share * (axis.high - axis.low), axis.high)
            if axis.kind == "category":
                columns[axis.name] = np.array(axis.values)[values.astype(np.int64)]
            else:
                columns[axis.name] = values if axis.kind == "float" else np.floor(values)
        return columns

    def set_load(self, load: float, fairness_threshold: float | None = None) -> None:
        """Follow a new throttle fraction, and fairness threshold if given; all else carries on."""
        delta = self._plan.fairness_threshold if fairness_threshold is None else fairness_threshold
        setting = self._plan.at(load, delta)
        self._single.flush()
        self._control[[kernels.LOAD, kernels.FAIRNESS]] = setting.load, delta
        self._setting, self._load, self._steps = setting, setting.load, setting.steps
        self._bound()

    def _bound(self) -> None:
        """Set the ledger's bounds for the load; a debt that is above them must not grow."""
        ledger, z, stray = self._ledger, self._setting.load, self._tolerated()
        if self._corrects and not self._has_begun():
            # Nothing is saved up yet, so at no time will more than z of all tuples have passed.
            ledger[[kernels.DEBT, kernels.LEAST]] = stray
        ledger[kernels.DUE] = round(z * ONE)
        most = max(stray, int(ledger[kernels.DEBT])) if z < 1.0 else UNBOUNDED
        least = min(int(ledger[kernels.LEAST]), stray - kernels.YOUNG * ONE)
        ledger[[kernels.MOST, kernels.FLOOR, kernels.LEAST]] = most, -stray, max(least, -stray)
        ledger[kernels.SPAN] = 2 * stray if self._corrects and 0.0 < z < 1.0 else 0
        ledger[kernels.SINCE], ledger[kernels.EVERY] = 0, BUFFER
        self._levels[:, -1] = 0
        self._single.forget()

    def _has_begun(self) -> bool:
        """Tell whether any tuple has come at a load below 1, called before the load changes."""
        seen = int(self._state[:, kernels.OFFERED].sum())
        self._begun |= seen > self._seen and bool(self._ledger[kernels.DUE] < ONE)
        self._seen = seen
        return self._begun

    def _tolerated(self) -> int:
        """Return how far the ledger may stray: half of the tolerance up, half of it down."""
        if not self._corrects:
            return UNBOUNDED
        # One tuple is rounding: a window may begin and end in the middle of one.
        tolerated = self._plan.budget_tolerance * WINDOW * self._setting.load
        return round(max(1.0, tolerated - 1.0) / 2.0 * ONE)

    def adopt(self, old: Self) -> None:
        """Take over the budget; and credits, if the regions are the same, else they start anew."""
        old._single.flush()
        self._single.flush()
        self._own, self._begun = old._own, old._has_begun()
        kept = [kernels.DEBT, kernels.LEAST]
        self._ledger[kept] = old._ledger[kept]
        if self._plan.partition.same(old._plan.partition):
            credits = old._state[:, kernels.CREDIT] & np.uint64(ONE - 1)
            self._state[:, kernels.CREDIT] = credits
            self._pending[:] = old._pending
        self._bound()

    def offer_weighted(self, batch: Any) -> tuple[BoolArray, FloatArray]:
        """Decide on a batch of any form; return also the inverse keep probabilities.

        Counts and sums over kept tuples with these weights are unbiased for every region that
        keeps any; ``plan.regions_without_estimate`` has the others. Dropped tuples weigh 0.

        >>> from dataclasses import replace
        >>> from planning.examples import demo_plan, demo_samples
        >>> plan = replace(demo_plan("sifter"), min_keep=0.1)
        >>> keep, weight = Shedder(plan, 0.8).offer_weighted(demo_samples("sifter", batch=1))
        >>> plan.regions_without_estimate(0.8), round(float(weight.sum() / len(keep)), 2)
        ((), 1.0)
        """
        try:
            decision = self.decide(batches.read(batch, self.schema), weighted=True)
        except Refusal as refusal:
            decision = self.decide(self._nowhere(refusal.rows), weighted=True)
        assert decision.weight is not None
        return decision.keep, decision.weight

    def decide(
        self, batch: Batch, *, draws: Draws = None, most: int = UNLIMITED, weighted: bool = False
    ) -> Decision:
        """Decide on a batch that has been read.

        Beyond ``most`` the cheapest tuples go first: those in no region, those in regions without
        queries, then region by region as the plan's path drops them; pinned ones last.
        """
        rows, plan, most = batch.rows, self._plan, max(0, most)
        columns = [plan.space.column(k, batch) for k in range(len(plan.space.axes))]
        if draws is not None and len(draws) != rows:
            raise InvalidInput(f"draws must be {rows}, one per tuple, got {len(draws)}")
        self._single.flush()
        keep = np.empty(rows, dtype=np.bool_)
        weight = np.empty(rows) if weighted else NO_WEIGHTS
        places = np.empty(rows, dtype=np.int32) if most < rows else NO_PLACES
        forced = np.zeros(rows, dtype=np.bool_) if len(plan.pins.low) else NO_FLAGS
        drawn = NO_DRAWS if draws is None else _for_reading(draws)
        debt, points = int(self._ledger[kernels.DEBT]), self._points
        for begin in range(0, rows, points.shape[1]):
            part = slice(begin, min(begin + points.shape[1], rows))
            filled = points[:, : part.stop - begin]
            for k, column in enumerate(columns):
                filled[k] = column[part]
            if forced.size:
                mark_pinned(points, plan.pins.low, plan.pins.high, forced[part])
            for k in self._rearranged:
                filled[k] = plan.partition.arranged_axis(k, filled[k])
            here = places[part] if places.size else self._places[: part.stop - begin]
            self._locate(here)
            self._settle(here, drawn[part], forced[part], keep[part], weight[part])
        kept, cut = int(np.count_nonzero(keep)), 0
        if kept > most:
            cut = kept - most
            self._cut(cut, keep, places, forced, weight)
            if draws is None:
                self._settle_again(debt, keep)
        self._rebase()
        self._share(rows, kept - cut)
        return Decision(keep, kept - cut, cut, weight if weighted else None)

    def _cut(
        self, excess: int, keep: BoolArray, places: NDArray[np.int32], forced: BoolArray,
        weight: FloatArray,
    ) -> None:  # fmt: skip
        """Drop ``excess`` of the kept tuples, in the plan's order and evenly where it runs out."""
        passing = np.flatnonzero(keep)
        row = places[passing].astype(np.int64)  # of ``pending``
        if forced.size:
            row[forced[passing]] = len(self._pending) - 1
        rank = self._rank[row]
        count = np.bincount(rank)
        upto = np.cumsum(count)
        edge = int(np.searchsorted(upto, excess))
        gone = rank < edge
        here = np.flatnonzero(rank == edge)
        share = excess - int(upto[edge] - count[edge])
        gone[here] = np.diff(np.arange(len(here) + 1) * share // len(here)) > 0
        keep[passing[gone]] = False
        dropped = np.bincount(places[passing[gone]], minlength=len(self._state))
        self._state[:, kernels.CUT] += dropped.astype(np.uint64)
        if weight.size:
            self._hand_on(passing, row, ~gone, weight)

    def _hand_on(
        self, passing: IntArray, row: IntArray, kept: BoolArray, weight: FloatArray
    ) -> None:
        """Give the weight of every cut tuple to the next kept one like it."""
        order = np.argsort(row, kind="stable")
        row, kept, at = row[order], kept[order], passing[order]
        ends = kept | np.append(row[1:] != row[:-1], True)
        total = np.bincount(np.cumsum(ends) - ends, weight[at])
        weight[at] = 0.0
        taken = kept[ends]
        weight[at[ends][taken]] = total[taken]
        self._pending[row[ends][~taken]] += total[~taken]

    def _settle_again(self, debt: int, keep: BoolArray) -> None:
        """Enter a batch in the ledger as it was before: what was cut has not passed."""
        cost = keep * np.int64(ONE)
        balance = np.cumsum(cost - self._ledger[kernels.DUE])
        floor = self._ledger[kernels.LEAST] + cost - balance
        self._ledger[kernels.DEBT] = int(balance[-1]) + max(debt, int(floor.max()))

    def _refused(self, rows: int) -> BoolArray:
        return self.decide(self._nowhere(rows)).keep

    def _nowhere(self, rows: int) -> Batch:
        """Return tuples in no region."""
        nowhere = np.full(rows, np.nan)
        return Batch(dict.fromkeys(self._plan.space.names, nowhere), rows)

    def _share(self, size: int, kept: int) -> None:
        """Take over the fleet's debt, in proportion to this shedder's part of the stream."""
        if self.fleet is None:
            return
        offered, passed = self.fleet.exchange(size, kept)
        self._own += size
        debt = (passed - self._setting.load * offered) * (self._own / max(offered, 1))
        self._ledger[kernels.DEBT] = max(round(debt * ONE), int(self._ledger[kernels.LEAST]))

    def _install(self, plan: Plan) -> None:
        rows, axes = plan.regions + 1, len(plan.space.axes)
        self._plan = plan
        self._schema = Schema(plan.space.names)
        self._tables = lookup.build(plan.partition, axes)
        self._path = plan.items
        self._control[[kernels.CEILING, kernels.LOWEST]] = plan.path.ceiling, plan.path.lowest
        self._levels = np.zeros((kernels.LEVELS, rows + 1), dtype=np.uint64)
        self._points = np.zeros((axes, BUFFER // axes))
        self._places = np.zeros(self._points.shape[1], dtype=np.int32)
        self._rearranged = [k for k, order in enumerate(plan.partition.orders) if order]
        self._state = np.zeros((rows, 4), dtype=np.uint64)  # four: a row never spans cache lines
        full = self.start == "full"
        self._state[:, kernels.CREDIT] = ONE - 1 if full else spread_credits(rows)
        self._dropped = np.zeros(rows, dtype=np.int64)
        self._pending = np.zeros(rows + 1)  # last: pinned tuples
        order = plan.order
        self._rank = np.ones(rows + 1, dtype=np.int64)  # of the cheapest to drop, 0
        self._rank[order] = 2 + np.arange(len(order))
        self._rank[-2:] = 0, 2 + len(order)
        self._single = Single(
            plan, self._tables, self._state, self._ledger, self._levels, self._set_level
        )
        self.offer_one = self._single.decider(self)  # type: ignore[assignment]

    def _set_level(self) -> None:
        """Set the steps of the ledger's level, if they are not."""
        self._rebase()
        self._settle(NO_PLACES, NO_DRAWS, NO_FLAGS, NO_FLAGS, NO_WEIGHTS)

    def _locate(self, places: NDArray[np.int32]) -> None:
        """Find the regions of the points."""
        partition, tables = self._plan.partition, self._tables
        if tables.cells.size:
            find_cells(self._points, tables, places)
        elif tables.bitmaps.size:
            find_common(self._points, tables, partition.regions, places)
        else:
            descend(self._points, partition.tree, partition.regions, places)

    def _settle(
        self, places: NDArray[np.int32], draws: NDArray[np.uint32], forced: BoolArray,
        keep: BoolArray, weight: FloatArray,
    ) -> None:  # fmt: skip
        kernels.decide(
            places, self._path, self._state, self._control, self._ledger, self._levels,
            self._steps, draws, forced, keep, weight, self._pending,
        )  # fmt: skip

    def _carries(self) -> IntArray:
        return (self._state[:, kernels.CREDIT] >> kernels.CARRY).astype(np.int64)

    def _rebase(self) -> None:
        """Move counted drops out of the credits long before they overflow."""
        if int(self._state[:, kernels.CREDIT].max()) >> 62:
            self._dropped += self._carries()
            self._state[:, kernels.CREDIT] &= np.uint64(ONE - 1)
