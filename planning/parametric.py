"""The optimum of a linear program for every load at once, with a proven error.

The optimum V(z) of a :class:`~planning.linear.Program` is concave and piecewise linear. An optimal
x at z has a value, and its duals give a line that touches V from above: by weak duality the line is
a bound at every z, however exact the solver was. Between two loads the mixture of their settings is
feasible and worth at least the chord of their values. So the gap between chord and tangents, which
is largest where the tangents meet, bounds what interpolating loses there; where it is too large,
that is where to solve next.

Before the gain, ``excess`` variables are minimised one after another: the shortfalls of guarantees
by priority. What a level reached, a curve over the load, is the ceiling of its variable from then
on. A tangent then has a price for each ceiling: a bound at every load whose curves are known. Where
an excess falls to 0 is found exactly, because from there on its guarantees hold.

``docs/solver.md`` derives all of it, with a picture.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InfeasiblePlan
from planning.linear import Point, Program, Solver

__all__ = ["Point", "Program", "Solver", "Trace", "trace"]

TINY = 1e-9
"""Values and loads closer than this are the same."""
FINER = 1e4
"""Excesses are known so many times more exactly than the error asks for: what is too much in one
may be worth a thousand times as much in a less important one."""
ROOM = 0.1
"""Part of the error by which an excess may stay above its least for the gain, where there is one:
without any room dual prices say little about other loads, and solving takes long."""
COARSE = (64.0, 16.0, 4.0, 1.0, 0.25)
"""Gaps are closed from so many times the error down: stopped early, none is much larger. The last
is below 1, so that loads may be chosen that use up the error."""
HALVINGS = 20


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


class Curves:
    """What the excesses may be, level by level, as functions of the load."""

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

    def eased(self, room: float, most: FloatArray) -> Curves:
        """Return curves with room above, where there is an excess."""
        curves = Curves()
        curves.loads = self.loads
        curves.values = [
            np.minimum(values + np.minimum(values, room), upper)
            for values, upper in zip(self.values, most.tolist(), strict=True)
        ]
        return curves

    def floor(self, low: float) -> float:
        """Return the load from which on no level has an excess."""
        some = np.flatnonzero(np.any([values > TINY for values in self.values], axis=0))
        return float(self.loads[some[-1] + 1]) if some.size else low


def trace(
    program: Program, low: float, high: float, *, error: float = 1e-3, limit_s: float = 60.0
) -> Trace:
    """Return settings at as few loads as keep the error; after ``limit_s``, with a larger error.

    One scarce good for two uses, the second worth half:

    >>> import scipy.sparse as sparse
    >>> two = Program(np.array([1.0, 0.5]), np.zeros(2), np.full(2, 0.5),
    ...               sparse.csr_array([[1.0, 1.0]]), np.array([-np.inf]), np.zeros(1), np.ones(1))
    >>> made = trace(two, 0.0, 1.0)
    >>> made.loads.tolist(), made.values.tolist(), made.error
    ([0.0, 0.5, 1.0], [0.0, 0.5, 0.75], 0.0)
    """
    begun = time.monotonic()
    curves, floors, solves, vague = Curves(), [low, high], 0, 0.0
    if program.excess:
        solver = Solver(program.of_core())
        for level in range(len(program.excess)):
            course = _Course(solver, level, curves, begun + limit_s)
            floor, gap = _reach(course, level, (low, high), error / FINER)
            floors, vague = [*floors, floor], max(vague, gap)
        solves = solver.solves
    curves = curves.eased(ROOM * error, program.upper[list(program.excess)])
    course = _Course(Solver(program), None, curves, begun + limit_s)
    points = [course.must(load) for load in reversed(_apart(floors))][::-1]
    for coarse in COARSE:
        _refine(course, points, coarse * error)
    kept = _fewest(course, points, _apart(floors), error)
    worst, short = _errors(kept, points, course)
    return Trace(
        loads=np.array([p.load for p in kept]),
        settings=np.array([p.setting for p in kept]),
        values=np.array([p.value for p in kept]),
        error=worst if worst > TINY else 0.0,
        excess_error=short + ROOM * error + vague if program.excess else 0.0,
        solves=solves + course.solver.solves,
        seconds=time.monotonic() - begun,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Course:
    """What is solved load after load: one level's excess, or the gain; under the curves so far."""

    solver: Solver
    level: int | None
    curves: Curves
    deadline: float

    @property
    def excess(self) -> list[int]:
        """The variables that have a curve."""
        return list(self.solver.program.excess[: len(self.curves.values)])

    def solve(self, load: float, limit_s: float | None = None) -> Point | None:
        """Return the optimum at a load; nothing if the time is over."""
        left = self.deadline - time.monotonic() if limit_s is None else limit_s
        caps = self.curves.at(load)[:, 0]
        if self.level is None:
            return self.solver.optimum(load, caps, left)
        return self.solver.reach(self.level, load, caps, left)

    def must(self, load: float) -> Point:
        """Return the optimum at a load, however long that takes."""
        point = self.solve(load, math.inf)
        if point is None:
            raise InfeasiblePlan(f"the linear program must be solved at load {load:g}, got nothing")
        return point


