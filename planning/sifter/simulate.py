"""What a plan does to tuples it has not seen, compared with random dropping.

Completeness is measured: the tuples are offered to a real shedder, and each query's matches are
counted before and after. When more than z passes, the server drops the rest blindly, so that both
sides get the same amount of data. A query without matches has completeness 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planning import sampling
from planning.arrays import BoolArray, Columns, FloatArray
from planning.errors import StatisticsError
from planning.families import Definition, Outcome
from planning.sifter import queries
from planning.sifter.model import Space
from planning.sifter.parameters import Parameters
from planning.sifter.plan import Plan
from planning.sifter.queries import Queries
from planning.sifter.queries.matching import PointIndex
from planning.sifter.shedder import Shedder


def evaluate(
    plan: Plan, samples: Columns, definition: Definition[Parameters], loads: Sequence[float]
) -> tuple[Outcome, ...]:
    """Shed ``samples`` with the plan at each load, and at random, and compare."""
    missing = [name for name in plan.space.names if name not in samples]
    if missing:
        raise StatisticsError(
            f"samples must hold the plan's attributes {', '.join(plan.space.names)}, got none "
            f"called {', '.join(missing)}"
        )
    points = Space.of(definition).matrix(samples)
    if not len(points):
        raise StatisticsError("samples must hold at least one tuple, got none")
    bench = Bench(points, queries.of(definition))
    outcomes = []
    for load in loads:
        keep = Shedder(plan, load).offer(samples)
        outcomes.append(
            Outcome(
                load=float(load),
                predicted_quality=plan.predicted_quality(load),
                quality=bench.quality(keep, load),
                random_quality=bench.quality(bench.random_mask(load), load),
                passed_fraction=float(keep.mean()),
                offered=len(points),
            )
        )
    return tuple(outcomes)


class Bench:
    """Fresh tuples and queries, indexed once, on which many plans can be measured."""

    def __init__(self, points: FloatArray, asked: Queries) -> None:
        self.points = points
        self.queries = asked
        self.index = PointIndex.of(points)
        self.matches = self.index.totals(asked, np.ones(len(points)))
        self._keys = sampling.stable_keys([*points.T, np.arange(len(points))])

    def random_mask(self, load: float) -> BoolArray:
        """Keep exactly a fraction ``load`` of the tuples, chosen by hash."""
        keep = np.zeros(len(self.points), dtype=np.bool_)
        keep[np.argsort(self._keys, kind="stable")[: round(load * len(keep))]] = True
        return keep

    def quality(self, keep: BoolArray, load: float) -> float:
        """Return V*, the weighted sum of the queries' QoS."""
        return 1.0 - float(np.dot(self.queries.weight, 1.0 - self.qos(keep, load)))

    def qos(self, keep: BoolArray, load: float) -> FloatArray:
        """Return each query's QoS when the kept tuples, at most a fraction ``load``, are processed.

        It is linear in completeness and may fall below 0 where alpha > 1.
        """
        kept = self.index.totals(self.queries, keep)
        passed = float(keep.mean())
        processed = min(1.0, load / passed) if passed > 0 else 1.0
        completeness = np.ones(self.queries.count)
        np.divide(kept * processed, self.matches, out=completeness, where=self.matches > 0)
        return np.asarray(1.0 - self.queries.slope * (1.0 - completeness))
