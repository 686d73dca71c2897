"""What a plan does to tuples it has not seen, beside random dropping and "queries only".

Completeness is measured: the tuples are offered to the data path of a node, and each query's
matches are counted before and after. When more than z passes, the server drops the rest blindly, so
that all sides get the same amount of data. A query without matches has completeness 1.

"Queries only" compares every tuple with every query, as no small filter can: tuples that no query
wants go first, the others are thinned evenly. Once z exceeds the share of tuples that are wanted,
nothing is better.
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
    """Shed ``samples`` with the plan at each load, and by the simple rules, and compare."""
    names = plan.space.names
    missing = [name for name in names if name not in samples]
    if missing:
        raise StatisticsError(
            f"samples must hold the plan's attributes {', '.join(names)}, got none "
            f"called {', '.join(missing)}"
        )
    points, asked = Space.of(definition).matrix(samples), queries.of(definition)
    if not len(points):
        raise StatisticsError("samples must hold at least one tuple, got none")
    columns = {name: samples[name] for name in names}
    benches = {rows: Bench(points[:rows], asked) for rows in {len(points), min(FEW, len(points))}}
    return tuple(_outcome(plan, columns, benches, load) for load in loads)


def _outcome(plan: Plan, columns: Columns, benches: dict[int, Bench], load: Load) -> Outcome:
    rows, steps = max(benches), np.atleast_1d(load).tolist()
    bench, varies = benches[rows], len(steps) > 1

    def shed(size: int, rows: int) -> BoolArray:
        first = {name: values[:rows] for name, values in columns.items()}
        return rehearsal.shed(plan, "sifter", first, load, size=size)

    def quality(size: int, rows: int) -> float:
        return benches[rows].quality(shed(size, rows), load)

    keep = shed(100 if varies else USUAL, rows)
    simple = {"random dropping": bench.thinned(load), "queries only": bench.thinned(load, True)}
    tried = {name: bench.quality(mask, load) for name, mask in simple.items()}
    strongest = max(tried, key=tried.__getitem__)
    return Outcome(
        load=float(np.mean(steps)),
        predicted_quality=float(np.mean([plan.predicted_quality(z) for z in steps])),
        quality=bench.quality(keep, load),
        random_quality=tried.pop("random dropping"),
        passed_fraction=float(keep.mean()),
        offered=rows,
        baselines=tried,
        by_size={} if varies else rehearsal.by_size(rows, quality),
        noise=bench.noise(keep, simple[strongest], load),
        schedule=tuple(steps) if varies else (),
    )


class Bench:
    """Fresh tuples and queries, indexed once, on which many plans can be measured.

    V*, the weighted sum of the queries' QoS, is linear in what is kept: a tuple is worth
    w * alpha / matches to each query that it matches.
    """

    def __init__(self, points: FloatArray, asked: Queries) -> None:
        self.queries = asked
        index = PointIndex.of(points)
        self.matches = index.totals(asked, np.ones(len(points)))
        part = asked.coefficient / np.maximum(self.matches, 1.0)
        self.value = index.add_up(asked, part[asked.owner], len(points))
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

    def quality(self, keep: BoolArray, load: Load) -> float:
        """Return V* when the kept tuples, at most a fraction ``load``, are processed."""
        possible = float(self.queries.coefficient[self.matches > 0].sum())
        return 1.0 - possible + float(self._worth(keep, load).sum())

    def noise(self, keep: BoolArray, other: BoolArray, load: Load) -> float:
        """Return the standard error of the difference in quality between two masks."""
        gain = self._worth(keep, load) - self._worth(other, load)
        blocks = np.array([part.sum() for part in np.array_split(gain, min(BLOCKS, len(gain)))])
        return float(np.sqrt(len(blocks)) * blocks.std(ddof=1)) if len(blocks) > 1 else 0.0

    def _worth(self, keep: BoolArray, load: Load) -> FloatArray:
        """Return what each tuple contributes."""
        passed = float(keep.mean())
        processed = min(1.0, float(np.mean(load)) / passed) if passed > 0 else 1.0
        return np.asarray(self.value * keep * processed)