def _reach(
    course: _Course, level: int, span: tuple[float, float], exact: float
) -> tuple[float, float]:
    """Find the curve of a level's excess; return from which load on there is none, and its error.

    The loads where earlier curves bend are all solved, so that between neighbours the mixture of
    their settings keeps under every curve.
    """
    curves = course.curves
    floor = curves.floor(span[0])
    wanted = _apart([*span, floor, *curves.loads.tolist()])
    points = [course.must(load) for load in reversed(wanted)][::-1]
    at = next(i for i, point in enumerate(points) if point.load >= floor - TINY)
    first = min(at, len(points) - 2)  # a floor may be the last load
    points[first + 1 : first + 1] = _root(course, points[first], points[first + 1].load)
    points.sort(key=lambda point: point.load)
    _refine(course, points, exact)
    gap = max(_gap(p, q, curves)[0] for p, q in pairwise(points))
    curves.add(points)
    return curves.floor(span[0]), gap


def _root(course: _Course, point: Point, high: float) -> list[Point]:
    """Return points up to the least load without excess: Newton's method, which ends exactly.

    The excess is convex and piecewise linear there, so a tangent meets 0 at or before that load.
    """
    steps: list[Point] = []
    while -point.value > TINY and point.slope > 0.0:
        load = min(-point.base / point.slope, high)
        if load >= high - TINY or load <= point.load + TINY:
            break
        point = course.must(load)
        steps.append(point)
    return steps


def _refine(course: _Course, points: list[Point], largest: float) -> None:
    """Add points until no gap between neighbours is above ``largest``, from high loads to low.

    A solution near the last one takes few steps of the simplex, and the first, where nothing is
    shed, takes none.
    """
    at = len(points) - 2
    while at >= 0:
        p, q = points[at], points[at + 1]
        gap, load = _gap(p, q, course.curves)
        if course.level is None:
            short, there = _excess_gap(p, q, course)
            if short > max(gap, largest):
                gap, load = short, there
        between = p.load + TINY < load < q.load - TINY
        point = course.solve(load) if gap > largest and between else None
        if point is None:
            at -= 1
        else:
            at += 1
            points.insert(at, point)


def _gap(p: Point, q: Point, curves: Curves) -> tuple[float, float]:
    """Return the largest gap between the chord and the tangents of two points, and where it is."""
    z, above = _bound(p, q, curves)
    gaps = above - np.interp(z, [p.load, q.load], [p.value, q.value])
    worst = int(np.argmax(gaps))
    return max(0.0, float(gaps[worst])), float(z[worst])


def _bound(p: Point, q: Point, curves: Curves) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the lower of two points' tangents between them: loads and heights."""
    z = _between(p.load, q.load, curves)
    known = curves.at(z)
    left, right = (t.base + t.slope * z + t.prices @ known for t in (p, q))
    apart = left - right
    turn = np.flatnonzero(apart[:-1] * apart[1:] < 0.0)  # there the tangents meet
    part = apart[turn] / (apart[turn] - apart[turn + 1])
    meet = z[turn] + part * (z[turn + 1] - z[turn])
    height = left[turn] + part * (left[turn + 1] - left[turn])
    z, above = np.append(z, meet), np.append(np.minimum(left, right), height)
    order = np.argsort(z, kind="stable")
    return z[order], above[order]


def _bounds(points: list[Point], course: _Course) -> tuple[FloatArray, FloatArray]:
    """Return the corners of what no setting exceeds, over all loads: tangents, or the bounds."""
    corners = [_bound(p, q, course.curves) for p, q in pairwise(points)]
    z, above = (np.concatenate(part) for part in zip(*corners, strict=True))
    program = course.solver.program
    most = float(np.maximum(program.gain * program.lower, program.gain * program.upper).sum())
    return z, np.minimum(above, most)


