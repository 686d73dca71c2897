"""What a plan does to tuples it has not seen, compared with random dropping.

The real operator joins the two streams, completely and at each load; quality is the utility of its
matches over that of the complete join. Random dropping keeps each tuple with chance sqrt(r), so
that it makes the same number of comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planning import sampling
from planning.arrays import Columns
from planning.errors import StatisticsError
from planning.families import Definition, Outcome
from planning.joins.layout import Layout
from planning.joins.model import Tuples, types_in_range
from planning.joins.parameters import Parameters
from planning.joins.plan import Plan
from planning.joins.shedder import Shedder


def evaluate(
    plan: Plan, samples: Columns, definition: Definition[Parameters], loads: Sequence[float]
) -> tuple[Outcome, ...]:
    """Join ``samples`` at each load by the plan and at random, and compare."""
    return measure(plan, *Layout.of(definition).streams_of(samples), loads)


def measure(
    plan: Plan, left: Tuples, right: Tuples, loads: Sequence[float]
) -> tuple[Outcome, ...]:
    """Join two streams at each load by the plan and at random, and compare."""
    if not len(left) or not len(right):
        raise StatisticsError(
            f"samples must hold tuples of both streams, got {len(left)} and {len(right)}"
        )
    complete, _ = shed(plan, left, right, 1.0)
    outcomes = []
    for load in loads:
        utility, passed_fraction = shed(plan, left, right, load)
        random, _ = shed(plan, thinned(left, load), thinned(right, load), 1.0)
        outcomes.append(
            Outcome(
                load=float(load),
                predicted_quality=plan.predicted_quality(load),
                quality=utility / complete if complete > 0 else 1.0,
                random_quality=min(1.0, random / complete) if complete > 0 else 1.0,
                passed_fraction=passed_fraction,
                offered=len(left) + len(right),
            )
        )
    return tuple(outcomes)


def shed(plan: Plan, left: Tuples, right: Tuples, load: float) -> tuple[float, float]:
    """Join two streams at a load by the code that nodes run; return utility and share compared."""
    shedder = Shedder(plan, load, adapt=False)
    shedder.push_pair(left, right)
    return float(shedder.join.tally.utility[0]), shedder.counters.passed_fraction


def thinned(part: Tuples, load: float) -> Tuples:
    """Keep each tuple with probability sqrt(load), by a hash of its row."""
    kind = types_in_range(part.kind, 1 << 30, 0)
    keys = sampling.stable_keys([part.time, kind, np.arange(len(part))])
    return part.take(sampling.in_holdout(keys, float(np.sqrt(load))))
