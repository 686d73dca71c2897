"""What a plan does to tuples it has not seen, compared with random dropping and newest first.

Rows are offered to a node in batches, in order of time; a join follows its masks. Quality is the
utility of the matches found over that of the complete join, which is made once: of every match it
is noted which tuple completes it, and in which basic window it finds the other one. Random dropping
keeps each tuple with chance sqrt(r), so that it makes as many comparisons and finds the share r on
average; newest first compares every tuple with the newest tuples, as many as r allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from planning import rehearsal
from planning.arrays import BoolArray, Columns, FloatArray, IntArray, sorted_sum
from planning.errors import StatisticsError
from planning.families import Definition, Outcome
from planning.joins.layout import Layout
from planning.joins.model import Tuples, combine_utilities, merge
from planning.joins.parameters import Parameters
from planning.joins.plan import Plan
from planning.rehearsal import Load

BLOCKS = 20  # stretches of the stream that are taken as independent
PAIRS = 1 << 22  # pairs of tuples that are compared at a time
MOST_MATCHES = 1 << 22  # beyond, only those of every so many tuples count


def evaluate(
    plan: Plan, samples: Columns, definition: Definition[Parameters], loads: Sequence[Load]
) -> tuple[Outcome, ...]:
    """Join ``samples`` at each load by the plan and in simple ways, and compare."""
    stream, batch = Layout.of(definition).read(samples)
    order = np.argsort(batch.time, kind="stable")
    order = order[np.isfinite(batch.time[order]) & (batch.kind[order] >= 0) & (stream[order] >= 0)]
    columns = {name: np.asarray(column)[order] for name, column in samples.items()}
    return Trial(plan, columns, stream[order], batch.take(order)).outcomes(loads)


def measure(plan: Plan, left: Tuples, right: Tuples, loads: Sequence[Load]) -> tuple[Outcome, ...]:
    """Join two streams at each load by the plan and in simple ways, and compare."""
    stream, _, batch = merge(left, right)
    return Trial(plan, plan.layout.rows(stream, batch), stream, batch).outcomes(loads)


class Trial:
    """A stretch of both streams in order of time, and what every comparison in it is worth."""

    def __init__(
        self, plan: Plan, columns: Mapping[str, Any], stream: IntArray, batch: Tuples
    ) -> None:
        seen = np.bincount(stream, minlength=2)
        if not seen.all():
            raise StatisticsError(
                f"samples must hold tuples of both streams, got {seen[0]} and {seen[1]}"
            )
        self.plan, self.columns, self.stream, self.batch = plan, columns, stream, batch
        self.rows, self.n = len(batch), plan.windows.most
        windows = plan.windows
        distance = (batch.time - windows.origin_s) / windows.basic_window_s
        self.epoch = np.floor(distance).astype(np.int64)

    @cached_property
    def matches(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Of each match of the complete join: the later tuple, the earlier one, and the utility."""
        from planning.joins.engine import WindowedJoin

        plan = self.plan
        values = combine_utilities(plan.utilities, plan.combine)
        join = WindowedJoin(
            plan.windows, plan.condition, vocabulary=plan.vocabulary,
            single_valued=plan.single_valued, values=values,
        )  # fmt: skip
        refined = plan.layout.refine(self.batch)
        step = max(PAIRS // self.rows, 64)
        pairs, stride = np.zeros((0, 2), dtype=np.int64), 1
        for a in range(0, self.rows, step):
            b = min(a + step, self.rows)
            found = join.push_merged(self.stream[a:b], np.arange(a, b), refined.slice(a, b))
            fresh = np.sort(np.column_stack((found.left, found.right)), axis=1)
            pairs = np.concatenate((pairs, fresh[fresh[:, 1] % stride == 0]))
            while len(pairs) > MOST_MATCHES and stride < self.rows:
                stride *= 2
                pairs = pairs[pairs[:, 1] % stride == 0]
        earlier, later = pairs[np.lexsort(pairs.T)].T
        return later, earlier, values[refined.kind[later], refined.kind[earlier]]

    @cached_property
    def place(self) -> IntArray:
        """Where in the mask every match is granted."""
        later, earlier, _ = self.matches
        back = np.minimum(self.epoch[later] - self.epoch[earlier], self.n - 1)
        return np.asarray(later * self.n + back)

    def _stored(self, begin: int, end: int) -> IntArray:
        """Return how many tuples each basic window holds as tuples ``begin`` to ``end`` arrive."""
        table = np.zeros((end - begin, self.n), dtype=np.int64)
        for i, n in enumerate(self.plan.windows.counts):
            stored = np.flatnonzero(self.stream == i)
            probing = begin + np.flatnonzero(self.stream[begin:end] == 1 - i)
            epochs = self.epoch[probing, None] - np.arange(n - 1)
            oldest = self.batch.time[probing] - self.plan.windows.window_s[i]
            low = np.searchsorted(self.batch.time[stored], oldest, side="left")
            bounds = np.searchsorted(self.epoch[stored], epochs, side="left")
            bounds = np.maximum(
                np.column_stack((np.searchsorted(stored, probing), bounds, low)), low[:, None]
            )
            table[probing - begin, :n] = bounds[:, :-1] - bounds[:, 1:]
        return table

    def outcomes(self, loads: Sequence[Load]) -> tuple[Outcome, ...]:
        """Return what happens at each load."""
        return tuple(self._outcome(load) for load in loads)

    def _outcome(self, load: Load) -> Outcome:
        steps = load if isinstance(load, tuple) else (float(load),)
        size = 100 if isinstance(load, tuple) else rehearsal.USUAL
        keep = self._offered(load, size, self.rows)
        later, earlier, utility = self.matches
        at = rehearsal.along(load, self.rows)
        ways = {
            "plan": keep.ravel()[self.place],
            "random dropping": np.sqrt(at[later] * at[earlier]),
            "newest first": self._newest_first(load),
        }
        complete = self._totals(np.ones(utility.size))
        found = {name: self._totals(share) for name, share in ways.items()}
        quality = {name: _share(blocks, complete) for name, blocks in found.items()}
        rival = max("random dropping", "newest first", key=lambda name: quality[name])
        sizes = {}
        if not isinstance(load, tuple):
            sizes = rehearsal.by_size(self.rows, lambda *case: self._quality(steps, *case))
        return Outcome(
            load=float(np.mean(steps)),
            predicted_quality=float(np.mean([self.plan.predicted_quality(r) for r in steps])),
            quality=quality["plan"],
            random_quality=quality["random dropping"],
            passed_fraction=self._passed(keep, at),
            offered=self.rows,
            baselines={"newest first": quality["newest first"]},
            by_size=sizes,
            noise=_error(found["plan"] - found[rival], complete),
            error=_error(found["plan"], complete),
            schedule=steps if isinstance(load, tuple) else (),
        )

    def _offered(self, load: Load, size: int, rows: int) -> BoolArray:
        columns = {name: column[:rows] for name, column in self.columns.items()}
        return rehearsal.shed(cast(Any, self.plan), "joins", columns, load, size=size)

    def _quality(self, load: Load, size: int, rows: int) -> float:
        """Return the quality at a batch size, of the first tuples."""
        keep = self._offered(load, size, rows)
        here = self.matches[0] < rows
        utility = self.matches[2][here]
        return _share(utility * keep.ravel()[self.place[here]], utility)

    def _passed(self, keep: BoolArray, at: FloatArray) -> float:
        """Return the share of all comparisons that a join makes by a mask.

        Where the load changes, it is what the mean load stands for: the share of what was allowed.
        """
        made = allowed = 0.0
        for a in range(0, self.rows, rehearsal.USUAL):
            b = min(a + rehearsal.USUAL, self.rows)
            table = self._stored(a, b)
            made += float(table[keep[a:b]].sum())
            allowed += float(table.sum(axis=1) @ at[a:b])
        return made / allowed * float(at.mean()) if allowed else 1.0

    def _newest_first(self, load: Load) -> FloatArray:
        """Return the share of each match that is found by comparing with the newest tuples.

        Every tuple is granted the share r of its comparisons, so that the budget holds at all
        times, as it does for a plan.
        """
        later = self.matches[0]
        at, shares = rehearsal.along(load, self.rows), np.zeros(later.size)
        for a in range(0, self.rows, rehearsal.USUAL):
            b = min(a + rehearsal.USUAL, self.rows)
            stored = self._stored(a, b)
            upto = np.cumsum(stored, axis=1)
            left = at[a:b, None] * upto[:, -1:] - (upto - stored)
            low, high = np.searchsorted(later, (a, b))
            take = np.clip(left / np.maximum(stored, 1), 0.0, 1.0)
            shares[low:high] = take.ravel()[self.place[low:high] - a * self.n]
        return shares

    def _totals(self, share: FloatArray | BoolArray) -> FloatArray:
        """Return the utility that is found in every block, given the share of each match."""
        block = self.matches[0] * BLOCKS // self.rows
        found = np.bincount(block, self.matches[2] * share, minlength=BLOCKS)
        return found.astype(np.float64)


def _share(found: FloatArray, complete: FloatArray) -> float:
    total = sorted_sum(complete)
    return min(1.0, sorted_sum(found) / total) if total > 0 else 1.0


def _error(gain: FloatArray, complete: FloatArray) -> float:
    """Return the standard error of the gain over the total, from blocks.

    >>> round(_error(np.array([1.0, 3.0]), np.array([10.0, 10.0])), 3)
    0.1
    """
    total = float(complete.sum())
    if total <= 0:
        return 0.0
    rest = gain - complete * float(gain.sum()) / total
    return float(np.sqrt((rest**2).sum() * len(gain) / (len(gain) - 1))) / total
