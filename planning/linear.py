"""Linear programs whose right-hand sides move with the load, as OR-Tools models.

    maximise    gain · x
    subject to  row_low + z·move <= rows · x <= row_high + z·move
                lower <= x <= upper

``excess`` variables come before the gain: each in its turn is as small as can be.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from ortools.math_opt import (
    callback_pb2,
    model_parameters_pb2,
    model_pb2,
    model_update_pb2,
    parameters_pb2,
    result_pb2,
)
from ortools.math_opt.core.python import solver as binding
from pybind11_abseil.status import StatusNotOk

from planning.arrays import FloatArray
from planning.errors import InfeasiblePlan

OPTIMAL = result_pb2.TERMINATION_REASON_OPTIMAL
IMPRECISE = result_pb2.TERMINATION_REASON_IMPRECISE
UNKNOWN = result_pb2.TERMINATION_REASON_UNSPECIFIED
UNFINISHED = (
    result_pb2.TERMINATION_REASON_FEASIBLE, result_pb2.TERMINATION_REASON_NO_SOLUTION_FOUND,
)  # fmt: skip
TOLERANCE = 1e-9
"""Of GLOP, in place of 1e-6, which thousands of small gains would add up to something."""
LARGE = 200_000
"""Numbers in the rows beyond which PDLP judges a setting: GLOP may take minutes there."""
PDLP_TOLERANCE = 1e-6
SLACK = 1e-7
"""How far above what a level reached its variable may go: the solver's own tolerance."""
ATTEMPTS = (
    (SLACK, False, TOLERANCE), (SLACK, True, TOLERANCE), (SLACK, True, 1e-7),
    (10 * SLACK, True, 1e-7), (100 * SLACK, True, 1e-6),
)  # fmt: skip
"""Slack of the ceilings, whether from the beginning, and tolerance of GLOP."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A linear program over a load z; every variable is bounded.

    One scarce good for two uses, the second worth half:

    >>> import scipy.sparse as sparse
    >>> two = Program(np.array([1.0, 0.5]), np.zeros(2), np.full(2, 0.5),
    ...               sparse.csr_array([[1.0, 1.0]]), np.array([-np.inf]), np.zeros(1), np.ones(1))
    >>> Solver(two).optimum(0.75, np.zeros(0)).value
    0.625
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


class Point(NamedTuple):
    """An optimum at one load, and the line, with a price per ceiling, that nothing exceeds."""

    load: float
    value: float
    base: float
    slope: float
    prices: FloatArray
    setting: FloatArray
    caps: FloatArray

    @property
    def bound(self) -> float:
        """No setting within these ceilings is worth more at this load, by weak duality."""
        return self.base + self.slope * self.load + float(self.prices @ self.caps)


class Solver:
    """A program as one GLOP model that is solved again and again, from its last basis.

    It speaks to OR-Tools in its messages: reading a solution into Python objects, variable by
    variable, takes three times as long as finding it.

    >>> import scipy.sparse as sparse
    >>> one = Program(np.array([1.0]), np.zeros(1), np.ones(1), sparse.csr_array([[1.0]]),
    ...               np.array([-np.inf]), np.zeros(1), np.ones(1))
    >>> point = Solver(one).optimum(0.25, np.zeros(0))
    >>> point.value, point.bound, point.setting.tolist()
    (0.25, 0.25, [0.25])
    """

    def __init__(self, program: Program) -> None:
        self.program, self.solves = program, 0
        self._message = _message(program)
        self._moving = np.flatnonzero(program.move)
        self._most_steps = sum(program.rows.shape)
        self._goal = program.gain
        self._glop = self._begun()
        self._core: Solver | None = None

    @property
    def judge(self) -> str:
        """The solver that judges settings."""
        return "PDLP" if self.program.rows.nnz > LARGE else "GLOP"

    def least(self, load: float, limit_s: float = math.inf) -> FloatArray | None:
        """Return the smallest excesses at a load, one after another; nothing if time is over."""
        if self.program.core not in (None, self.program.rows.shape):
            self._core = self._core or Solver(self.program.of_core())
            return self._core.least(load, limit_s)
        caps, end = np.zeros(0), time.monotonic() + limit_s
        for level in range(len(self.program.excess)):
            point = self.reach(level, load, caps, end - time.monotonic())
            if point is None:
                return None
            caps = np.append(caps, max(0.0, -point.value))
        return caps

    def reach(
        self, level: int, load: float, caps: FloatArray, limit_s: float = math.inf
    ) -> Point | None:
        """Minimise the excess of a level, within ceilings of those before it: minus its value."""
        goal = np.zeros(len(self.program.gain))
        goal[self.program.excess[level]] = -1.0
        return self._solved(goal, load, caps, limit_s)

    def optimum(self, load: float, caps: FloatArray, limit_s: float = math.inf) -> Point | None:
        """Return the largest gain within ceilings of the excesses; nothing if time is over."""
        return self._solved(self.program.gain, load, caps, limit_s)

    def judged(self, load: float, caps: FloatArray, limit_s: float = math.inf) -> Point | None:
        """Return the optimum as :attr:`judge` finds it, for comparison with a setting.

        PDLP, on large programs, gives a bound whenever it is stopped; that is all it is asked for:
        the value of such a point is minus infinity.
        """
        if self.judge == "GLOP":
            return self.optimum(load, caps, limit_s)
        self._move(self.program.gain, load, caps + SLACK)
        parameters = parameters_pb2.SolveParametersProto()
        optimal = parameters.pdlp.termination_criteria.simple_optimality_criteria
        optimal.eps_optimal_absolute = optimal.eps_optimal_relative = PDLP_TOLERANCE
        if math.isfinite(limit_s):
            parameters.time_limit.FromMilliseconds(max(1, int(1000.0 * limit_s)))
        pdlp = self._begun(parameters_pb2.SOLVER_TYPE_PDLP)
        result = _result(pdlp, parameters)
        if result is None or not result.solutions:
            return None
        return self._point(load, caps, result, SLACK)._replace(value=-math.inf)

    def _solved(
        self, goal: FloatArray, load: float, caps: FloatArray, limit_s: float
    ) -> Point | None:
        """Solve from the last basis; where that leads astray, anew, and then less strictly.

        Steps of the simplex are counted, not seconds: the same program has the same answer.
        """
        self.solves += 1
        end, reason = time.monotonic() + limit_s, UNFINISHED[0]
        for slack, anew, tolerance in ATTEMPTS:
            left = end - time.monotonic()
            if left <= 0.0:
                return None
            self._move(goal, load, caps + slack, anew)
            result = _result(self._glop, _simplex(left, tolerance, 0 if anew else self._most_steps))
            if result is None:  # such a solver takes no further calls
                self._glop, reason = self._begun(), UNKNOWN
                continue
            reason = result.termination.reason
            if reason == OPTIMAL or (reason == IMPRECISE and tolerance > TOLERANCE):
                return self._point(load, caps, result, slack)
            if reason in UNFINISHED and anew:
                return None
        if reason == UNKNOWN:
            return None
        named = result_pb2.TerminationReasonProto.Name(reason)
        raise InfeasiblePlan(
            f"the linear program must have a solution at load {load:g}, got {named.lower()} from "
            "GLOP; report this with the statistics"
        )

    def _move(
        self, goal: FloatArray, load: float, caps: FloatArray, anew: bool = False
    ) -> None:
        """Bring the model to a goal, a load and ceilings, both in OR-Tools and in its message."""
        program, message = self.program, self._message
        update = model_update_pb2.ModelUpdateProto()
        shift = load * program.move[self._moving]
        for side, rest in (("lower_bounds", program.row_low), ("upper_bounds", program.row_high)):
            values = (rest[self._moving] + shift).tolist()
            sides = getattr(update.linear_constraint_updates, side)
            sides.ids.extend(self._moving.tolist())
            sides.values.extend(values)
            kept = getattr(message.linear_constraints, side)
            for i, value in zip(self._moving.tolist(), values, strict=True):
                kept[i] = value
        excess = list(program.excess)
        ceilings = program.upper[excess]
        ceilings[: len(caps)] = np.minimum(caps, ceilings[: len(caps)])
        bounds = update.variable_updates.upper_bounds
        bounds.ids.extend(excess)
        bounds.values.extend(ceilings.tolist())
        for j, ceiling in zip(excess, ceilings.tolist(), strict=True):
            message.variables.upper_bounds[j] = ceiling
        if not np.array_equal(goal, self._goal):
            changed = np.flatnonzero(goal != self._goal).tolist()
            linear = update.objective_updates.linear_coefficients
            linear.ids.extend(changed)
            linear.values.extend(goal[changed].tolist())
            self._goal = goal
            _aim(message, goal)
        if anew or not self._glop.update(update):
            self._glop = self._begun()

    def _begun(self, kind: Any = parameters_pb2.SOLVER_TYPE_GLOP) -> Any:
        return binding.new(kind, self._message, parameters_pb2.SolverInitializerProto())

    def _point(self, load: float, caps: FloatArray, result: Any, slack: float) -> Point:
        """Return the setting with its value, and the bound that weak duality makes of the duals.

        With duals y and reduced costs d = gain - y · rows, no x is worth more than y · (the side of
        each row that y pushes against) + d · (the bound of each variable that d pushes against):
        true of any y, however exact the solver was.
        """
        program, capped = self.program, list(self.program.excess[: len(caps)])
        solution = result.solutions[0]
        x = np.array(solution.primal_solution.variable_values.values)
        x = np.clip(x, program.lower, program.upper)
        y = np.array(solution.dual_solution.dual_values.values)
        side = np.where(y > 0.0, program.row_high, program.row_low)
        y[~np.isfinite(side)] = 0.0
        reduced = self._goal - program.rows.T @ y
        prices = np.maximum(reduced[capped], 0.0)
        bound = np.where(reduced > 0.0, program.upper, program.lower)
        bound[capped] = np.where(reduced[capped] > 0.0, slack, 0.0)
        base = float(y @ np.where(y == 0.0, 0.0, side)) + float(reduced @ bound)
        return Point(load, float(self._goal @ x), base, float(y @ program.move), prices, x, caps)


def _message(program: Program) -> Any:
    """Return the model at load 0 as the message that OR-Tools reads."""
    rows, columns = program.rows.shape
    message = model_pb2.ModelProto()
    message.variables.ids.extend(range(columns))
    message.variables.lower_bounds.extend(program.lower.tolist())
    message.variables.upper_bounds.extend(program.upper.tolist())
    message.variables.integers.extend([False] * columns)
    message.linear_constraints.ids.extend(range(rows))
    message.linear_constraints.lower_bounds.extend(program.row_low.tolist())
    message.linear_constraints.upper_bounds.extend(program.row_high.tolist())
    entries = program.rows.tocoo()
    message.linear_constraint_matrix.row_ids.extend(entries.row.tolist())
    message.linear_constraint_matrix.column_ids.extend(entries.col.tolist())
    message.linear_constraint_matrix.coefficients.extend(entries.data.tolist())
    message.objective.maximize = True
    _aim(message, program.gain)
    return message


def _simplex(limit_s: float, tolerance: float, steps: int) -> Any:
    """Return the parameters of dual simplex; 0 steps: as many as it takes."""
    parameters = parameters_pb2.SolveParametersProto(
        lp_algorithm=parameters_pb2.LP_ALGORITHM_DUAL_SIMPLEX
    )
    parameters.glop.primal_feasibility_tolerance = tolerance
    parameters.glop.dual_feasibility_tolerance = tolerance
    if steps:
        parameters.iteration_limit = steps
    if math.isfinite(limit_s):
        parameters.time_limit.FromMilliseconds(max(1, int(1000.0 * limit_s)))
    return parameters


def _result(solver: Any, parameters: Any) -> Any:
    """Return the solver's answer; None if it gave up, as GLOP may on numbers too far apart."""
    model = model_parameters_pb2.ModelSolveParametersProto()
    callbacks = callback_pb2.CallbackRegistrationProto()
    try:
        return solver.solve(parameters, model, None, callbacks, None, None)
    except StatusNotOk:
        return None


def _aim(message: Any, goal: FloatArray) -> None:
    """Set the objective of a message."""
    some = np.flatnonzero(goal)
    linear = message.objective.linear_coefficients
    linear.ids[:], linear.values[:] = some.tolist(), goal[some].tolist()