def _fewest(
    course: _Course, points: list[Point], floors: list[float], error: float
) -> list[Point]:
    """Return as few points as keep the error, floors among them.

    From each point the farthest load is taken whose chord stays within the error of all tangents:
    among the points first, and if that takes fewer, anywhere between them.
    """
    reach = _Reach(course, points, floors, error)
    known = reach.all_along(reach.farthest)
    between = reach.all_along(reach.farther)
    return between if len(between) < len(known) else known


class _Reach:
    """How far from a point a chord may go."""

    def __init__(
        self, course: _Course, points: list[Point], floors: list[float], error: float
    ) -> None:
        self.course, self.points, self.floors, self.error = course, points, floors, error
        self.corner, self.above = _bounds(points, course)
        self.loads = np.array([p.load for p in points])
        self.values = np.array([p.value for p in points])

    def all_along(self, step: Callable[[Point], Point]) -> list[Point]:
        """Return the points from the first to the last, step by step."""
        kept = [self.points[0]]
        while kept[-1].load < self.points[-1].load:
            kept.append(step(kept[-1]))
        return kept

    def farthest(self, p: Point) -> Point:
        """Return the farthest known point; the next one if none fits."""
        at = int(np.searchsorted(self.loads, p.load + TINY))
        end = next(floor for floor in self.floors if floor > p.load + TINY)
        while self.loads[at] < end and self._fits(p, self.points[at + 1]):
            at += 1
        return self.points[at]

    def farther(self, p: Point) -> Point:
        """Return a new point beyond the farthest known one, if there is time to solve it."""
        known = self.farthest(p)
        end = next(floor for floor in self.floors if floor > p.load + TINY)
        if known.load >= end:
            return known
        low, high = known.load, float(self.loads[np.searchsorted(self.loads, known.load) + 1])
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._fits(p, self._guess(middle)) else (low, middle)
        point = self.course.solve(low) if low > known.load else None
        return point if point is not None and self._fits(p, point) else known

    def _guess(self, load: float) -> Point:
        """Return the mixture of the neighbours of a load as a point."""
        right = int(np.searchsorted(self.loads, load))
        a, b = self.points[right - 1], self.points[right]
        part = (load - a.load) / (b.load - a.load)
        mixed = (1.0 - part) * a.setting + part * b.setting
        value = float(np.interp(load, self.loads, self.values))
        return a._replace(load=load, value=value, setting=mixed)

    def _fits(self, p: Point, q: Point) -> bool:
        inside = (self.corner > p.load) & (self.corner < q.load)
        chord = np.interp(self.corner[inside], [p.load, q.load], [p.value, q.value])
        gap = float((self.above[inside] - chord).max(initial=0.0))
        return max(gap, _excess_gap(p, q, self.course)[0]) <= self.error


def _errors(kept: list[Point], points: list[Point], course: _Course) -> tuple[float, float]:
    """Return what interpolating between points loses at most: of the gain, and of an excess."""
    every = sorted({p.load: p for p in [*points, *kept]}.values(), key=lambda p: p.load)
    corner, above = _bounds(every, course)
    chord = np.interp(corner, [p.load for p in kept], [p.value for p in kept])
    short = [_excess_gap(p, q, course)[0] for p, q in pairwise(kept)]
    return float((above - chord).max()), max(short)


def _excess_gap(p: Point, q: Point, course: _Course) -> tuple[float, float]:
    """Return how far an excess lies above its curve when two settings are mixed, and where."""
    if not course.excess:
        return 0.0, p.load
    z = _between(p.load, q.load, course.curves)
    part = (z - p.load) / (q.load - p.load)
    ends = np.array([point.setting[course.excess] for point in (p, q)])
    gaps = np.outer(ends[0], 1.0 - part) + np.outer(ends[1], part) - course.curves.at(z)
    worst = int(np.argmax(gaps.max(axis=0)))
    return max(0.0, float(gaps[:, worst].max())), float(z[worst])


def _between(low: float, high: float, curves: Curves) -> FloatArray:
    inside = curves.loads[(curves.loads > low) & (curves.loads < high)]
    return np.concatenate([[low], inside, [high]])


def _apart(loads: Iterable[float]) -> list[float]:
    """Return the loads in order, one of those that are the same."""
    kept: list[float] = []
    for load in sorted(loads):
        if not kept or load > kept[-1] + TINY:
            kept.append(load)
    return kept
