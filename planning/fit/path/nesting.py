"""Where a plan's drops do not shrink as the load grows: along the observed direction of the rates.

At the rates direction / z the dropped rates times z are piecewise linear in z, because the dropped
rates are in the rates, and a drop fraction is a ratio of two linear functions between two knots:
it is monotone there, so knots and the middles between them tell all. An optimum is unique, hence
linear between two loads if and only if it is at their middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planning.arrays import FloatArray
from planning.fit.simplex.warm import WarmSimplex

if TYPE_CHECKING:
    from planning.fit.plan import Plan

LEAST = 1e-6  # a lower load counts as this one
NARROW = 1e-12
STRAIGHT = 1e-10
RISES = 1e-9
MOST = 4096
"""Pieces at which the search for knots ends; a plan has a few."""


def rising(plan: Plan) -> tuple[str, ...]:
    """Return the arcs whose drop fraction is higher at some load than at a lower one.

    Exact for exact plans. Tables that approximate are sampled at 4,096 loads.
    """
    found: set[str] = set()
    for part in plan.parts:
        inputs = [plan.network.input_ids.index(i) for i in part.network.input_ids]
        direction = plan.reference[inputs] / part.program.max_rates
        if plan.error == 0.0:
            warm = WarmSimplex(part.program)
            ends = _knots(warm, direction)
            loads = np.sort(np.concatenate([ends, (ends[1:] + ends[:-1]) / 2.0]))
            drops = warm.fractions(direction / loads[:, None])
        else:
            loads = np.linspace(LEAST, 1.0, MOST)
            drops = part.selector.drops(direction / loads[:, None])
        rises = np.diff(drops, axis=0).max(axis=0, initial=0.0) > RISES
        found.update(part.selector.arcs[k] for k in np.flatnonzero(rises))
    return tuple(arc.name for arc in plan.network.arcs if arc.name in found)


def _knots(warm: WarmSimplex, direction: FloatArray) -> FloatArray:
    """Return the loads between which the optimum is linear, by halving what is not."""

    def dropped(loads: FloatArray) -> FloatArray:
        return loads[:, None] * warm.dropped(direction / loads[:, None])

    low, high = np.array([LEAST]), np.array([1.0])
    ends = [low, high]
    while 0 < len(low) < MOST:
        middle = (low + high) / 2.0
        bend = dropped(middle) - (dropped(low) + dropped(high)) / 2.0
        bent = (np.abs(bend) > STRAIGHT).any(axis=1) & (high - low > NARROW)
        ends += [middle[bent]]
        low, high = (
            np.concatenate([low[bent], middle[bent]]),
            np.concatenate([middle[bent], high[bent]]),
        )
    return np.unique(np.concatenate(ends))
