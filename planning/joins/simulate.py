"""What a plan does to tuples it has not seen, against random dropping.

The real operator joins the two streams, completely and at each load; quality is the utility of its
matches over that of the complete join. Random dropping keeps each tuple with chance sqrt(r), so
that it makes the same number of comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planning import sampling
from planning.arrays import Columns
from planning.errors import StatisticsError
from planning.families import Outcome
from planning.joins.engine import WindowedJoin
from planning.joins.layout import Layout
from planning.joins.model import Tuples, combine_utilities, merge, types_in_range
from planning.joins.plan import Plan
from planning.joins.shedder import Shedder


def evaluate(
    plan: Plan, samples: Columns, definition: Any, loads: Sequence[float]
) -> tuple[Outcome, ...]:
    """Join ``samples`` at each load by the plan and at random, and compare."""
    left, right = Layout.of(definition).streams_of(samples)
    return measure(plan, left, right, loads)


def measure(
    plan: Plan, left: Tuples, right: Tuples, loads: Sequence[float]
) -> tuple[Outcome, ...]:
    """Join two streams at each load by the plan and at random, and compare."""
    if not len(left) or not len(right):
        raise StatisticsError(
            f"samples must hold tuples of both streams, got {len(left)} and {len(right)}"
        )
    complete, _ = joined(plan, left, right)
    outcomes = []
    for load in loads:
        shedder = Shedder(plan, load, adapt=False)
        shedder.push_pair(left, right)
        utility = float(shedder.join.tally.utility[0])
        random, _ = joined(plan, *(thinned(part, load) for part in (left, right)))
        outcomes.append(
            Outcome(
                load=float(load),
                predicted_quality=plan.predicted_quality(load),
                quality=utility / complete if complete > 0 else 1.0,
                random_quality=min(1.0, random / complete) if complete > 0 else 1.0,
                passed_fraction=shedder.counters.passed_fraction,
                offered=len(left) + len(right),
            )
        )
    return tuple(outcomes)


def joined(plan: Plan, left: Tuples, right: Tuples) -> tuple[float, int]:
    """Return utility and number of comparisons of the complete join."""
    join = WindowedJoin(
        plan.windows,
        plan.condition,
        vocabulary=plan.vocabulary,
        single_valued=plan.single_valued,
        values=combine_utilities(plan.utilities, plan.combine),
        unknown_type=int(np.argmin(plan.utilities)),
        emit=False,
    )
    known = (plan.layout.refine(part) for part in (left, right))
    join.push_merged(*merge(*known))
    return float(join.tally.utility[0]), int(join.tally.total[0])


def thinned(part: Tuples, load: float) -> Tuples:
    """Keep each tuple with probability sqrt(load), by a hash of its row."""
    kind = types_in_range(part.kind, 1 << 30, 0)
    keys = sampling.stable_keys([part.time, kind, np.arange(len(part))])
    return part.take(sampling.in_holdout(keys, float(np.sqrt(load))))
