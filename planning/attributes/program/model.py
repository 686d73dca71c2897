"""The choice of options at one capacity as an integer program, solved by OR-Tools.

A multiple-choice knapsack: stream s takes one mode m (a thinning, or dead bands), and in it every
attribute j takes one option o. y, x and h are 0 or 1.

minimise        sum_smjo loss_smjo x_smjo + sum_sm kept_sm y_sm
mode[s]         sum_m y_sm = 1
option[s,m,j]   sum_o x_smjo = y_sm
header[s,m,j]   y_sm >= h_sm >= y_sm - x_smj0    presence bits, unless all is sent (o = 0)
capacity        sum_s bytes_s <= load * R    pooled sharing
capacity[s]     bytes_s <= load * R_s        proportional sharing (paper V)
excess[p]       e_p >= excess_smjo x_smjo    of every guarantee of priority p

where bytes_s = sum_m share_sm (kept_bytes_s y_sm + header_bytes_s h_sm + sum_jo cost_smjo x_smjo),
and e_p is minimised before the loss, the most important priority first. The frontier of
:mod:`planning.attributes.path` has this optimum for every load. CP-SAT counts in whole numbers, so
a capacity is never exceeded by a tolerance. Where time ends, the variables may vary between 0
and 1: GLOP then gives a lower bound on the loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ortools.linear_solver import pywraplp
from ortools.sat.python import cp_model

from planning.attributes.plan import RATIO_SLACK
from planning.attributes.planner.menu import CAP_SLACK, Source, sources_of, total_weight
from planning.attributes.statistics import Statistics
from planning.errors import InfeasiblePlan, check_between

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters
    from planning.families import Definition

WHOLE = 2**40  # a load or a loss of 1, in whole numbers
GAP = 1e-8  # of the loss: CP-SAT may stop there
Terms = list[tuple[float, int]]  # coefficient and variable


@dataclass(frozen=True, slots=True)
class Solution:
    """The least loss at one load, in a plan's unit, and the share of the bytes it takes."""

    loss: float
    ratio: float
    status: str
    bound: float
    """No choice loses less."""
    excess: Mapping[int, float]
    """What guarantees fall short at most, by priority."""


class Row(NamedTuple):
    """low <= terms <= high, in whole numbers."""

    low: int
    terms: list[tuple[int, int]]
    high: int


