"""Guarantees: what the plan keeps of matches, against HiGHS and against the counts themselves."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from planning.arrays import FloatArray
from planning.errors import ArtifactError, DefinitionError
from planning.examples import demo_statistics
from planning.guarantees import Guarantees
from planning.joins import path, planner, program
from planning.joins.codec import LENGTH
from planning.joins.model import combine_utilities
from planning.joins.plan import Plan, PlanDocument
from planning.parametric import Solver, trace

Make = Callable[..., Any]
INSTANCES, LOADS = 40, 8


def worth(statistics: Any, definition: Any) -> FloatArray:
    """Return the utility of the matches of [window, probing class, stored class, basic window]."""
    parameters = definition.parameters
    classes = len(parameters.sizes) + 1
    types = len(statistics.types) // classes
    utilities = np.repeat(parameters.utilities or (1.0,) * types, classes)
    values = combine_utilities(utilities, parameters.combine)
    return np.moveaxis(statistics.hits * values[None, None], 1, 3).astype(float)


def parts(statistics: Any, definition: Any) -> list[tuple[str, float, int, FloatArray]]:
    """Return name, min_share and priority of what is asked, and which of the matches count."""
    parameters, utility = definition.parameters, worth(statistics, definition)
    classes = len(parameters.sizes) + 1
    asked = []
    if parameters.min_share:
        asked.append(("join", parameters.min_share, parameters.priority, np.ones_like(utility)))
    for name, one in parameters.types.items():
        z = int(name.split()[1])
        mine = np.isin(np.arange(len(statistics.types)) // classes, [z])
        part = np.zeros_like(utility)
        part[:, mine] = part[:, :, mine] = 1.0
        asked.append((f"type {name}", one.min_share, one.priority, part))
    for name, one in parameters.window_of.items():
        part = np.zeros_like(utility)
        part[int(name)] = 1.0
        asked.append((f"window of {name}", one.min_share, one.priority, part))
    return asked


def shares(statistics: Any, definition: Any) -> dict[str, FloatArray]:
    """Return the share of each guarantee's matches that every item [window, type, basic] holds."""
    utility = worth(statistics, definition)
    tables = {}
    for name, _, _, part in parts(statistics, definition):
        table = (utility * part).sum(axis=2)
        tables[name] = table / (table.sum() or 1.0)
    return tables


EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Highs:
    """The lexicographic optimum by HiGHS, from the counts alone."""

    def __init__(self, statistics: Any, definition: Any) -> None:
        made = np.moveaxis(statistics.comparisons, 1, 2).astype(float)
        self.volumes = (made / made.sum()).ravel()
        value = worth(statistics, definition).sum(axis=2).ravel()
        self.gain = value / value.sum()
        self.rows = [t.ravel() for t in shares(statistics, definition).values()]
        self.asked = [p[1] for p in parts(statistics, definition)]
        self.priority = [p[2] for p in parts(statistics, definition)]
        self.levels = sorted(
            {p for p, row in zip(self.priority, self.rows, strict=True) if row.any()}, reverse=True
        )

    def short(self, take: FloatArray) -> FloatArray:
        """Return the largest shortfall of every priority, the most important one first."""
        worst = dict.fromkeys(self.levels, 0.0)
        for row, asked, priority in zip(self.rows, self.asked, self.priority, strict=True):
            if row.any():
                worst[priority] = max(worst[priority], 1.0 - float(row @ take) / asked)
        return np.array([worst[level] for level in self.levels])

    def best(self, load: float) -> tuple[list[float], float]:
        """Return the least shortfalls, one after another, and the best quality then."""
        n, more = self.gain.size, len(self.levels)
        upper = [
            np.concatenate((-row, [-asked * (level == priority) for level in self.levels]))
            for row, asked, priority in zip(self.rows, self.asked, self.priority, strict=True)
            if row.any()
        ]
        limits = [-a for row, a in zip(self.rows, self.asked, strict=True) if row.any()]
        spend = np.concatenate((self.volumes, np.zeros(more)))[None]
        bounds, least = [(0.0, 1.0)] * (n + more), []
        for goal in (*range(n, n + more), None):
            cost = np.concatenate((-self.gain, np.zeros(more)))
            if goal is not None:
                cost = np.eye(1, n + more, goal)[0]
            solved = linprog(
                cost, upper or None, limits or None, spend, [load], bounds, options=EXACT
            )
            assert solved.status == 0, solved.message
            if goal is None:
                return least, -float(solved.fun)
            least.append(max(0.0, float(solved.fun)))
            bounds[goal] = (0.0, min(1.0, least[-1] + 1e-8))
        raise AssertionError


