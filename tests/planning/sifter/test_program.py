"""Certificates: sound plans pass, and deliberately damaged ones do not."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.sifter.guarantees import instance
from planning import streams
from planning.arrays import frozen, single_precision
from planning.certifying import TOLERANCE, Contradiction, certify
from planning.sifter import planner, program, statistics
from planning.sifter.plan import Setting

SEEDS = range(40)


def certificate(plan, known, definition, limit_s=20.0):
    status = planner.solver_status(plan, definition)
    return certify(program.certifier(plan, known, definition), status, limit_s)


def is_caught(*candidate):
    try:
        certificate(*candidate)
    except Contradiction:
        return True
    return False


def made(seed, terms=True):
    definition, known = instance(seed, terms=terms)
    return planner.plan(known, definition), known, definition


@pytest.mark.parametrize("terms", [True, False])
def test_sound_plans_of_random_statistics_are_certified(terms):
    for seed in SEEDS:
        plan, known, definition = made(seed, terms)
        found = certificate(plan, known, definition)
        assert found.loads == found.of
        assert found.violation <= TOLERANCE
        assert found.scope == f"optimal for these {plan.regions} regions"
        if plan.traced is None:
            assert found.status == "optimal", seed


class Damaged:
    """A plan that sets something else than it was solved for, and says what it said."""

    def __init__(self, plan, change):
        self._plan, self._change = plan, change

    def __getattr__(self, name):
        return getattr(self._plan, name)

    def at(self, load):
        return Setting(load, frozen(self._change(self._plan.at(load).drop_thresholds.copy())))


def worst_move(plan, other, known, definition):
    """By how much a change moves quality or budget, at the loads in use."""
    problem = program.Problem.of(known, definition)
    loads = (definition.parameters.throttle_fraction, *definition.gate.loads)
    moved = 0.0
    for load in loads:
        rows = np.array([p.at(load).drop_thresholds for p in (plan, other)])
        moved = max(moved, *(abs(float(np.diff(f(rows))[0])) for f in (problem.quality,
                                                                      problem.passed)))  # fmt: skip
    return moved


def damages(plan, rng):
    """Candidates that were tampered with: thresholds, budget, regions, and numbers in the plan."""
    first, second = rng.integers(plan.regions, size=2).tolist()
    swapped = np.arange(plan.regions)
    swapped[[first, second]] = second, first

    def moved(d):
        d[first] = d[first] * 0.99 if d[first] > 0.5 else d[first] + 0.01
        return d

    yield Damaged(plan, moved)
    yield Damaged(plan, lambda d: np.maximum(d - 0.005, 0.0))  # the budget is off by 0.5 %
    yield Damaged(plan, lambda d: np.minimum(d + 0.005, 1.0))
    yield Damaged(plan, lambda d: d[swapped])
    yield replace(plan, frequency=single_precision(plan.frequency[swapped]))
    yield replace(plan, fairness_threshold=min(1.0, plan.fairness_threshold + 0.01))
    if plan.traced is None:
        yield replace(plan, region_qos=single_precision(plan.region_qos[swapped]))
        yield replace(plan, frequency=single_precision(plan.frequency * 0.995))
        yield replace(plan, queried=plan.queried[swapped])
        return
    table = plan.traced.drop_thresholds
    for changed in (table[:, swapped], np.maximum(table - 0.005, 0.0), table * 0.99):
        rows = np.array(changed)
        rows[-1] = 0.0
        yield replace(plan, traced=replace(plan.traced, drop_thresholds=single_precision(rows)))
    yield replace(plan, traced=replace(plan.traced, quality=frozen(plan.traced.quality + 2e-6)))
    yield replace(plan, traced=replace(plan.traced, kept=frozen(plan.traced.kept * 0.99)))
    earlier = tuple(
        replace(one, holds_from=max(0.0, one.holds_from - 0.05)) for one in plan.traced.guarantees
    )
    yield replace(plan, traced=replace(plan.traced, guarantees=earlier))


@pytest.mark.parametrize("terms", [True, False])
def test_damaged_candidates_are_caught(terms):
    tampered = 0
    for seed in range(20):
        plan, known, definition = made(seed, terms)
        if plan.regions < 2:
            continue
        rng = np.random.default_rng(seed)
        for number, candidate in enumerate(damages(plan, rng)):
            if worst_move(plan, candidate, known, definition) <= TOLERANCE:
                continue
            tampered += 1
            assert is_caught(candidate, known, definition), (seed, number)
    assert tampered >= 100


def test_what_is_claimed_for_a_guarantee_must_be_true():
    caught = 0
    for seed in range(20):
        plan, known, definition = made(seed)
        if plan.traced is None or not plan.guarantees:
            continue
        *_, quality, kept, earlier = damages(plan, np.random.default_rng(seed))
        for number, candidate in enumerate((quality, kept, earlier)):
            claims = np.abs(candidate.traced.kept - plan.traced.kept).max() > 2 * TOLERANCE
            floors = [one.holds_from for one in plan.guarantees]
            if candidate is earlier and max(floors) <= 0.0 or candidate is kept and not claims:
                continue
            assert is_caught(candidate, known, definition), (seed, number)
            caught += 1
    assert caught >= 25


def test_a_plan_of_other_terms_is_not_that_of_the_definition():
    plan, known, definition = made(3)
    document = definition.model_dump(mode="json", exclude_defaults=True)
    for query in document["queries"]["inline"]:
        query["min_completeness"] = 0.5
    other = streams.parse(document, "t.yaml")
    with pytest.raises(Contradiction, match="the guarantees of the definition"):
        certificate(plan, known, other)


def test_without_time_there_is_no_bound_and_no_error():
    plan, known, definition = made(3)
    found = program.certifier(plan, known, definition).check(0.5, 0.0)
    assert found.bound == np.inf
    assert found.violation <= TOLERANCE


def test_statistics_of_earlier_releases_certify_plans_without_terms(scene):
    known = statistics.build(scene.samples, scene.definition)
    plan = planner.plan(known, scene.definition)
    earlier = replace(known, shares=None)
    assert certificate(plan, earlier, scene.definition).status == "optimal"
