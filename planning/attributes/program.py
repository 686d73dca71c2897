"""The choice of options at one capacity as a mixed-integer program, solved by OR-Tools.

A multiple-choice knapsack: stream s takes one mode m (a thinning, or dead bands), and in it every
attribute j takes one option o. y, x and h are 0 or 1.

minimise        sum_smjo loss_smjo x_smjo + sum_sm kept_sm y_sm
mode[s]         sum_m y_sm = 1
option[s,m,j]   sum_o x_smjo = y_sm
header[s,m,j]   y_sm >= h_sm >= y_sm - x_smj0    presence bits, unless all is sent (o = 0)
capacity        sum_s bytes_s <= load * R    pooled sharing
capacity[s]     bytes_s <= load * R_s        proportional sharing (paper V)

where bytes_s = sum_m share_sm (kept_bytes_s y_sm + header_bytes_s h_sm + sum_jo cost_smjo x_smjo).
The frontier of :mod:`planning.attributes.path` has this optimum for every load. ``relaxed`` lets
the variables vary between 0 and 1: GLOP then gives a lower bound on the loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ortools.linear_solver import pywraplp

from planning.attributes.planner import Source, sources_of, total_weight
from planning.attributes.statistics import Statistics
from planning.errors import InfeasiblePlan, check_between

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters
    from planning.families import Definition


@dataclass(frozen=True, slots=True)
class Solution:
    """The least loss at one load, in a plan's unit, and the share of the bytes it takes."""

    loss: float
    ratio: float
    status: str


def solve(
    statistics: Statistics,
    definition: Definition[Parameters],
    load: float,
    *,
    relaxed: bool = False,
) -> Solution:
    """Return the least loss at capacity ratio ``load``.

    >>> from planning.examples import demo_definition, demo_plan, demo_statistics
    >>> definition, statistics = demo_definition("attributes"), demo_statistics("attributes")
    >>> best, bound = (solve(statistics, definition, 0.5, relaxed=r) for r in (False, True))
    >>> planned = 1.0 - demo_plan("attributes").predicted_quality(0.5)
    >>> best.status, bound.loss < best.loss, round(planned - best.loss, 4)
    ('optimal', True, 0.0)
    """
    check_between("load", load, 0.0, 1.0)
    sources = sources_of(statistics, definition.parameters)
    solver = pywraplp.Solver.CreateSolver("GLOP" if relaxed else "SCIP")
    variable = solver.NumVar if relaxed else solver.IntVar
    streams = [_Stream(solver, variable, s, source) for s, source in enumerate(sources)]
    rates = [source.stream.share * source.stream.full_bytes for source in sources]
    if definition.parameters.inter_stream == "pooled":
        spent = solver.Sum([stream.bytes for stream in streams])
        solver.Add(spent <= load * math.fsum(rates), "capacity")
    else:
        for s, (stream, rate) in enumerate(zip(streams, rates, strict=True)):
            solver.Add(stream.bytes <= load * rate, f"capacity[{s}]")
    solver.Minimize(solver.Sum([stream.loss for stream in streams]) / total_weight(sources))
    status = solver.Solve()
    if status != pywraplp.Solver.OPTIMAL:
        raise InfeasiblePlan(
            f"load must leave room for the fewest bytes that a thinning sends, got {load:g}; "
            "below it whole tuples are dropped"
        )
    sent = math.fsum(stream.bytes.solution_value() for stream in streams)
    return Solution(solver.Objective().Value(), sent / math.fsum(rates), "optimal")


class _Stream:
    """The variables and constraints of one stream, its bytes per tuple of the channel, its loss."""

    def __init__(self, solver: Any, variable: Any, s: int, source: Source) -> None:
        modes = source.modes()
        use = [variable(0, 1, f"y[{s},{m}]") for m in range(len(modes))]
        solver.Add(solver.Sum(use) == 1, f"mode[{s}]")
        spent, lost = [], []
        for m, mode in enumerate(modes):
            share = source.stream.share * source.tuple_share(mode)
            header = variable(0, 1, f"h[{s},{m}]")
            solver.Add(header <= use[m], f"header[{s},{m}]")
            spent += [
                share * mode.always * source.stream.kept_bytes * use[m],
                share * mode.always * source.stream.header_bytes * header,
            ]
            lost.append(source.kept_loss(mode.thinning) * use[m])
            costs, losses = source.table(mode)
            for j, (cost, loss) in enumerate(zip(costs, losses, strict=True)):
                take = [variable(0, 1, f"x[{s},{m},{j},{o}]") for o in mode.options]
                solver.Add(solver.Sum(take) == use[m], f"option[{s},{m},{j}]")
                whole = take[0] if mode.options[0] == 0 else 0.0
                solver.Add(header >= use[m] - whole, f"header[{s},{m},{j}]")
                unit = share / source.menu.units
                spent += [unit * c * x for c, x in zip(cost, take, strict=True)]
                lost += [v * x for v, x in zip(loss, take, strict=True)]
        self.bytes = solver.Sum(spent)
        self.loss = solver.Sum(lost)
