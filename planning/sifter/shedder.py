"""The runtime sifter: which region a tuple lies in, and whether it is dropped (Section IV-A).

The counter rule drops the m-th tuple of a region iff ceil(d * m) > ceil(d * (m - 1)); no random
numbers. It is kept as a credit per region, in units of 2**-32 tuples: each tuple adds d, and a
carry drops it. That is exactly the same rule, needs no division, and adapts smoothly when d
changes. Deviation: the rule as printed drops the first tuple of every region with d > 0, because
its credit starts full; here each region starts at its own phase, so that regions do not drop in
step and not too much of a short stream is shed. ``start="full"`` is the printed rule.

The budget holds although the plan's frequencies come from samples: every 512 tuples the shedder
compares what it let pass with z and corrects the throttle fraction at which it reads the plan, and
an exact ledger cuts the little that would still exceed the budget. No window of 10,000 tuples
passes more than 1.01 z of them, pinned and marked tuples aside, which always pass.

A tuple with NaN in an attribute lies in no region; it is shed at the rate of random dropping,
1 - z. A tuple outside the domain belongs to the nearest region. ``offer`` never raises: a batch
that cannot be read is shed like tuples without region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray, for_reading
from planning.pacing import ONE, spread_credits
from planning.shedder import BaseShedder, ItemCounters, batch_size
from planning.sifter import kernels, lookup
from planning.sifter.lookup.single import Single
from planning.sifter.plan import Plan, Setting

NO_FLAGS = np.zeros(0, dtype=np.bool_)
NO_WEIGHTS = np.zeros(0)
WINDOW = 10_000  # over this many tuples ...
TOLERANCE = 0.01  # ... the passed fraction exceeds z by at most this part of it
UNLIMITED = 1 << 60


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

    offer_one: Callable[[Any], bool]
    """Decide on one tuple, a mapping or a sequence of coordinates: True if it is kept."""

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
        self._control = np.zeros(4)
        self._control[kernels.CORRECT] = float(correct)
        self._ledger = np.zeros(6, dtype=np.int64)
        super().__init__(plan, load)
        if correct:
            # Nothing is saved up yet, so at no time will more than z of all tuples have passed.
            self._ledger[kernels.DEBT] = self._ledger[kernels.MOST]
            self._correct()

    @property
    def counters(self) -> ItemCounters:
        """Tuples per region since this plan came into force; last row: tuples in no region."""
        self._single.flush()
        offered = self._state[:, kernels.OFFERED].astype(np.int64)
        cut = self._state[:, kernels.CUT].view(np.int64)
        return ItemCounters(offered, self._dropped + self._carries() + cut)

    def set_load(self, load: float, fairness_threshold: float | None = None) -> None:
        """Follow a new throttle fraction, and fairness threshold if given; counters continue."""
        delta = self._plan.fairness_threshold if fairness_threshold is None else fairness_threshold
        self._setting = self._plan.at(load, delta)
        self._load = self._setting.load
        self._single.flush()
        self._control[[kernels.LOAD, kernels.FAIRNESS]] = self._setting.load, delta
        self._control[kernels.BIAS] = 0.0
        self._ledger[kernels.SINCE] = self._ledger[kernels.WANTED] = 0
        self._ledger[kernels.DUE] = round(self._setting.load * ONE)
        most = self._tolerated()
        self._ledger[[kernels.MOST, kernels.LEAST]] = most, -most
        self._correct()

    def _tolerated(self) -> int:
        """Return how far the ledger may stray: half of the tolerance up, half of it down."""
        if not self._control[kernels.CORRECT]:
            return UNLIMITED
        # One tuple is rounding: a window may begin and end in the middle of one.
        return round(max(1.0, TOLERANCE * WINDOW * self._setting.load - 1.0) / 2.0 * ONE)

    def swap(self, plan: Plan) -> None:
        """Follow a new plan at the same load; its regions count from zero, the budget continues."""
        self._single.flush()
        super().swap(plan)

    def offer(self, batch: Mapping[str, Any] | Any, marked: BoolArray | None = None) -> BoolArray:
        """Decide on a batch: True where the tuple is kept; ``marked`` ones always are."""
        return self._offer(batch, marked, weighted=False)[0]

    def offer_weighted(
        self, batch: Mapping[str, Any] | Any, marked: BoolArray | None = None
    ) -> tuple[BoolArray, FloatArray]:
        """Decide, and return the inverse keep probability of each kept tuple (0 if dropped).

        Counts and sums over kept tuples with these weights are unbiased for every region that
        keeps any; a region with d = 1 keeps none.
        """
        return self._offer(batch, marked, weighted=True)

    def _offer(
        self, batch: Any, marked: BoolArray | None, weighted: bool
    ) -> tuple[BoolArray, FloatArray]:
        self._single.flush()
        columns = self._columns(batch)
        size = len(columns[0])
        keep = np.empty(size, dtype=np.bool_)
        weight = np.empty(size) if weighted else NO_WEIGHTS
        forced = NO_FLAGS if marked is None else np.array(marked, dtype=np.bool_)
        pins = self._plan.pins
        if len(pins.low):
            forced = forced if forced.size else np.zeros(size, dtype=np.bool_)
            kernels.mark_pinned(columns, pins.low, pins.high, forced)
        partition = self._plan.partition
        kernels.decide(
            tuple(for_reading(partition.arranged_axis(k, c)) for k, c in enumerate(columns)),
            self._tables, partition.tree, self._plan.path.items,
            self._state, self._control, self._ledger, forced, keep, weight, self._pending,
        )  # fmt: skip
        self._rebase()
        self._share(size, keep)
        return keep, weight

    def _columns(self, batch: Any) -> tuple[FloatArray, ...]:
        space = self._plan.space
        try:
            if isinstance(batch, Mapping):
                columns = tuple(
                    for_reading(space.coordinates(k, batch[name]))
                    for k, name in enumerate(space.names)
                )
                if len({len(column) for column in columns}) == 1:
                    return columns
            else:
                return tuple(for_reading(c) for c in space.matrix(batch).T)
        except (KeyError, TypeError, ValueError):
            pass
        return (for_reading(np.full(batch_size(batch), np.nan)),) * len(space.axes)

    def _share(self, size: int, keep: BoolArray) -> None:
        """Take over the fleet's debt, in proportion to this shedder's part of the stream."""
        if self.fleet is None:
            return
        offered, kept = self.fleet.exchange(size, int(np.count_nonzero(keep)))
        self._own += size
        debt = (kept - self._setting.load * offered) * (self._own / max(offered, 1))
        self._ledger[kernels.DEBT] = max(round(debt * ONE), int(self._ledger[kernels.LEAST]))

    def _install(self, plan: Plan) -> None:
        regions = plan.regions + 1
        self._plan = plan
        self._tables = lookup.build(plan.partition, len(plan.space.axes))
        self._state = np.zeros((regions, 4), dtype=np.uint64)
        full = self.start == "full"
        self._state[:, kernels.CREDIT] = ONE - 1 if full else spread_credits(regions)
        self._dropped = np.zeros(regions, dtype=np.int64)
        self._pending = np.zeros(regions)
        self._own = 0
        self._single = Single(plan, self._tables, self._state, self._ledger, self._correct)
        self.offer_one = self._single.decider(self)

    def _correct(self) -> None:
        kernels.correct(self._plan.path.items, self._state, self._control, self._ledger)
        self._single.stale = True

    def _carries(self) -> IntArray:
        return (self._state[:, kernels.CREDIT] >> kernels.CARRY).astype(np.int64)

    def _rebase(self) -> None:
        """Move counted drops out of the credits long before they overflow."""
        if int(self._state[:, kernels.CREDIT].max()) >> 62:
            self._dropped += self._carries()
            self._state[:, kernels.CREDIT] &= np.uint64(ONE - 1)
