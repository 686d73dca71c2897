"""A bounded dual simplex with parametric right-hand side, compiled.

The tableau carries, besides the columns of the nonbasic variables, the constant and one column per
rate: the basic variables are an affine function of the rates, so moving to another rate vector
costs one small matrix-vector product, and pivots only where the optimal basis changes. Several cost
rows are minimised lexicographically; the last one makes the optimal basis unique.

A variable at its upper bound is stored as the distance from that bound ("flipped"), so nonbasic
variables are always zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from planning.arrays import FloatArray, IntArray
from planning.fit.kernels.drops import affine, inner

FEASIBLE = 1e-11
PIVOT = 1e-10
REFRESH = 64
"""Pivots after which the tableau is rebuilt from the original data, to stop rounding errors."""

NOWHERE = np.int64(-1)
"""No row or column. A literal -1 is a type of its own, and compiles what takes it once more."""

OPTIMAL = 0
INFEASIBLE = 1
STALLED = 2
INEXACT = 3

SOUND = 1e-9
"""How far a certificate may be off: of a server's capacity, or of the terms of a reduced cost."""
TIE = 1e-13
DOUBTFUL = 1e-10
"""Reduced costs that may be rounding after many pivots, and are looked at in a new tableau."""
EPSILON = 2.0**-52


class Problem(NamedTuple):
    """The original data, as :class:`planning.fit.simplex.shedding.SheddingProgram` states them."""

    tableau: FloatArray
    cost: FloatArray
    upper: FloatArray
    bounded: IntArray


class Basis(NamedTuple):
    """A tableau, the variables of its rows and columns, and which of them are flipped."""

    tableau: FloatArray
    cost: FloatArray
    basic: IntArray
    nonbasic: IntArray
    flipped: IntArray


