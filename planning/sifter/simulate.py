"""What a plan does to tuples it has not seen, compared with random dropping.

Completeness is measured: the tuples are offered to the data path of a node, and each query's
matches are counted before and after. When more than z passes, the server drops the rest blindly, so
that both sides get the same amount of data. A query without matches is taken to be as complete as
what passes at its centre, else the quality would depend on how many tuples are tried.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planning import rehearsal, sampling
from planning.arrays import BoolArray, Columns, FloatArray
from planning.errors import StatisticsError
from planning.families import Definition, Outcome
from planning.rehearsal import FEW, USUAL, Load
from planning.sifter import queries
from planning.sifter.model import Space
from planning.sifter.parameters import Parameters
from planning.sifter.plan import Plan
from planning.sifter.queries import Queries
from planning.sifter.queries.matching import PointIndex

BLOCKS = 50
"""Stretches of the stream that are compared with one another for the noise."""


def evaluate(
    plan: Plan, samples: Columns, definition: Definition[Parameters], loads: Sequence[Load]
) -> tuple[Outcome, ...]:
    """Shed ``samples`` with the plan at each load, and at random, and compare."""
    names = plan.space.names
    missing = [name for name in names if name not in samples]
    if missing:
        raise StatisticsError(
            f"samples must hold the plan's attributes {', '.join(names)}, got none "
            f"called {', '.join(missing)}"
        )
    space, asked = Space.of(definition), queries.of(definition)
    points = space.matrix(samples)
    if not len(points):
        raise StatisticsError("samples must hold at least one tuple, got none")
    columns = {name: samples[name] for name in names}
    sizes = {len(points), min(FEW, len(points))}
    benches = {rows: Bench(points[:rows], asked, space.names) for rows in sizes}
    return tuple(_outcome(plan, columns, benches, load) for load in loads)


def _outcome(plan: Plan, columns: Columns, benches: dict[int, Bench], load: Load) -> Outcome:
    rows, steps = max(benches), np.atleast_1d(load).tolist()
    bench, varies = benches[rows], len(steps) > 1

    def shed(size: int, rows: int) -> BoolArray:
        first = {name: values[:rows] for name, values in columns.items()}
        return rehearsal.shed(plan, "sifter", first, load, size=size)

    def quality(size: int, rows: int) -> float:
        there = benches[rows].elsewhere(plan, load)
        return benches[rows].quality(shed(size, rows), load, there)

    keep = shed(100 if varies else USUAL, rows)
    random = bench.thinned(load)
    return Outcome(
        load=float(np.mean(steps)),
        predicted_quality=float(np.mean([plan.predicted_quality(z) for z in steps])),
        quality=bench.quality(keep, load, bench.elsewhere(plan, load)),
        random_quality=bench.quality(random, load),
        passed_fraction=float(keep.mean()),
        offered=rows,
        by_size={} if varies else rehearsal.by_size(rows, quality),
        noise=bench.noise(keep, random, load),
        error=bench.error(keep, load),
        schedule=tuple(steps) if varies else (),
    )


class Bench:
    """Fresh tuples and queries, indexed once, on which many plans can be measured.

    V*, the weighted sum of the queries' QoS, is linear in what is kept: a tuple is worth
    w * alpha / matches to each query that it matches. QoS lines add what they lie above that.
    """

    def __init__(self, points: FloatArray, asked: Queries, names: Sequence[str] = ()) -> None:
        self.queries = asked
        self.names = names  # of the axes, if the plan may have them in another order
        self.index = index = PointIndex.of(points)
        self.matches = index.totals(asked, np.ones(len(points)))
        self.unseen = np.flatnonzero(self.matches == 0)
        self.value = self._valued(asked.slope, len(points))
        self.wanted = index.add_up(asked, np.ones(len(asked.owner)), len(points)) > 0
        self._keys = sampling.stable_keys([*points.T, np.arange(len(points))])

    def thinned(self, load: Load, wanted_first: bool = False) -> BoolArray:
        """Keep the fraction ``load`` of the tuples, chosen by hash; of each stretch, if it changes.

        ``wanted_first``: tuples that match any query before the others.
        """
        rows = len(self.value)
        at = rehearsal.along(load, rows)
        stretch = np.cumsum(np.diff(at, prepend=at[:1]) != 0)
        order = np.lexsort((self._keys, ~self.wanted & wanted_first, stretch))
        place = np.arange(rows) - np.searchsorted(stretch, stretch)
        keep = np.empty(rows, dtype=np.bool_)
        keep[order] = place < np.rint(at * np.bincount(stretch)[stretch])
        return keep

    def elsewhere(self, plan: Plan, load: Load) -> FloatArray:
        """Return which fraction a plan lets pass at the centres of queries without matches."""
        first = np.searchsorted(self.queries.owner, self.unseen)
        axes = [self.names.index(name) for name in plan.space.names] if self.names else slice(None)
        low = np.maximum(self.queries.low[first][:, axes], plan.space.low)
        high = np.minimum(self.queries.high[first][:, axes], plan.space.high)
        region = plan.partition.lookup(np.ascontiguousarray((low + high) / 2.0))
        passed = [1.0 - plan.at(z).drop_thresholds[region] for z in np.atleast_1d(load).tolist()]
        return np.asarray(np.mean(passed, axis=0))

    def quality(
        self, keep: BoolArray, load: Load, elsewhere: FloatArray | None = None
    ) -> float:
        """Return V* when the kept tuples, at most a fraction ``load``, are processed.

        ``elsewhere`` is how complete queries without matches are; without it, as at random.
        """
        total, unseen = self.queries.coefficient.sum(), self.queries.coefficient[self.unseen]
        there = np.dot(unseen, np.mean(load) if elsewhere is None else elsewhere)
        worth = (self.value * self._processed(keep, load)).sum()
        bends, lift = self.queries.bends, 0.0
        if bends.at.size:
            lifted = bends.lift(self.completeness(keep, load, elsewhere))
            lift = float(np.dot(self.queries.weight[bends.owner], lifted))
        return float(1.0 - total + worth + np.sum(there)) + lift

    def completeness(
        self, keep: BoolArray, load: Load, elsewhere: FloatArray | None = None
    ) -> FloatArray:
        """Return which share of its matches every query gets, as ``quality`` counts it."""
        found = self.index.totals(self.queries, self._processed(keep, load))
        found /= np.maximum(self.matches, 1.0)
        found[self.unseen] = np.mean(load) if elsewhere is None else elsewhere
        return np.asarray(found)

    def noise(self, keep: BoolArray, other: BoolArray, load: Load) -> float:
        """Return the standard error of the difference in quality between two masks."""
        one, two = (self._value_at(mask, load) * self._processed(mask, load)
                    for mask in (keep, other))  # fmt: skip
        return _deviation(one - two)

    def error(self, keep: BoolArray, load: Load) -> float:
        """Return the standard error of a mask's quality."""
        value = self._value_at(keep, load)
        worth = value * self._processed(keep, load)
        share = float(worth.sum()) / max(float(value.sum()), 1e-300)
        return _deviation(worth - share * value)

    def _value_at(self, keep: BoolArray, load: Load) -> FloatArray:
        """Return what each tuple is worth where a mask leads: QoS lines have other slopes there."""
        asked = self.queries
        if not asked.bends.at.size:
            return self.value
        slopes = asked.bends.slopes(self.completeness(keep, load), asked.slope)
        return self._valued(slopes, len(keep))

    def _valued(self, slope: FloatArray, rows: int) -> FloatArray:
        part = self.queries.weight * slope / np.maximum(self.matches, 1.0)
        return self.index.add_up(self.queries, part[self.queries.owner], rows)

    def _processed(self, keep: BoolArray, load: Load) -> FloatArray:
        """Return which part of each tuple is processed."""
        passed = float(keep.mean())
        return np.asarray(keep * (min(1.0, float(np.mean(load)) / passed) if passed > 0 else 1.0))


def _deviation(gain: FloatArray) -> float:
    """Return the standard deviation of a sum over tuples, from stretches of the stream."""
    blocks = np.array([part.sum() for part in np.array_split(gain, min(BLOCKS, len(gain)))])
    return float(np.sqrt(len(blocks)) * blocks.std(ddof=1)) if len(blocks) > 1 else 0.0
