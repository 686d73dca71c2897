"""The runtime: a windowed join that compares only what its plan says, and adapts by itself.

``push(stream, batch)`` joins: it is the operator itself. ``offer(batch)`` only decides, for an
operator elsewhere: row k of its mask says which basic windows of the other stream's window
tuple k is to be compared with, newest first. Neither ever raises because of the data.

Give ``budget_per_s`` (comparisons per second) or ``cpu_share`` (of one core, by measured time) and
the load follows by itself at every tick; otherwise the load is what ``set_load`` says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planning.arrays import BoolArray, IntArray
from planning.errors import InvalidInput, check_between
from planning.joins.control import Controller, MeasuredCost, View
from planning.joins.engine import Matches, Selection, WindowedJoin, probe
from planning.joins.model import Tuples, combine_utilities, merge, types_in_range
from planning.joins.plan import Plan, Setting
from planning.pacing import ONE, ONE_BITS
from planning.shedder import BaseShedder, batch_size

SMOOTHING = 0.2  # weight of the newest batch in running means
CORRECTION = 0.2  # share of the debt of comparisons that is worked off per tick
CARRIED_TICKS = 4  # processor time that is made up for later, at most
CUSHION = 2.0  # ticks' worth of comparisons kept unspent, so that the hard limit seldom bites


@dataclass(frozen=True, slots=True)
class Counters:
    """What the shedder has done since it started."""

    offered: int  # tuples
    dropped: int  # tuples that ``offer`` lets be compared with nothing; operators still store them
    compared: int  # comparisons made, or granted by ``offer``
    possible: int  # comparisons that the complete join would have made
    matches: int
    rejected: int  # tuples set aside: time not a number, items outside the vocabulary
    late: int
    ignored: int  # tuples older than the windows
    clock_resets: int
    unknown_types: int
    busy_s: float  # processor time spent joining
    stale: bool  # the plan's order has been found wrong; a new plan is wanted

    @property
    def passed_fraction(self) -> float:
        """Share of comparisons made; 1 before the first."""
        return self.compared / self.possible if self.possible else 1.0


class Shedder(BaseShedder[Plan, Setting, float]):
    """Joins two streams within a load.

    Parameters
    ----------
    load
        Fraction r of all comparisons to make, unless a budget decides.
    budget_per_s
        Comparisons per second of stream time.
    cpu_share
        Share of one core, measured; seconds of work per second of stream time.
    tick_s
        Time between two decisions, in stream time; by default a quarter of a basic window.
    adapt
        Whether to watch the time correlation and abandon a plan that has gone stale.
    clock
        Seconds of processor time.

    Examples
    --------
    >>> from planning.examples import demo_plan, demo_samples
    >>> plan = demo_plan("joins")
    >>> rows = {name: column[:6000] for name, column in demo_samples("joins", batch=1).items()}
    >>> whole, tenth = Shedder(plan), Shedder(plan, load=0.1)
    >>> joined = [shedder.push_pair(*plan.layout.streams_of(rows)) for shedder in (whole, tenth)]
    >>> round(tenth.counters.passed_fraction, 2), len(joined[1].left) > 0.3 * len(joined[0].left)
    (0.1, True)
    """

    def __init__(
        self,
        plan: Plan,
        load: float = 1.0,
        *,
        budget_per_s: float | None = None,
        cpu_share: float | None = None,
        tick_s: float | None = None,
        adapt: bool = True,
        seed: int = 1,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        if budget_per_s is not None and cpu_share is not None:
            raise InvalidInput("budget_per_s and cpu_share exclude each other, got both; give one")
        if budget_per_s is not None:
            check_between("budget_per_s", budget_per_s, 0.0, float("inf"))
        if cpu_share is not None:
            check_between("cpu_share", cpu_share, 0.0, 1.0)
        if tick_s is not None:
            check_between("tick_s", tick_s, 0.0, float("inf"), open_low=True)
        self._tick_s = tick_s
        self.budget_per_s, self.cpu_share, self.adapt = budget_per_s, cpu_share, adapt
        self._clock, self._seed = clock, seed
        self.cost = MeasuredCost(plan.unit_cost_s)
        self._offered = self._possible = self._granted = self._unreadable = 0
        self._dropped = self._unknown = 0
        self._busy_s = self._owed_s = self._busy_at_tick_s = 0.0
        self._numbers = [0, 0]
        super().__init__(plan, load)

    def _install(self, plan: Plan) -> None:
        self._plan = plan
        self.values = combine_utilities(plan.utilities, plan.combine)
        self.join = WindowedJoin(
            plan.windows,
            plan.condition,
            vocabulary=plan.vocabulary,
            single_valued=plan.single_valued,
            values=self.values,
            unknown_type=int(np.argmin(plan.utilities)),
            seed=self._seed,
        )
        self.tick_s = self._tick_s or plan.windows.basic_window_s / 4
        self.controller = Controller.of(
            plan, tick_s=self.tick_s, standing_s=0.0, watch=self.adapt
        )
        if not self.adapt:
            self.controller.monitor_fraction = 0.0
        self._credit = np.zeros(plan.density.shape, dtype=np.int64)
        self._arrived = np.zeros((2, len(plan.types)))
        self._last_hits = self.join.tally.hits.copy()
        self._last_made = self.join.tally.comparisons.copy()
        self._tick_at: float | None = None

    @property
    def budgeted(self) -> bool:
        """Whether a budget decides on the load."""
        return self.budget_per_s is not None or self.cpu_share is not None

    @property
    def replan_wanted(self) -> bool:
        """Whether the plan has been found stale and a new one is wanted."""
        return self.controller.replan_wanted

    @property
    def counters(self) -> Counters:
        """What was done so far."""
        total = self.join.tally.total
        return Counters(
            offered=self._offered,
            dropped=self._dropped,
            compared=int(total[probe.COMPARED]) + self._granted,
            possible=int(total[probe.POSSIBLE]) + self._possible,
            matches=int(total[probe.MATCHED]),
            rejected=self.join.rejected + self._unreadable,
            late=int(total[probe.LATE_IN]),
            ignored=int(total[probe.EXPIRED_IN]),
            clock_resets=int(total[probe.RESETS]),
            unknown_types=self._unknown,
            busy_s=self._busy_s,
            stale=self.controller.stale,
        )

    def set_load(self, load: float) -> None:
        """Follow a new load; windows, credits and counters continue."""
        self._setting = self._plan.at(load)
        self._load = self._setting.load
        self.join.select(Selection.of_fractions(self._setting.take, self._setting.oldest))
        self.join.full_fraction = 0.0
        self.join.limit(1.0 if self.budgeted else self._load)
        self._seen, self._pace = 0, 0.0

    def swap(self, plan: Plan) -> None:
        """Follow a new plan; the windows continue if it has the same ones."""
        old = self._plan
        same = (old.windows, old.condition, old.types, old.vocabulary) == (
            plan.windows, plan.condition, plan.types, plan.vocabulary,
        )  # fmt: skip
        if not same:
            super().swap(plan)
            return
        self._plan = plan
        self.values = combine_utilities(plan.utilities, plan.combine)
        self.join.values = self.values
        self.controller.swap(plan)
        self.set_load(self._load)

    def push(self, stream: int, batch: Tuples) -> Matches:
        """Join a batch of one stream, in its order; return the matches it completes."""
        if stream not in (0, 1):
            raise InvalidInput(f"stream must be 0 or 1, got {stream!r}")
        numbers = self._numbers[stream] + np.arange(len(batch))
        self._numbers[stream] += len(batch)
        return self._push(np.full(len(batch), stream), numbers, batch)

    def push_pair(self, left: Tuples, right: Tuples) -> Matches:
        """Join a stretch of both streams in order of time, deciding anew at every tick."""
        stream, rows, batch = merge(left, right)
        numbers = rows + np.array(self._numbers)[stream]
        for i, part in enumerate((left, right)):
            self._numbers[i] += len(part)
        ticks = np.floor(np.nan_to_num(batch.time) / self.tick_s)
        cuts = [0, *(np.flatnonzero(np.diff(ticks)) + 1).tolist(), len(batch)]
        return Matches.together(
            [
                self._push(stream[a:b], numbers[a:b], batch.slice(a, b))
                for a, b in zip(cuts[:-1], cuts[1:], strict=True)
            ]
        )

    def _push(self, stream: IntArray, numbers: IntArray, batch: Tuples) -> Matches:
        self._offered += len(batch)
        batch = self._classes(batch)
        np.add.at(self._arrived, (stream, batch.kind), 1)
        before, begun = self.join.tally.total[0], self._clock()
        matches = self.join.push_merged(stream, numbers, batch)
        compared = int(self.join.tally.total[0] - before)
        spent = self._clock() - begun
        self._busy_s += spent
        self.cost.observe(len(batch), compared, spent)
        self._tick()
        return matches

    def _classes(self, batch: Tuples) -> Tuples:
        """Return the tuples with their class in the plan; unknown types count as the cheapest."""
        layout = self._plan.layout
        cheapest = self.join.unknown_type // (len(layout.sizes) + 1)
        kind = types_in_range(batch.kind, len(layout.types), cheapest)
        self._unknown += int((kind != batch.kind).sum())
        return layout.refine(replace(batch, kind=kind))

    def _tick(self) -> None:
        """Decide anew once a tick of stream time has passed."""
        now = float(self.join.tally.now[0])
        if not np.isfinite(now):
            return
        if self._tick_at is None or now < self._tick_at - self.tick_s:  # first, or clock set back
            self._tick_at = now
            return
        elapsed = now - self._tick_at
        if elapsed < self.tick_s:
            return
        self._settle(elapsed)
        view = self._view(now, elapsed)
        self._tick_at = now
        decision = self.controller.decide(view, None if self.budgeted else self._corrected())
        if self.budgeted:
            self._load = min(1.0, decision.load)
        self.join.select(Selection.of_fractions(decision.take, decision.oldest))
        self.join.full_fraction = decision.full_fraction

    def _corrected(self) -> float:
        """Return the load, moved so that an excess or shortfall of comparisons evens out.

        Without a budget, this share of the comparisons that lie ahead is spent.
        """
        if self._load in (0.0, 1.0):
            return self._load
        tally = self.join.tally
        made, possible = tally.total[[probe.COMPARED, probe.POSSIBLE]] - tally.since
        recent = possible - self._seen
        self._seen = possible
        self._pace += SMOOTHING * (recent - self._pace)
        owed = self._load * (possible - CUSHION * self._pace) - made
        return float(np.clip(self._load + CORRECTION * owed / max(self._pace, 1.0), 0.0, 1.0))

    def _view(self, now: float, elapsed: float) -> View:
        tally = self.join.tally
        hits, made = tally.hits - self._last_hits, tally.comparisons - self._last_made
        self._last_hits, self._last_made = tally.hits.copy(), tally.comparisons.copy()
        arrived, self._arrived = self._arrived, np.zeros_like(self._arrived)
        return View(
            now, elapsed, arrived, np.zeros_like(arrived), self.join.populations(), hits, made,
            self._affordable(float(arrived.sum()) / elapsed),
        )  # fmt: skip

    def _settle(self, elapsed: float) -> None:
        """Record what the last tick left of its processor time, or took beyond it."""
        if self.cpu_share is None:
            return
        spent, self._busy_at_tick_s = self._busy_s - self._busy_at_tick_s, self._busy_s
        most = self.cpu_share * CARRIED_TICKS * self.tick_s
        owed = self._owed_s + self.cpu_share * elapsed - spent
        self._owed_s = float(np.clip(owed, -most, most))

    def _affordable(self, tuples_per_s: float) -> float:
        if self.budget_per_s is not None:
            return self.budget_per_s * self.tick_s
        if self.cpu_share is not None:
            # Measured costs err; the time they leave over or overdraw is evened out step by step.
            seconds = self.cpu_share * self.tick_s + CORRECTION * self._owed_s
            return self.cost.affordable(seconds, tuples_per_s * self.tick_s)
        return float("inf")

    def offer(self, batch: Mapping[str, Any]) -> BoolArray:
        """Decide on rows: which basic windows of the other stream each is to be compared with.

        A fraction of a basic window is spread over tuples: of two tuples at r = 0.5 one is
        compared with it. Rows that cannot be read are compared with nothing.
        """
        n = self._plan.windows.most
        try:
            stream, tuples = self._plan.layout.read(batch)
        except Exception:
            size = batch_size(batch)
            self._unreadable += size
            self._offered += size
            self._dropped += size
            return np.zeros((size, n), dtype=np.bool_)
        keep = np.zeros((len(tuples), n), dtype=np.bool_)
        kind = self._classes(tuples).kind
        self._offered += len(tuples)
        for i in range(2):
            for z in range(self.join.types):
                rows = np.flatnonzero((stream == 1 - i) & (kind == z))
                keep[rows] = self._spread(i, z, rows.size)
        known = int((stream >= 0).sum())
        self._granted += int(keep.sum())
        self._dropped += int((~keep.any(axis=1)).sum())
        self._possible += known * n
        return keep

    def offer_one(self, item: Mapping[str, Any]) -> BoolArray:
        """Decide on one row: the mask over basic windows."""
        row = self.offer({name: np.asarray([value]) for name, value in item.items()})
        return np.asarray(row[0])

    def _spread(self, i: int, z: int, rows: int) -> BoolArray:
        """Grant each basic window to a fraction of the tuples, evenly, by credits."""
        step = (self._setting.take[i, z] * ONE).astype(np.int64)
        credits = self._credit[i, z] + step * np.arange(1, rows + 1)[:, None]
        if rows:
            self._credit[i, z] = credits[-1] % ONE
        granted = (credits >> ONE_BITS) > ((credits - step) >> ONE_BITS)
        return np.asarray(granted & (self._plan.windows.extents_s[i] > 0))