@inner
def _copy(source: FloatArray, target: FloatArray) -> None:
    """Copy a matrix; assigning a slice would take seconds to compile, for its error messages."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@inner
def pivot(tableau: FloatArray, cost: FloatArray, row: int, column: int) -> None:
    """Exchange the basic variable of ``row`` with the nonbasic one of ``column``."""
    rows, width = tableau.shape
    columns = cost.shape[1]
    inverse = 1.0 / tableau[row, column]
    for k in range(width):
        tableau[row, k] *= inverse
    tableau[row, column] = inverse
    for i in range(rows):
        factor = tableau[i, column]
        if i != row and factor != 0.0:
            tableau[i, column] = 0.0
            for k in range(width):
                tableau[i, k] -= factor * tableau[row, k]
    for level in range(cost.shape[0]):
        factor = cost[level, column]
        if factor != 0.0:
            cost[level, column] = 0.0
            for k in range(columns):
                cost[level, k] -= factor * tableau[row, k]
            for k in range(columns):
                if -1e-13 < cost[level, k] < 1e-13:
                    cost[level, k] = 0.0


@inner
def flip_row(tableau: FloatArray, upper: FloatArray, row: int, columns: int) -> None:
    """Replace a basic variable by its distance from the upper bound."""
    width = tableau.shape[1]
    for k in range(columns):
        tableau[row, k] = -tableau[row, k]
    for k in range(columns, width):
        tableau[row, k] = upper[k - columns] - tableau[row, k]


@inner
def flip_column(tableau: FloatArray, cost: FloatArray, upper: FloatArray, column: int) -> None:
    """Replace a nonbasic variable by its distance from the upper bound."""
    columns = cost.shape[1]
    for i in range(tableau.shape[0]):
        for k in range(upper.shape[0]):
            tableau[i, columns + k] -= tableau[i, column] * upper[k]
        tableau[i, column] = -tableau[i, column]
    for level in range(cost.shape[0]):
        cost[level, column] = -cost[level, column]


@inner
def enters(tableau: FloatArray, cost: FloatArray, row: int) -> int:
    """Return the column of the lexicographically smallest dual ratio, or -1."""
    best = -1
    for j in range(cost.shape[1]):
        entry = tableau[row, j]
        if entry >= -PIVOT:
            continue
        if best < 0:
            best = j
            continue
        other = tableau[row, best]
        for level in range(cost.shape[0]):
            mine = cost[level, j] * -other
            theirs = cost[level, best] * -entry
            slack = 1e-12 * (abs(mine) + abs(theirs)) + 1e-15
            if mine < theirs - slack:
                best = j
                break
            if mine > theirs + slack:
                break
    return best


@njit(cache=True)
def reoptimise(
    state: Basis, upper: FloatArray, bounded: IntArray, rates: FloatArray, limit: int
) -> tuple[int, int]:
    """Pivot until every basic variable is within its bounds; return status and pivots."""
    tableau, cost, basic, nonbasic, flipped = state
    rows, columns = tableau.shape[0], cost.shape[1]
    right = tableau[:, columns:]
    tolerance = FEASIBLE  # unless the rates are so high that sums of them are less exact
    for j in range(columns):
        if bounded[j]:
            tolerance = max(tolerance, 8.0 * EPSILON * affine(upper, j, rates))
    for count in range(limit):
        worst = tolerance
        leaving = int(NOWHERE)
        above = False
        for i in range(rows):
            value = affine(right, i, rates)
            if -value > worst:
                worst, leaving, above = -value, i, False
            if bounded[basic[i]]:
                excess = value - affine(upper, basic[i], rates)
                if excess > worst:
                    worst, leaving, above = excess, i, True
        if leaving < 0:
            return OPTIMAL, count
        if above:
            flip_row(tableau, upper[basic[leaving]], leaving, columns)
            flipped[basic[leaving]] = 1 - flipped[basic[leaving]]
        column = enters(tableau, cost, leaving)
        if column < 0:
            return (OPTIMAL if worst < 100.0 * tolerance else INFEASIBLE), count
        pivot(tableau, cost, leaving, column)
        basic[leaving], nonbasic[column] = nonbasic[column], basic[leaving]
    return STALLED, limit


@inner
def rebuild(problem: Problem, state: Basis) -> bool:
    """Rebuild the tableau of a basis from the original data, with the largest pivots first."""
    tableau, cost, basic, nonbasic, flipped = state
    rows, columns = tableau.shape[0], cost.shape[1]
    _copy(problem.tableau, tableau)
    _copy(problem.cost, cost)
    for j in range(columns):
        if flipped[j]:
            flip_column(tableau, cost, problem.upper[j], j)
    wanted = np.zeros(rows + columns, dtype=np.bool_)
    for i in range(rows):
        wanted[basic[i]] = True
    for i in range(rows):
        basic[i] = columns + i
    for j in range(columns):
        nonbasic[j] = j
    while True:
        best = 0.0
        row, column = int(NOWHERE), int(NOWHERE)
        for j in range(columns):
            if wanted[nonbasic[j]]:
                for i in range(rows):
                    if not wanted[basic[i]] and abs(tableau[i, j]) > best:
                        best, row, column = abs(tableau[i, j]), i, j
        if row < 0:
            break
        if best < PIVOT:
            return False
        pivot(tableau, cost, row, column)
        basic[row], nonbasic[column] = nonbasic[column], basic[row]
    for j in range(columns):
        if wanted[nonbasic[j]]:
            return False
    return True


@njit(cache=True)
def start(problem: Problem, state: Basis) -> None:
    """Set the state to the basis where nothing is dropped."""
    _copy(problem.tableau, state.tableau)
    _copy(problem.cost, state.cost)
    for i in range(problem.tableau.shape[0]):
        state.basic[i] = problem.cost.shape[1] + i
    for j in range(problem.cost.shape[1]):
        state.nonbasic[j] = j
    for k in range(state.flipped.shape[0]):
        state.flipped[k] = 0


@njit(cache=True)
def values(state: Basis, upper: FloatArray, rates: FloatArray, out: FloatArray) -> None:
    """Write the values of the original variables at ``rates``, clipped to their bounds."""
    tableau, cost, basic, _, flipped = state
    columns = cost.shape[1]
    right = tableau[:, columns:]
    for j in range(columns):
        out[j] = affine(upper, j, rates) if flipped[j] else 0.0
    for i in range(tableau.shape[0]):
        variable = basic[i]
        if variable < columns:
            value = max(affine(right, i, rates), 0.0)
            if flipped[variable]:
                value = max(affine(upper, variable, rates) - value, 0.0)
            out[variable] = value


@inner
def left_of(problem: Problem, row: int, rates: FloatArray, out: FloatArray) -> tuple[float, float]:
    """Return what the variables leave of an original row, and the size of what it is made of."""
    columns = problem.cost.shape[1]
    rest = problem.tableau[row, columns]
    terms = abs(rest)
    for k in range(rates.shape[0]):
        term = problem.tableau[row, columns + 1 + k] * rates[k]
        rest += term
        terms += abs(term)
    for k in range(columns):
        rest -= problem.tableau[row, k] * out[k]
    return rest, terms


@inner
def refine(problem: Problem, state: Basis, rates: FloatArray, out: FloatArray) -> float:
    """Correct the variables by the residuals of the original rows where they are tight.

    One step of iterative refinement: small pivots cost digits, and a server must not pay for them.
    Returns the largest residual before the step, beyond rounding, at the price of its row: a loss
    that the prices do not justify.
    """
    tableau, cost, basic, nonbasic, flipped = state
    columns = cost.shape[1]
    loss = 0.0
    for j in range(columns):
        row = nonbasic[j] - columns
        if row < 0:
            continue
        rest, terms = left_of(problem, row, rates, out)
        if rest == 0.0:
            continue
        price = 0.0
        for level in range(cost.shape[0] - 1):
            price = max(price, cost[level, j])
        loss = max(loss, price * (abs(rest) - 8.0 * EPSILON * terms))
        for i in range(tableau.shape[0]):
            variable = basic[i]
            if variable < columns:
                step = tableau[i, j] * rest
                out[variable] += -step if flipped[variable] else step
    for j in range(columns):
        out[j] = max(out[j], 0.0)
        if flipped[j]:
            out[j] = min(out[j], affine(problem.upper, j, rates))
    return loss


@inner
def certified(problem: Problem, state: Basis, doubtful: float) -> bool:
    """Whether the basis is dual feasible by the original data; the tie-break does not count.

    The tableau's own cost rows are the result of all pivots so far. From them only the prices of
    the rows are taken; what these make of the original columns shows whether they are right. A
    reduced cost up to ``doubtful`` may be none: later levels must not be negative there.
    """
    _, cost, _, nonbasic, flipped = state
    rows, columns, levels = problem.tableau.shape[0], cost.shape[1], cost.shape[0] - 1
    place = np.full(rows + columns, NOWHERE)
    for j in range(columns):
        place[nonbasic[j]] = j
        for level in range(levels if nonbasic[j] >= columns else 0):
            if cost[level, j] < -SOUND:
                return False
            if cost[level, j] > max(TIE, doubtful):
                break
    for j in range(columns):
        for level in range(levels):
            value = problem.cost[level, j]
            terms = abs(value)
            for i in range(rows):
                if place[columns + i] >= 0:
                    term = cost[level, place[columns + i]] * problem.tableau[i, j]
                    value += term
                    terms += abs(term)
            slack = SOUND * abs(problem.cost[level, j]) + 1e-12 + 1e-13 * terms
            if flipped[j]:
                value = -value
            if value < -slack or (place[j] < 0 and value > slack):
                return False
            if place[j] >= 0 and abs(value) > max(TIE * terms, doubtful):
                break  # later levels only matter where earlier ones tie
    return True


@inner
def feasible(problem: Problem, rates: FloatArray, out: FloatArray) -> bool:
    """Whether the variables respect the original rows and bounds, up to rounding."""
    columns = problem.cost.shape[1]
    for i in range(problem.tableau.shape[0]):
        rest, terms = left_of(problem, i, rates, out)
        if not rest >= -SOUND - 8.0 * EPSILON * terms:  # NaN fails
            return False
    for j in range(columns):
        if problem.bounded[j]:
            highest = affine(problem.upper, j, rates)
            if not out[j] <= highest + SOUND + 8.0 * EPSILON * highest:
                return False
    return True


@njit(cache=True)
def solve(problem: Problem, state: Basis, age: IntArray, rates: FloatArray, out: FloatArray) -> int:
    """Move a warm tableau to ``rates``; write the variables into ``out``; return the status.

    A basis that its certificate does not confirm, or whose variables break a row, is rebuilt from
    the original data, then looked for anew from where nothing is dropped, and rebuilt again.
    """
    limit = 50 * (problem.tableau.shape[0] + problem.cost.shape[1]) + 100
    status = STALLED
    for attempt in range(4):
        if attempt == 2 or (
            attempt > 0 and (not rebuild(problem, state) or not certified(problem, state, 0.0))
        ):
            start(problem, state)
        if attempt > 0:
            age[0] = 0
        status, pivots = reoptimise(state, problem.upper, problem.bounded, rates, limit)
        age[0] += pivots
        if status != OPTIMAL or (attempt == 0 and age[0] > REFRESH):
            continue
        status = INEXACT
        if pivots == 0 or certified(problem, state, DOUBTFUL if attempt == 0 else 0.0):
            values(state, problem.upper, rates, out)
            for _ in range(3):
                if refine(problem, state, rates, out) <= SOUND and feasible(problem, rates, out):
                    return OPTIMAL
    return status
