"""The join operator at work: it compares what a plan says, within a load or a budget.

At every tick of stream time the controller decides anew, from what has arrived, what the windows
hold and what was found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planning.arrays import IntArray
from planning.errors import InvalidInput
from planning.joins.control import Controller, Limits, MeasuredCost, View
from planning.joins.control.account import CORRECTION, Account, PerSecond, Ticks
from planning.joins.engine import Matches, Selection, WindowedJoin, compile_all, probe
from planning.joins.model import Tuples, combine_utilities, merge, types_in_range
from planning.joins.plan import Plan, Setting

CARRIED_TICKS = 4  # processor time that is made up for later, at most
# What goes on under a new plan, and what only if the windows go on.
MEASURED = (
    "cost", "offered", "unknown_types", "busy_s", "_owed_s", "_busy_at_tick_s", "_numbers",
    "_per_second",
)  # fmt: skip
RUNNING = (
    "join", "_earlier", "_set_aside", "_arrived", "_last_hits", "_last_made", "_last", "_tick_at",
    "_account", "_allowed", "_ticks",
)  # fmt: skip


class GovernedJoin:
    """Joins two streams by a plan.

    All that it calls is compiled when it is built.
    """

    def __init__(self, plan: Plan, setting: Setting, limits: Limits) -> None:
        compile_all()
        self.plan, self.limits = plan, limits
        self.values = combine_utilities(plan.utilities, plan.combine)
        self.join = WindowedJoin(
            plan.windows,
            plan.condition,
            vocabulary=plan.vocabulary,
            single_valued=plan.single_valued,
            values=self.values,
            unknown_type=int(np.argmin(plan.utilities)),
            seed=limits.seed,
        )
        self.tick_s = limits.tick_s or plan.windows.basic_window_s / 4
        self.controller = Controller.of(
            plan, tick_s=self.tick_s, standing_s=0.0, watch=limits.adapt
        )
        if not limits.adapt:
            self.controller.monitor_fraction = 0.0
        self.cost = MeasuredCost(plan.unit_cost_s)
        self.offered = self.unknown_types = 0
        self.busy_s = self._owed_s = self._busy_at_tick_s = 0.0
        self._numbers = [0, 0]
        self._earlier = np.zeros_like(self.join.tally.total)  # counted by joins before this one
        self._set_aside = 0
        self._arrived = np.zeros((2, len(plan.types)))
        self._last_hits = self.join.tally.hits.copy()
        self._last_made = self.join.tally.comparisons.copy()
        self._last = self.join.tally.total.copy()
        self._tick_at: float | None = None
        self._account, self._allowed, self._per_second = Account(), 0.0, PerSecond()
        self._ticks = Ticks(self.tick_s, plan.windows)
        self.set_load(setting)

    @property
    def total(self) -> IntArray:
        """What was counted so far, by the names of :mod:`planning.joins.engine.probe`."""
        return self.join.tally.total + self._earlier

    @property
    def rejected(self) -> int:
        """Tuples set aside: time not a number, items outside the vocabulary."""
        return self.join.rejected + self._set_aside

    def set_load(self, setting: Setting) -> None:
        """Follow a new load from the next tuple on; the account of comparisons goes on."""
        self.load = setting.load
        if self.controller.trusted is not None:  # else the next tick decides
            self.join.select(Selection.of_fractions(setting.take, setting.oldest))
        self._full_fraction = min(self.join.full_fraction, self.load)
        self.join.full_fraction = self._full_fraction
        # Within a budget per second, the limit is set anew for every run of tuples.
        everything = 1.0 if self.limits.budget_per_s is None else 0.0
        self.join.limit(everything if self.limits.budgeted else self.load)

    def adopt(self, old: GovernedJoin, setting: Setting) -> None:
        """Go on where the join of an older plan stops; the windows continue if they are the same.

        Otherwise they start empty, and what was counted and measured goes on.
        """
        for name in MEASURED:
            setattr(self, name, getattr(old, name))
        mine, theirs = (
            (plan.windows, plan.condition, plan.types, plan.vocabulary, plan.single_valued)
            for plan in (self.plan, old.plan)
        )
        if mine == theirs:
            cheapest = self.join.unknown_type
            for name in RUNNING:
                setattr(self, name, getattr(old, name))
            self.join.values[:], self.join.unknown_type = self.values, cheapest
            self.controller.adopt(old.controller)
        else:
            self._earlier, self._set_aside = old.total, old.rejected
        # A budget has found its load; it is the best guess until the next tick.
        self.set_load(self.plan.at(old.load) if self.limits.budgeted else setting)

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
        return self._push(stream, numbers, batch)

    def _push(self, stream: IntArray, numbers: IntArray, batch: Tuples) -> Matches:
        """Join tuples in their order, deciding anew at every tick whatever batches they come in."""
        self.offered += len(batch)
        budgeted = self.limits.budget_per_s is not None
        clock, ends = self._ticks.cut(batch.time, self._per_second.SLOT_S if budgeted else None)
        parts, begin = [], 0
        for end, tick in ends:
            if end > begin:
                if budgeted:
                    self._permit(float(clock[begin]), end - begin)
                run = batch.slice(begin, end)
                parts.append(self._run(stream[begin:end], numbers[begin:end], run))
                begin = end
            if tick:
                self._tick()
        return Matches.together(parts)

    def _run(self, stream: IntArray, numbers: IntArray, batch: Tuples) -> Matches:
        batch = self._classes(batch)
        np.add.at(self._arrived, (stream, batch.kind), 1)
        before, begun = self.join.tally.total.copy(), self.limits.clock()
        matches = self.join.push_merged(stream, numbers, batch)
        made = self.join.tally.total - before
        compared = int(made[probe.COMPARED])
        self._allowed += self.load * float(made[probe.POSSIBLE])
        spent = self.limits.clock() - begun
        self.busy_s += spent
        self.cost.observe(len(batch), compared, spent)
        self._per_second.spend(compared)
        return matches

    def _permit(self, now: float, tuples: int) -> None:
        """Let the next tuples make what the budget has left in this second."""
        stored = self.join.populations()
        take = self.join.selection.take
        shifted = np.pad(stored, ((0, 0), (1, 0)))[:, :-1]  # a basic window may end meanwhile
        selected = max(
            float(np.ceil(take * held[:, None, :] + (take > 0)).sum(axis=2).max())
            for held in (stored, shifted)
        )
        whole = float(stored.sum(axis=1).max()) + tuples
        budget = float(self.limits.budget_per_s or 0.0)
        left = self._per_second.left(now, budget, whole) if self._full_fraction else -1
        self.join.full_fraction = self._full_fraction if left > 0 else 0.0
        if left <= 0:
            left = self._per_second.left(now, budget, min(selected + tuples, whole))
        self.join.tally.since[0] = self.join.tally.total[probe.COMPARED] + left

    def _classes(self, batch: Tuples) -> Tuples:
        """Return the tuples with their class in the plan; unknown types count as the cheapest."""
        layout = self.plan.layout
        cheapest = self.join.unknown_type // (len(layout.sizes) + 1)
        kind = types_in_range(batch.kind, len(layout.types), cheapest)
        self.unknown_types += int((kind != batch.kind).sum())
        return layout.refine(replace(batch, kind=kind))

    def _tick(self) -> None:
        """Decide anew for the next tick."""
        now = float(self.join.tally.now[0])
        if not np.isfinite(now):
            return
        if self._tick_at is None or now < self._tick_at - self.tick_s:  # first, or clock set back
            self._tick_at = now
            return
        elapsed = now - self._tick_at
        if elapsed <= 0.0:
            return
        self._settle(elapsed)
        view = self._view(now, elapsed)
        self._tick_at = now
        made, possible = (self.join.tally.total - self._last)[[probe.COMPARED, probe.POSSIBLE]]
        self._last = self.join.tally.total.copy()
        share = self._account.share(self.load, self._allowed, float(made), float(possible))
        self._allowed = 0.0
        decision = self.controller.decide(view, None if self.limits.budgeted else share)
        if self.limits.budgeted:
            self.load = min(1.0, decision.load)
        self.join.select(Selection.of_fractions(decision.take, decision.oldest))
        self.join.full_fraction = self._full_fraction = decision.full_fraction

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
        if self.limits.cpu_share is None:
            return
        spent, self._busy_at_tick_s = self.busy_s - self._busy_at_tick_s, self.busy_s
        most = self.limits.cpu_share * CARRIED_TICKS * self.tick_s
        owed = self._owed_s + self.limits.cpu_share * elapsed - spent
        self._owed_s = float(np.clip(owed, -most, most))

    def _affordable(self, tuples_per_s: float) -> float:
        if self.limits.budget_per_s is not None:
            return self.limits.budget_per_s * self.tick_s
        if self.limits.cpu_share is not None:
            # Measured costs err; the time they leave over or overdraw is evened out step by step.
            seconds = self.limits.cpu_share * self.tick_s + CORRECTION * self._owed_s
            return self.cost.affordable(seconds, tuples_per_s * self.tick_s)
        return float("inf")