@pytest.mark.parametrize("seed", range(INSTANCES))
def test_the_plan_is_lexicographically_best_within_its_error(
    guaranteed_case: Make, seed: int
) -> None:
    statistics, definition = guaranteed_case(seed)
    plan = planner.plan(statistics, definition)
    highs, rng = Highs(statistics, definition), np.random.default_rng(seed)
    assert planner.solver_status(plan, definition) == f"within {plan.guaranteed.error:.6g}"
    assert plan.guaranteed.error < 2e-3
    for load in (0.0, 1.0, *rng.random(LOADS), *(g.holds_from for g in plan.guarantees)):
        take = plan.at(load).take.ravel()
        least, best = highs.best(load)
        lacks, error = highs.short(take) - least, plan.guaranteed.error + 1e-6
        assert np.all(lacks <= error), load
        assert best - float(highs.gain @ take) <= error, load
        assert float(highs.volumes @ take) == pytest.approx(load, abs=1e-7)
        assert plan.predicted_quality(load) == pytest.approx(float(highs.gain @ take), abs=1e-6)


@pytest.mark.parametrize("seed", range(INSTANCES))
def test_without_guarantees_the_program_is_the_sorted_list(case_of: Make, seed: int) -> None:
    statistics, definition = case_of(seed, 1 + seed % 3, (2,) if seed % 5 == 0 else ())
    plan = planner.plan(statistics, definition)
    general = program.programmed(statistics, definition)
    solver, traced = Solver(general), trace(general, 0.0, 1.0, error=1e-8)
    for load in np.random.default_rng(seed).random(50):
        special = plan.predicted_quality(load)
        assert solver.optimum(load, np.zeros(0)).value == pytest.approx(special, abs=1e-7)
        assert float(general.gain @ traced.at(load)) == pytest.approx(special, abs=1e-7)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_a_guarantee_holds_on_the_counts_from_its_floor_on(
    guaranteed_case: Make, seed: int, parts_of: list[float]
) -> None:
    statistics, definition = guaranteed_case(seed)
    plan = planner.plan(statistics, definition)
    tables = shares(statistics, definition)
    assert isinstance(plan, Guarantees)
    assert {one.name for one in plan.guarantees} == set(tables)
    priorities = [one.priority for one in plan.guarantees]
    assert priorities == sorted(priorities, reverse=True)
    for i, one in enumerate(plan.guarantees):
        for part in (0.0, *parts_of):
            load = one.holds_from + part * (1.0 - one.holds_from)
            kept = float((tables[one.name] * plan.at(load).take).sum())
            if tables[one.name].any():
                assert kept >= one.value * (1.0 - 2e-6)
                assert plan.kept(load)[i] == pytest.approx(kept, abs=1e-6)
        below = one.holds_from - 1e-3
        if below > 0.0:
            assert plan.kept(below)[i] < one.value


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0, 1))
def test_a_budget_of_other_volumes_is_spent_and_never_exceeded(
    guaranteed_case: Make, seed: int, share: float
) -> None:
    plan = planner.plan(*guaranteed_case(seed))
    measured = np.random.default_rng(seed).gamma(0.5, 1.0, plan.volumes.shape)
    budget = share * float(measured.sum())
    take = plan.fill(measured, budget)
    assert np.all((take >= 0.0) & (take <= 1.0))
    assert float((take * measured).sum()) == pytest.approx(budget, rel=1e-9)
    np.testing.assert_allclose(plan.fill(plan.volumes, share), plan.at(share).take, atol=1e-5)