class Model:
    """The program of a channel, ready to be solved at any load."""

    def __init__(self, statistics: Statistics, definition: Definition[Parameters]) -> None:
        self.sources = sources_of(statistics, definition.parameters)
        self._variables = 0
        self._rows: list[Row] = []
        self._loss: Terms = []
        self._excess: dict[int, list[tuple[float, int]]] = {}
        rates = [source.stream.share * source.stream.full_bytes for source in self.sources]
        spent = [self._stream(source) for source in self.sources]
        self._bytes = [(b / math.fsum(rates), x) for terms in spent for b, x in terms]
        self._capacities = [self._bytes]
        if definition.parameters.inter_stream != "pooled":
            self._capacities = [
                [(b / rate, x) for b, x in terms] for terms, rate in zip(spent, rates, strict=True)
            ]
        total = total_weight(self.sources)
        self._loss = [(loss / total, x) for loss, x in self._loss]

    def solve(
        self, load: float, limit_s: float = math.inf, *, relaxed: bool = False
    ) -> Solution | None:
        """Return the best choice at a load, None if nothing fits.

        What was not found in time is bounded: the status is then ``bound``.
        """
        caps: dict[int, float] = {}
        limit_s /= 2.0 + len(self._excess)
        for priority in sorted(self._excess, reverse=True):
            found = self._least(load, priority, caps, limit_s)
            if found is None:
                return None
            if math.isnan(found):
                relaxed = True
                break
            caps[priority] = found
        return (self._relaxed if relaxed else self._solved)(load, caps, limit_s)

    def _least(
        self, load: float, priority: int, caps: Mapping[int, float], limit_s: float
    ) -> float | None:
        """Return the smallest excess of a priority; None: nothing fits, NaN: out of time."""
        terms = self._excess[priority]
        values = sorted({0.0, *(over for over, _ in terms)})
        model, x = self._model(load, caps)
        worst = model.new_int_var(0, len(values) - 1, "")
        for over, k in terms:
            model.add(worst >= values.index(over)).only_enforce_if(x[k])
        model.minimize(worst)
        solver, status = _run(model, limit_s, 0.5)
        if status == cp_model.INFEASIBLE:
            return None
        return values[round(solver.objective_value)] if status == cp_model.OPTIMAL else math.nan

    def _solved(self, load: float, caps: Mapping[int, float], limit_s: float) -> Solution | None:
        model, x = self._model(load, caps)
        model.minimize(_weighted([(round(WHOLE * loss), k) for loss, k in self._loss], x))
        solver, status = _run(model, limit_s, GAP * WHOLE)
        if status == cp_model.INFEASIBLE:
            return None
        if status == cp_model.UNKNOWN:
            return self._relaxed(load, caps, limit_s)
        chosen = {k for k, variable in enumerate(x) if solver.boolean_value(variable)}
        loss = math.fsum(part for part, k in self._loss if k in chosen)
        ratio = math.fsum(b for b, k in self._bytes if k in chosen)
        rounding = (len(self._loss) + 1) / WHOLE
        bound = min(loss, solver.best_objective_bound / WHOLE - rounding)
        name = "optimal" if status == cp_model.OPTIMAL else "feasible"
        return Solution(loss, ratio, name, bound, caps)

    def _relaxed(self, load: float, caps: Mapping[int, float], limit_s: float) -> Solution | None:
        """Return a bound by linear programming; whatever it takes is no choice."""
        solver = pywraplp.Solver.CreateSolver("GLOP")
        x = [solver.NumVar(0.0, 1.0, "") for _ in range(self._variables)]
        for low, row, high in self._rows:
            solver.Add(low <= solver.Sum([c * x[k] for c, k in row]))
            solver.Add(solver.Sum([c * x[k] for c, k in row]) <= high)
        for capacity in self._capacities:
            solver.Add(solver.Sum([b * x[k] for b, k in capacity]) <= load + RATIO_SLACK)
        for k in self._beyond(caps):
            x[k].SetUb(0.0)
        solver.Minimize(solver.Sum([loss * x[k] for loss, k in self._loss]))
        if math.isfinite(limit_s):
            solver.SetTimeLimit(max(int(1000.0 * limit_s), 1))
        status = solver.Solve()
        if status == pywraplp.Solver.INFEASIBLE:
            return None
        found = solver.Objective().Value() if status == pywraplp.Solver.OPTIMAL else -math.inf
        return Solution(found, load, "bound", found, caps)

    def _stream(self, source: Source) -> Terms:
        """Add one stream; return its bytes per tuple of the channel."""
        tables = source.tables()
        use = [self._variable() for _ in tables]
        self._rows.append(Row(1, [(1, y) for y in use], 1))
        spent: Terms = []
        for table, y in zip(tables, use, strict=True):
            share = source.stream.share * source.tuple_share(table.mode)
            header = self._variable()
            self._rows.append(Row(0, [(1, y), (-1, header)], 1))
            each = share * table.mode.always
            spent += [(each * source.stream.kept_bytes, y)]
            spent += [(each * source.stream.header_bytes, header)]
            self._loss.append((source.kept_loss(table.mode.thinning), y))
            for item, j in enumerate(source.stream.items.tolist()):
                take = [self._variable() for _ in table.menus[item]]
                self._rows.append(Row(0, [(1, y), *((-1, x) for x in take)], 0))
                whole = [(1, take[0])] if table.menus[item][0] == 0 else []
                self._rows.append(Row(0, [(1, header), (-1, y), *whole], 2))
                unit = share / source.menu.units
                spent += [(unit * c, x) for c, x in zip(table.costs[item], take, strict=True)]
                self._loss += zip(table.losses[item], take, strict=True)
                if j in source.limits:
                    broken = self._excess.setdefault(source.limits[j].priority, [])
                    broken += [e for e in zip(table.excess[item], take, strict=True) if e[0] > 0]
        return spent

    def _variable(self) -> int:
        self._variables += 1
        return self._variables - 1

    def _beyond(self, caps: Mapping[int, float]) -> list[int]:
        """Return the options that break a guarantee by more than its priority's cap."""
        terms = ((cap, self._excess[priority]) for priority, cap in caps.items())
        return [k for cap, broken in terms for over, k in broken if over > cap + CAP_SLACK]

    def _model(
        self, load: float, caps: Mapping[int, float]
    ) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
        model = cp_model.CpModel()
        x = [model.new_bool_var("") for _ in range(self._variables)]
        for low, terms, high in self._rows:
            model.add_linear_constraint(_weighted(terms, x), low, high)
        room = math.floor(WHOLE * (load + RATIO_SLACK))
        for capacity in self._capacities:
            model.add(_weighted([(round(WHOLE * b), k) for b, k in capacity], x) <= room)
        for k in self._beyond(caps):
            model.add(x[k] == 0)
        return model, x


def _weighted(
    terms: list[tuple[int, int]], x: list[cp_model.IntVar]
) -> cp_model.LinearExprT:
    return cp_model.LinearExpr.weighted_sum([x[k] for _, k in terms], [c for c, _ in terms])


def _run(
    model: cp_model.CpModel, limit_s: float, gap: float
) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # the same answer every time
    solver.parameters.absolute_gap_limit = gap
    if math.isfinite(limit_s):
        solver.parameters.max_time_in_seconds = max(limit_s, 1e-3)
    return solver, solver.solve(model)


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
    found = Model(statistics, definition).solve(load, relaxed=relaxed)
    if found is None:
        raise InfeasiblePlan(
            f"load must leave room for the fewest bytes that a thinning sends, got {load:g}; "
            "below it whole tuples are dropped"
        )
    return found
