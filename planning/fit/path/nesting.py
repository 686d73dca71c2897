"""Where a plan's drops bend, or do not shrink, as the load grows in the direction of the rates.

At the rates direction / z the dropped rates times z are piecewise linear in z, because the dropped
rates are in the rates, and a drop fraction is a ratio of two linear functions between two knots:
it is monotone there, so knots and the middles between them tell all. An optimum, with all its
shortfalls, is unique, hence linear between two loads if and only if it is at their middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planning.arrays import FloatArray
from planning.errors import PlanningError
from planning.fit.simplex.warm import WarmSimplex
from planning.guarantees import NOWHERE

if TYPE_CHECKING:
    from planning.fit.plan import Plan

LEAST = 1e-6  # a lower load counts as this one
NARROW = 1e-12
CLOSE = 1e-8  # neighbours this close have a knot between them
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
            ends = _ends(warm, direction)
            loads = np.sort(np.concatenate([ends, (ends[1:] + ends[:-1]) / 2.0]))
            drops = warm.fractions(direction / loads[:, None])
        else:
            loads = np.linspace(LEAST, 1.0, MOST)
            drops = part.selector.drops(direction / loads[:, None])
        rises = np.diff(drops, axis=0).max(axis=0, initial=0.0) > RISES
        found.update(part.selector.arcs[k] for k in np.flatnonzero(rises))
    return tuple(arc.name for arc in plan.network.arcs if arc.name in found)


def knots(plan: Plan, reference: FloatArray) -> list[float]:
    """Return the loads, from high to low, where the optimum of rates ``reference`` / load bends."""
    ends = _all_ends(plan, reference)
    bends = [each[1:][np.diff(each) < CLOSE].round(7).tolist() for each in ends]
    return sorted({1.0}.union(*bends), reverse=True)


def holds_from(plan: Plan) -> tuple[float, ...]:
    """Return for each of a plan's minimums the least load from which on it holds at every load.

    What an output lacks is linear in 1 / load between two neighbours of the loads where the optimum
    bends, or from where on the rates bring the minimum. Exact for exact plans.
    """
    asked, _, full = plan.reached(plan.reference[None, :])
    begins = (full[0] / asked).clip(LEAST, 1.0)
    loads = np.unique(np.concatenate([*_all_ends(plan, plan.reference), begins, [LEAST, 1.0]]))
    _, reached, full = plan.reached(plan.reference / loads[:, None])
    short = reached < np.minimum(asked, full) * (1.0 - RISES)
    following = np.append(loads[1:], NOWHERE)
    return tuple(np.where(short, following[:, None], 0.0).max(axis=0).tolist())


def _all_ends(plan: Plan, reference: FloatArray) -> list[FloatArray]:
    """Return :func:`_ends` of every part, at the rates ``reference`` / load."""
    inputs = {name: k for k, name in enumerate(plan.network.input_ids)}
    return [
        _ends(
            WarmSimplex(part.program),
            reference[[inputs[i] for i in part.network.input_ids]] / part.program.max_rates,
        )
        for part in plan.parts
    ]


def _ends(warm: WarmSimplex, direction: FloatArray) -> FloatArray:
    """Return the loads between which the optimum is linear, by halving what is not.

    If rounding keeps it from being certified at some load, 4,096 loads stand for all.
    """
    try:
        return _halved(warm, direction)
    except PlanningError:
        return np.linspace(LEAST, 1.0, MOST)


def _halved(warm: WarmSimplex, direction: FloatArray) -> FloatArray:
    def optimum(loads: FloatArray) -> FloatArray:
        return loads[:, None] * warm.variables(direction / loads[:, None])

    low, high = np.array([LEAST]), np.array([1.0])
    ends = [low, high]
    while 0 < len(low) < MOST:
        middle = (low + high) / 2.0
        bend = optimum(middle) - (optimum(low) + optimum(high)) / 2.0
        bent = (np.abs(bend) > STRAIGHT).any(axis=1) & (high - low > NARROW)
        ends += [middle[bent]]
        low, high = (
            np.concatenate([low[bent], middle[bent]]),
            np.concatenate([middle[bent], high[bent]]),
        )
    return np.unique(np.concatenate(ends))
