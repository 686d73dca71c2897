"""Linear programs whose right-hand sides move with the load, solved for every load by OR-Tools.

    maximise    gain · x
    subject to  row_low + z·move <= rows · x <= row_high + z·move
                lower <= x <= upper

Its optimum V(z) is concave and piecewise linear. An optimal x at z has a value, and its duals give
a line that touches V from above: by weak duality the line is a bound at every z, however exact the
solver was. Between two loads the mixture of their settings is feasible and worth at least the chord
of their values. So the gap between chord and tangents, which is largest where the tangents meet,
bounds what interpolating loses there; where it is too large, that is where to solve next.

Before the gain, ``excess`` variables are minimised one after another: the shortfalls of guarantees
by priority. What a level reached, a curve over the load, is the ceiling of its variable from then
on. A tangent then has a price for each ceiling: a bound at every load whose curves are known. Where
an excess falls to 0 is found exactly, because from there on its guarantees hold.

``docs/solver.md`` derives all of it, with a picture.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt

from planning.arrays import FloatArray
from planning.errors import InfeasiblePlan

OPTIMAL = mathopt.TerminationReason.OPTIMAL
UNFINISHED = (
    mathopt.TerminationReason.NO_SOLUTION_FOUND, mathopt.TerminationReason.FEASIBLE,
)  # fmt: skip
TINY = 1e-9
"""Values and loads closer than this are the same."""
SLACK = 1e-7
"""How far above what a level reached its variable may go: the solver's own tolerance."""
FINER = 100.0
"""Excesses are known so many times more exactly than the error asks for."""
COARSE = (64.0, 16.0, 4.0, 1.0)
"""Gaps are closed from so many times the error down: stopped early, none is much larger."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A linear program over a load z; every variable is bounded.

    One scarce good for two uses, the second worth half:

    >>> import scipy.sparse as sparse
    >>> two = Program(np.array([1.0, 0.5]), np.zeros(2), np.full(2, 0.5),
    ...               sparse.csr_array([[1.0, 1.0]]), np.array([-np.inf]), np.zeros(1), np.ones(1))
    >>> made = trace(two, 0.0, 1.0)
    >>> made.loads.tolist(), made.values.tolist(), made.error
    ([0.0, 0.5, 1.0], [0.0, 0.5, 0.75], 0.0)
    """

    gain: FloatArray
    lower: FloatArray
    upper: FloatArray
    rows: Any  # scipy.sparse CSR
    row_low: FloatArray
    row_high: FloatArray
    move: FloatArray
    excess: tuple[int, ...] = ()
    """Variables of lower bound 0 that are minimised first, the most important first."""
    core: tuple[int, int] | None = None
    """So many rows and columns, the first, decide the excesses; the others serve the gain alone."""

    def of_core(self) -> Program:
        """Return the program without what serves the gain alone."""
        rows, columns = self.core or self.rows.shape
        return Program(
            np.zeros(columns), self.lower[:columns], self.upper[:columns],
            self.rows[:rows, :columns], self.row_low[:rows], self.row_high[:rows],
            self.move[:rows], self.excess,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Optimal settings at the loads between which interpolating is good enough."""

    loads: FloatArray  # (b,), rising
    settings: FloatArray  # (b, n)
    values: FloatArray  # (b,), gain · x
    error: float
    """No setting at any load is worth more than this above the interpolated one."""
    excess_error: float
    """No excess can be smaller by more than this than the interpolated one."""
    solves: int
    seconds: float

    def at(self, load: float) -> FloatArray:
        """Return the setting at a load between the first and the last."""
        right = int(np.clip(np.searchsorted(self.loads, load), 1, len(self.loads) - 1))
        a, b = self.loads[right - 1], self.loads[right]
        part = (load - a) / (b - a)
        return np.asarray((1.0 - part) * self.settings[right - 1] + part * self.settings[right])


class Point(NamedTuple):
    """An optimum at one load, and the line, with a price per ceiling, that nothing exceeds."""

    load: float
    value: float
    base: float
    slope: float
    prices: FloatArray
    setting: FloatArray


class Curves:
    """The excesses that were reached, level by level, as functions of the load."""

    def __init__(self) -> None:
        self.loads: FloatArray = np.zeros(0)
        self.values: list[FloatArray] = []

    def at(self, loads: FloatArray | float) -> FloatArray:
        """Return the ceilings (levels, loads)."""
        z = np.atleast_1d(loads)
        known = [np.interp(z, self.loads, values) for values in self.values]
        return np.array(known).reshape(len(known), len(z))

    def add(self, points: list[Point]) -> None:
        """Take in what the next level reached; its loads are more than those known."""
        loads = np.array([point.load for point in points])
        self.values = [np.interp(loads, self.loads, values) for values in self.values]
        self.values.append(np.array([max(0.0, -point.value) for point in points]))
        self.loads = loads

    def floor(self, low: float) -> float:
        """Return the load from which on no level has an excess."""
        some = np.flatnonzero(np.any([values > TINY for values in self.values], axis=0))
        return float(self.loads[some[-1] + 1]) if some.size else low


def trace(
    program: Program, low: float, high: float, *, error: float = 1e-3, limit_s: float = 60.0
) -> Trace:
    """Return settings at as few loads as keep the error; after ``limit_s``, with a larger error."""
    begun = time.monotonic()
    curves, floors, solves = Curves(), [low, high], 0
    if program.excess:
        solver = _Solver(program.of_core(), begun + limit_s)
        for level in range(len(program.excess)):
            floors.append(_reach(solver, level, curves, (low, high), error / FINER))
        solves = solver.solves
    solver = _Solver(program, begun + limit_s)
    solver.aim(None)
    points = [solver.must(load, curves) for load in _apart(floors)]
    for coarse in COARSE:
        _refine(solver, points, curves, coarse * error)
    kept, worst, short = _thinned(points, curves, program.excess, _apart(floors), error)
    return Trace(
        loads=np.array([p.load for p in kept]),
        settings=np.array([p.setting for p in kept]),
        values=np.array([p.value for p in kept]),
        error=worst if worst > TINY else 0.0,
        excess_error=short + error / FINER if program.excess else 0.0,
        solves=solves + solver.solves,
        seconds=time.monotonic() - begun,
    )


def _reach(
    solver: _Solver, level: int, curves: Curves, span: tuple[float, float], exact: float
) -> float:
    """Find the curve of a level's excess, and return the load from which on there is none.

    The loads where earlier curves bend are all solved, so that between neighbours the mixture of
    their settings keeps under every curve.
    """
    solver.aim(level)
    floor = curves.floor(span[0])
    points = [solver.must(load, curves) for load in _apart([*span, floor, *curves.loads.tolist()])]
    first = next(i for i, point in enumerate(points) if point.load >= floor - TINY)
    points[first + 1 : first + 1] = _root(solver, curves, points[first], points[first + 1].load)
    points.sort(key=lambda point: point.load)
    _refine(solver, points, curves, exact)
    curves.add(points)
    return curves.floor(span[0])


def _root(solver: _Solver, curves: Curves, point: Point, high: float) -> list[Point]:
    """Return points up to the least load without excess: Newton's method, which ends exactly.

    The excess is convex and piecewise linear there, so a tangent meets 0 at or before that load.
    """
    steps: list[Point] = []
    while -point.value > TINY and point.slope > 0.0:
        load = min(-point.base / point.slope, high)
        if load >= high - TINY or load <= point.load + TINY:
            break
        point = solver.must(load, curves)
        steps.append(point)
    return steps


def _refine(solver: _Solver, points: list[Point], curves: Curves, largest: float) -> None:
    """Add points until no gap between neighbours is above ``largest``, from left to right.

    A solution near the last one takes few steps of the simplex.
    """
    at = 0
    while at < len(points) - 1:
        p, q = points[at], points[at + 1]
        gap, load = _gap(p, q, curves)
        if solver.whole:
            short, there = _excess_gap(p, q, solver.program.excess, curves)
            if short > max(gap, largest):
                gap, load = short, there
        between = p.load + TINY < load < q.load - TINY
        point = solver.solve(load, curves) if gap > largest and between else None
        if point is None:
            at += 1
        else:
            points.insert(at + 1, point)


def _gap(p: Point, q: Point, curves: Curves) -> tuple[float, float]:
    """Return the largest gap between the chord and the tangents of two points, and where it is."""
    z, above = _bound(p, q, curves)
    gaps = above - np.interp(z, [p.load, q.load], [p.value, q.value])
    worst = int(np.argmax(gaps))
    return max(0.0, float(gaps[worst])), float(z[worst])


def _bound(p: Point, q: Point, curves: Curves) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the lower of two points' tangents between them: loads and heights."""
    z = _between(p, q, curves)
    known = curves.at(z)
    left, right = (t.base + t.slope * z + t.prices @ known for t in (p, q))
    apart = left - right
    turn = np.flatnonzero(apart[:-1] * apart[1:] < 0.0)  # there the tangents meet
    part = apart[turn] / (apart[turn] - apart[turn + 1])
    meet = z[turn] + part * (z[turn + 1] - z[turn])
    height = left[turn] + part * (left[turn + 1] - left[turn])
    return np.append(z, meet), np.append(np.minimum(left, right), height)


def _thinned(
    points: list[Point], curves: Curves, excess: tuple[int, ...], floors: list[float], error: float
) -> tuple[list[Point], float, float]:
    """Return as few of the points as keep the error, floors among them, and the two errors.

    From each point the farthest is taken whose chord stays within the error of all tangents.
    """
    bounds = [_bound(p, q, curves) for p, q in pairwise(points)]
    kept, at, worst, short = [points[0]], 0, 0.0, 0.0
    while at < len(points) - 1:
        end, gap, less = at, 0.0, 0.0
        while end < len(points) - 1:
            p, q = points[at], points[end + 1]
            z, above = (np.concatenate(part) for part in zip(*bounds[at : end + 1], strict=True))
            wider = float((above - np.interp(z, [p.load, q.load], [p.value, q.value])).max())
            lacks, _ = _excess_gap(p, q, excess, curves)
            passed = end > at and any(abs(points[end].load - floor) <= TINY for floor in floors)
            if end > at and (passed or max(wider, lacks) > error):
                break
            end, gap, less = end + 1, wider, lacks
        kept.append(points[end])
        at, worst, short = end, max(worst, gap), max(short, less)
    return kept, worst, short


def _excess_gap(
    p: Point, q: Point, excess: tuple[int, ...], curves: Curves
) -> tuple[float, float]:
    """Return how far an excess lies above its curve when two settings are mixed, and where."""
    if not excess:
        return 0.0, p.load
    z = _between(p, q, curves)
    part = (z - p.load) / (q.load - p.load)
    ends = np.array([point.setting[list(excess)] for point in (p, q)])
    gaps = np.outer(ends[0], 1.0 - part) + np.outer(ends[1], part) - curves.at(z)
    worst = int(np.argmax(gaps.max(axis=0)))
    return max(0.0, float(gaps[:, worst].max())), float(z[worst])


def _between(p: Point, q: Point, curves: Curves) -> FloatArray:
    inside = curves.loads[(curves.loads > p.load) & (curves.loads < q.load)]
    return np.concatenate([[p.load], inside, [q.load]])


def _apart(loads: Iterable[float]) -> list[float]:
    """Return the loads in order, one of those that are the same."""
    kept: list[float] = []
    for load in sorted(loads):
        if not kept or load > kept[-1] + TINY:
            kept.append(load)
    return kept


class _Solver:
    """The program as one OR-Tools model that is solved again and again, from its last basis."""

    def __init__(self, program: Program, deadline: float) -> None:
        self.program, self.deadline, self.solves = program, deadline, 0
        self._model = mathopt.Model.from_model_proto(_proto(program))
        self._x = list(self._model.variables())
        self._rows = list(self._model.linear_constraints())
        self._moving = np.flatnonzero(program.move).tolist()
        self._glop = mathopt.IncrementalSolver(self._model, mathopt.SolverType.GLOP)
        self._goal = program.gain
        self.whole = False

    def aim(self, level: int | None) -> None:
        """Minimise the excess of a level from now on, or maximise the gain."""
        self.whole = level is None
        self._goal = self.program.gain
        if level is not None:
            self._goal = np.zeros(len(self._x))
            self._goal[self.program.excess[level]] = -1.0
        some = np.flatnonzero(self._goal).tolist()
        self._model.maximize(mathopt.fast_sum(float(self._goal[j]) * self._x[j] for j in some))

    def solve(self, load: float, curves: Curves) -> Point | None:
        """Return the optimum at a load; nothing if the time is over."""
        left = self.deadline - time.monotonic()
        return self._solved(load, curves, left) if left > 0.0 else None

    def must(self, load: float, curves: Curves) -> Point:
        """Return the optimum at a load, however long that takes."""
        point = self._solved(load, curves, None)
        if point is None:
            raise InfeasiblePlan(f"the linear program must be solved at load {load:g}, got nothing")
        return point

    def _solved(self, load: float, curves: Curves, left: float | None) -> Point | None:
        program = self.program
        for i in self._moving:
            shift = load * float(program.move[i])
            self._rows[i].lower_bound = float(program.row_low[i]) + shift
            self._rows[i].upper_bound = float(program.row_high[i]) + shift
        caps = curves.at(load)[:, 0]
        for j, cap in zip(program.excess, caps.tolist(), strict=False):
            self._x[j].upper_bound = cap + SLACK
        self.solves += 1
        limit = None if left is None else timedelta(seconds=left)
        parameters = mathopt.SolveParameters(
            time_limit=limit, lp_algorithm=mathopt.LPAlgorithm.DUAL_SIMPLEX
        )
        result = self._glop.solve(params=parameters)
        if result.termination.reason not in (OPTIMAL, *UNFINISHED):
            # The last basis may have led astray: once more from the beginning.
            parameters = mathopt.SolveParameters(time_limit=limit)
            result = mathopt.solve(self._model, mathopt.SolverType.GLOP, params=parameters)
        if result.termination.reason == OPTIMAL:
            return self._point(load, caps, result)
        if left is not None and result.termination.reason in UNFINISHED:
            return None
        raise InfeasiblePlan(
            f"the linear program must have a solution at load {load:g}, got "
            f"{result.termination.reason.name.lower()} from GLOP; report this with the statistics"
        )

    def _point(self, load: float, caps: FloatArray, result: Any) -> Point:
        """Return the setting with its value, and the bound that weak duality makes of the duals.

        With duals y and reduced costs d = gain - y · rows, no x is worth more than y · (the side of
        each row that y pushes against) + d · (the bound of each variable that d pushes against).
        """
        program, capped = self.program, list(self.program.excess[: len(caps)])
        x = np.clip(result.variable_values(self._x), program.lower, program.upper)
        y = np.array(result.dual_values(self._rows))
        side = np.where(y > 0.0, program.row_high, program.row_low)
        y[~np.isfinite(side)] = 0.0
        reduced = self._goal - program.rows.T @ y
        prices = np.maximum(reduced[capped], 0.0)
        bound = np.where(reduced > 0.0, program.upper, program.lower)
        bound[capped] = np.where(reduced[capped] > 0.0, SLACK, 0.0)
        base = float(y @ np.where(y == 0.0, 0.0, side)) + float(reduced @ bound)
        slope = float(y @ program.move)
        return Point(load, float(self._goal @ x), base, slope, prices, x)


def _proto(program: Program) -> Any:
    """Return the model as the message that OR-Tools reads, which is built much faster."""
    rows, columns = program.rows.shape
    model = model_pb2.ModelProto()
    model.variables.ids.extend(range(columns))
    model.variables.lower_bounds.extend(program.lower.tolist())
    model.variables.upper_bounds.extend(program.upper.tolist())
    model.variables.integers.extend([False] * columns)
    model.linear_constraints.ids.extend(range(rows))
    model.linear_constraints.lower_bounds.extend(program.row_low.tolist())
    model.linear_constraints.upper_bounds.extend(program.row_high.tolist())
    entries = program.rows.tocoo()
    model.linear_constraint_matrix.row_ids.extend(entries.row.tolist())
    model.linear_constraint_matrix.column_ids.extend(entries.col.tolist())
    model.linear_constraint_matrix.coefficients.extend(entries.data.tolist())
    return model