def test_a_budget_is_kept_where_costs_fall_with_the_load() -> None:
    levels = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    volumes = np.array([5.0, 1.0])  # the second setting costs more than the third
    for budget in np.linspace(0.0, 6.0, 25):
        take = path.blend(levels, levels @ volumes, float(budget))
        assert float(take @ volumes) == pytest.approx(budget)
        if budget >= 1.0:
            assert take[1] == 1.0  # as far up as the budget allows


def test_a_type_spends_what_it_is_given_where_matches_are_now() -> None:
    rng = np.random.default_rng(3)
    density, volumes, take = rng.random((3, 2, 4, 9))
    moved = path.within(density, volumes, take)
    spent = (volumes * take).sum(axis=2)
    np.testing.assert_allclose((volumes * moved).sum(axis=2), spent)
    assert np.all((volumes * density * moved).sum(axis=2) >= (volumes * density * take).sum(axis=2))


class TestEncoding:
    """Both encodings hold the guarantees, and nothing damaged is read."""

    @pytest.mark.parametrize("seed", range(6))
    def test_both_hold_the_same_plan(self, guaranteed_case: Make, seed: int) -> None:
        plan = planner.plan(*guaranteed_case(seed))
        document = json.loads(json.dumps(plan.to_document()))
        again = Plan.from_document(document)
        assert Plan.from_bytes(plan.to_bytes()).to_document() == document == again.to_document()
        assert again.to_bytes() == plan.to_bytes()
        assert again.guarantees == plan.guarantees
        for load in (0.0, 0.23, 1.0):
            np.testing.assert_array_equal(again.at(load).take, plan.at(load).take)
            assert again.kept(load) == plan.kept(load)
        jsonschema.validate(document, msgspec.json.schema(PlanDocument))

    def test_a_plan_without_has_no_trace_of_them(self, case_of: Make) -> None:
        plan = planner.plan(*case_of(1))
        assert "guaranteed" not in plan.to_document()
        assert b"guarant" not in plan.to_bytes()
        assert (plan.guarantees, plan.kept(0.5), plan.not_nested) == ((), (), ())

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda g: g["loads"].__setitem__(0, 0.1),
            lambda g: g["loads"].__setitem__(-1, 2.0),
            lambda g: g["loads"].__setitem__(1, g["loads"][2]),
            lambda g: g["loads"].__setitem__(1, float("nan")),
            lambda g: g["loads"].pop(),
            lambda g: g["levels"].pop(),
            lambda g: g["levels"].__setitem__(0, 0.5),
            lambda g: g["levels"].__setitem__(-1, 0.5),
            lambda g: g["levels"].__setitem__(len(g["levels"]) // 2, 1.5),
            lambda g: g["levels"].__setitem__(len(g["levels"]) // 2, float("nan")),
            lambda g: g["quality"].__setitem__(1, -0.5),
            lambda g: g["quality"].pop(),
            lambda g: g["kept"][1].__setitem__(0, float("inf")),
            lambda g: g["kept"].pop(),
            lambda g: g["kept"][0].pop(),
            lambda g: g["guarantees"].clear(),
            lambda g: g["guarantees"][0].update(value=1.5),
            lambda g: g["guarantees"][0].update(value=float("nan")),
            lambda g: g["guarantees"][0].update(holds_from=-0.5),
            lambda g: g["guarantees"][0].update(holds_from=float("nan")),
            lambda g: g["guarantees"][0].update(priority="first"),
            lambda g: g["guarantees"][0].pop("name"),
            lambda g: g.update(error=float("inf")),
            lambda g: g.update(error=-1.0),
            lambda g: g.update(extra=1),
            lambda g: g.pop("levels"),
        ],
    )
    def test_damaged_documents_are_refused(
        self, guaranteed_case: Make, spoil: Callable[[dict[str, Any]], Any]
    ) -> None:
        document = json.loads(json.dumps(planner.plan(*guaranteed_case(4)).to_document()))
        spoil(document["guaranteed"])
        with pytest.raises(ArtifactError):
            Plan.from_document(document)

    def test_damaged_bytes_are_refused_or_make_a_plan(self, guaranteed_case: Make) -> None:
        plan = planner.plan(*guaranteed_case(4))
        payload = plan.to_bytes()
        length = LENGTH.unpack_from(payload)[0]
        for cut in (0, 4, LENGTH.size + length // 2, LENGTH.size + length + 9, len(payload) - 1):
            with pytest.raises(ArtifactError):
                Plan.from_bytes(payload[:cut])
        packed = zlib.compress(plan.guaranteed.levels.astype("<f4").tobytes(), 9)
        body = payload.removesuffix(packed)
        assert body != payload
        for other in (b"", zlib.compress(b""), packed + b"x", zlib.compress(bytes(1 << 26), 9)):
            with pytest.raises(ArtifactError):
                Plan.from_bytes(body + other)
        rng = np.random.default_rng(1)
        for _ in range(200):
            spoiled = bytearray(payload)
            spoiled[rng.integers(len(payload))] ^= int(rng.integers(1, 256))
            try:
                made = Plan.from_bytes(bytes(spoiled))
            except ArtifactError:
                continue
            assert np.all((made.at(0.3).take >= 0.0) & (made.at(0.3).take <= 1.0))
            assert 0.0 <= made.predicted_quality(0.3) <= 1.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_share": 1.5}, "less than or equal to 1"),
        ({"min_share": float("nan")}, "finite"),
        ({"min_share": 0.5, "priority": 1.5}, "priority"),
        ({"types": {"rumour": {"min_share": 0.5}}}, "flash, bulletin, report, got rumour"),
        ({"types": {"flash": {"min_shares": 0.5}}}, "min_shares"),
        ({"types": {"flash": {"min_share": 0.5}}, "type": None, "utilities": ()}, "type"),
        ({"window_of": {"third": {"min_share": 0.5}}}, "first, second, got third"),
        (
            {"types": {"report": {"min_share": 0.5}}, "combine": "product",
             "utilities": (1.0, 0.5, 0.0)},
            "no utility, got 0.5; raise its utility",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_a_definition_are_named(
    news: Make, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        news(**given)


def test_what_is_missed_is_said(news: Make) -> None:
    definition = news(types={"flash": {"min_share": 0.95, "priority": 3}}, load=0.2)
    statistics = demo_statistics("joins")
    plan = planner.plan(statistics, definition)
    (one,) = plan.guarantees
    assert 0.7 < one.holds_from < 1.0
    (said,) = planner.warnings(plan, statistics, definition)
    for word in (str(one), "0.2, 0.3, 0.5, 0.7", f"{plan.kept(0.7)[0]:.3g} at 0.7", "lower"):
        assert word in said
    assert plan.summary()["guarantees"] == [str(one)]
    modest = news(types={"flash": {"min_share": 0.1}}, load=0.2)
    assert planner.warnings(planner.plan(statistics, modest), statistics, modest) == []


def test_a_share_of_nothing_is_kept_and_said(news: Make) -> None:
    statistics = demo_statistics("joins")
    hits = statistics.hits.copy()
    hits[:, :, 0], hits[:, :, :, 0] = 0, 0
    silent = replace(statistics, hits=hits, early=None)
    definition = news(types={"flash": {"min_share": 0.9}}, prior_hits=0.0)
    plan = planner.plan(silent, definition)
    assert plan.guarantees[0].holds_from == 0.0
    assert plan.kept(0.1) == (1.0,)
    (said,) = planner.warnings(plan, silent, definition)
    assert said.startswith("type flash: min_share 0.9 is of nothing")
