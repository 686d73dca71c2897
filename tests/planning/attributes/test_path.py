"""The frontier against brute force and an integer programme."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.attributes.path import MAX_UNITS, solve, spread_points
from planning.errors import InvalidInput


def brute_force(weights: list[list[int]], losses: list[list[float]]) -> list[tuple[int, float]]:
    points = sorted(
        (sum(w for w, _ in pick), sum(v for _, v in pick))
        for pick in itertools.product(
            *(list(zip(w, v, strict=True)) for w, v in zip(weights, losses, strict=True))
        )
    )
    best: list[tuple[int, float]] = []
    for weight, loss in points:
        if not best or loss < best[-1][1] - 1e-12:
            if best and best[-1][0] == weight:
                best.pop()
            best.append((weight, loss))
    return best


def test_selection_equals_brute_force_on_thousands_of_instances() -> None:
    rng = np.random.default_rng(1)
    for _ in range(3000):
        n = int(rng.integers(1, 9))
        sizes = rng.integers(0, 9, n).tolist()
        loss = rng.integers(0, 9, n).astype(float).tolist()
        weights, losses = [[s, 0] for s in sizes], [[0.0, v] for v in loss]
        frontier = solve(weights, losses)
        points = list(zip(frontier.weight.tolist(), frontier.loss.tolist(), strict=True))
        assert points == brute_force(weights, losses)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_menus_equal_brute_force(items: list[list[tuple[int, int]]]) -> None:
    weights = [[w for w, _ in item] for item in items]
    losses = [[float(v) for _, v in item] for item in items]
    frontier = solve(weights, losses)
    points = list(zip(frontier.weight.tolist(), frontier.loss.tolist(), strict=True))
    assert points == brute_force(weights, losses)
    for p, row in enumerate(frontier.choice):
        assert sum(weights[i][o] for i, o in enumerate(row)) == frontier.weight[p]
        assert sum(losses[i][o] for i, o in enumerate(row)) == pytest.approx(frontier.loss[p])


def test_sixty_attributes_equal_an_integer_programme() -> None:
    milp = pytest.importorskip("scipy.optimize").milp
    from scipy.optimize import Bounds, LinearConstraint

    rng = np.random.default_rng(2)
    sizes, loss = rng.integers(1, 65, 60), rng.random(60)
    frontier = solve([[int(s), 0] for s in sizes], [[0.0, float(v)] for v in loss])
    for budget in (200, 700, 1500):
        answer = milp(
            -loss, constraints=LinearConstraint(sizes[None, :], ub=budget), integrality=np.ones(60),
            bounds=Bounds(0, 1), options={"mip_rel_gap": 0.0},
        )  # fmt: skip
        least = frontier.loss[frontier.best(budget)]
        assert least == pytest.approx(loss.sum() + answer.fun, abs=1e-6)


def test_the_budget_decides_where_the_frontier_is_cut() -> None:
    frontier = solve([[4, 0], [2, 0]], [[0, 3], [0, 1]])
    assert [frontier.best(b) for b in (-1, 0, 1.9, 2, 5, 6, 100)] == [-1, 0, 0, 1, 2, 3, 3]


def test_huge_weights_are_rounded_up_never_down() -> None:
    rng = np.random.default_rng(3)
    weights = [[int(w), 0] for w in rng.integers(MAX_UNITS, 4 * MAX_UNITS, 6)]
    losses = [[0.0, float(v)] for v in rng.random(6)]
    frontier = solve(weights, losses)
    assert not frontier.exact
    for p, row in enumerate(frontier.choice):
        assert sum(weights[i][o] for i, o in enumerate(row)) == frontier.weight[p]
    exact = brute_force(weights, losses)
    for budget in rng.integers(0, 8 * MAX_UNITS, 20):
        best = max((w, v) for w, v in exact if w <= budget)[1]
        slack = solve(weights, losses).best(float(budget) * 1.00001 + 6)
        assert frontier.loss[slack] <= best + 1e-9


def test_a_thinned_frontier_keeps_its_ends_and_its_points() -> None:
    whole = solve([[k, 0] for k in range(1, 30)], [[0.0, 1.0 + k] for k in range(1, 30)])
    few = whole.weight[spread_points(whole.weight, 20)]
    assert len(few) <= 20
    assert (few[0], few[-1]) == (whole.weight[0], whole.weight[-1])
    assert np.diff(few).max() <= 2 * (few[-1] - few[0]) / 19
    assert spread_points(whole.weight, len(whole.weight)).tolist() == list(range(len(whole.weight)))
    with pytest.raises(InvalidInput, match="a frontier has two ends"):
        spread_points(whole.weight, 1)


@pytest.mark.parametrize(
    ("weights", "losses", "message"),
    [
        ([[]], [[]], "1 to 256 options"),
        ([[1, 2]], [[0.0]], "one loss each"),
        ([[-1]], [[0.0]], "weights >= 0"),
        ([[1]], [[float("nan")]], "finite losses"),
    ],
)
def test_bad_menus_are_refused(
    weights: list[list[int]], losses: list[list[float]], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        solve(weights, losses)
