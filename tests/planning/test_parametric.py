"""The parametric solver against HiGHS, which solves the same programs one load at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from planning.errors import InfeasiblePlan
from planning.linear import SLACK, Program, Solver
from planning.parametric import trace

LOADS = np.linspace(0.0, 1.0, 21)


def random_program(seed: int, levels: int) -> Program:
    """A budget, promises that fall short by level, and rows that couple gains.

    Variables: d (what is shed of n goods), one excess per level, m shortfalls of what people want.
    """
    rng = np.random.default_rng(seed)
    n, m, promises = rng.integers(2, 9), rng.integers(1, 7), int(rng.integers(1, 6)) * (levels > 0)
    size = rng.dirichlet(np.full(n, 0.7))
    wants, asked_of = (rng.dirichlet(np.full(n, 0.4), size=k) for k in (m, promises))
    asked = rng.uniform(0.3, 1.0, promises)
    level = np.zeros((promises, levels))
    level[np.arange(promises), rng.integers(0, max(levels, 1), promises)] = asked
    corner = rng.uniform(0.2, 1.0, m)
    rows = sparse.block_array(
        [
            [sparse.csr_array(size[None]), None, sparse.csr_array((1, m))],
            [sparse.csr_array(-asked_of), sparse.csr_array(level), None],
            [sparse.csr_array(-wants), None, sparse.eye_array(m)],
        ],
        format="csr",
    ) if levels else sparse.block_array(
        [[sparse.csr_array(size[None]), None], [sparse.csr_array(-wants), sparse.eye_array(m)]],
        format="csr",
    )  # fmt: skip
    low = np.concatenate([[1.0], asked - 1.0, corner - 1.0])
    return Program(
        gain=-np.concatenate([rng.random(n), np.zeros(levels), rng.random(m)]) / (n + m),
        lower=np.zeros(n + levels + m),
        upper=np.concatenate([np.ones(n + levels), corner]),
        rows=sparse.csr_array(rows),
        row_low=low,
        row_high=np.full(low.size, np.inf),
        move=np.eye(1, low.size)[0] * -1.0,
        excess=tuple(range(n, n + levels)),
        core=(1 + promises, n + levels),
    )


def by_highs(program: Program, load: float) -> tuple[list[float], float]:
    """Return the least excesses, one after another, and the best gain within them."""
    upper = program.upper.copy()
    low = program.row_low + load * program.move
    exact = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
    rows = dict(A_ub=-program.rows, b_ub=-low, options=exact)
    found = []
    for j in program.excess:
        cost = np.zeros(upper.size)
        cost[j] = 1.0
        made = linprog(cost, **rows, bounds=np.column_stack([program.lower, upper]))
        found.append(max(0.0, float(made.fun)))
        upper[j] = min(upper[j], found[-1] + SLACK)
    made = linprog(-program.gain, **rows, bounds=np.column_stack([program.lower, upper]))
    return found, -float(made.fun)


@pytest.mark.parametrize("levels", [0, 1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_a_trace_is_as_good_as_highs_within_its_error(seed, levels):
    program = random_program(seed, levels)
    made = trace(program, 0.0, 1.0)
    assert made.error <= 1e-3
    assert made.excess_error <= 1.2e-3
    for load in LOADS:
        x = made.at(load)
        excesses, best = by_highs(program, load)
        shed = program.rows @ x - (program.row_low + load * program.move)
        assert shed.min() > -1e-7, "a mixture of settings breaks a row"
        assert (x >= program.lower - 1e-9).all()
        assert (x <= program.upper + 1e-9).all()
        for j, least in zip(program.excess, excesses, strict=True):
            assert x[j] <= least + made.excess_error + 1e-6
        if all(x[j] <= least + 2e-7 for j, least in zip(program.excess, excesses, strict=True)):
            assert program.gain @ x <= best + 1e-5
        assert program.gain @ x >= best - made.error - 1e-7


@pytest.mark.parametrize("seed", range(8))
def test_where_no_promise_is_broken_settings_are_optimal_at_their_loads(seed):
    program = random_program(seed, 0)
    made = trace(program, 0.0, 1.0)
    for load, value in zip(made.loads, made.values, strict=True):
        assert value == pytest.approx(by_highs(program, load)[1], abs=1e-8)


def test_a_small_error_takes_every_bend():
    program = random_program(5, 0)
    made, coarse = trace(program, 0.0, 1.0, error=1e-9), trace(program, 0.0, 1.0, error=0.05)
    assert made.error <= 1e-9
    assert len(made.loads) > len(coarse.loads)
    for load in LOADS:
        assert program.gain @ made.at(load) == pytest.approx(by_highs(program, load)[1], abs=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_without_time_there_is_a_plan_with_a_larger_error_that_is_true(seed):
    program = random_program(seed, 2)
    hasty = trace(program, 0.0, 1.0, limit_s=0.0)
    assert hasty.solves < trace(program, 0.0, 1.0).solves
    for load in LOADS:
        x = hasty.at(load)
        excesses, best = by_highs(program, load)
        assert (program.rows @ x >= program.row_low + load * program.move - 1e-7).all()
        assert program.gain @ x >= best - hasty.error - 1e-7
        for j, least in zip(program.excess, excesses, strict=True):
            assert x[j] <= least + hasty.excess_error + 1e-6


def test_the_load_from_which_on_a_promise_holds_is_exact():
    """Of two equal goods the first is promised whole: that holds from load 1/2 on."""
    program = Program(
        gain=np.array([-0.1, -1.0, 0.0]), lower=np.zeros(3), upper=np.ones(3),
        rows=sparse.csr_array([[0.5, 0.5, 0.0], [-1.0, 0.0, 1.0]]),
        row_low=np.array([1.0, 0.0]), row_high=np.full(2, np.inf), move=np.array([-1.0, 0.0]),
        excess=(2,),
    )  # fmt: skip
    made = trace(program, 0.0, 1.0)
    assert 0.5 in made.loads
    assert made.at(0.5)[2] <= 2e-7
    assert made.at(0.25)[:2] == pytest.approx([0.5, 1.0], abs=2e-3)
    assert made.at(0.75) == pytest.approx([0.0, 0.5, 0.0], abs=2e-6)


def test_bounds_hold_whatever_the_solver_says():
    program = random_program(3, 2)
    solver = Solver(program)
    for load in LOADS:
        caps = solver.least(load)
        point = solver.optimum(load, caps)
        assert point.bound >= point.value - 1e-9
        assert point.bound == pytest.approx(point.value, abs=1e-6)
        assert caps == pytest.approx(by_highs(program, load)[0], abs=1e-6)


def test_no_time_gives_no_solution_and_an_impossible_program_says_so():
    program = random_program(3, 0)
    assert Solver(program).optimum(0.5, np.zeros(0), 0.0) is None
    with pytest.raises(InfeasiblePlan, match="must have a solution at load -0.5"):
        Solver(program).optimum(-0.5, np.zeros(0))


def test_pdlp_judges_large_programs_by_a_bound_that_is_true(monkeypatch):
    program = random_program(7, 1)
    monkeypatch.setattr("planning.linear.LARGE", 0)
    solver = Solver(program)
    assert solver.judge == "PDLP"
    for load in LOADS[2:]:
        caps = solver.least(load)
        best = by_highs(program, load)[1]
        point = solver.judged(load, caps, 10.0)
        assert best - 1e-9 <= point.bound <= best + 1e-4
        assert point.value == -np.inf
