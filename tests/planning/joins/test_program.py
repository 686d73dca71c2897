"""The certificate: sound plans pass, and damaged ones are contradicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from planning.certifying import Certificate, Contradiction, certify
from planning.examples import demo_definition, demo_plan, demo_statistics
from planning.joins import path, planner, program
from planning.joins.plan import Plan, Setting

Make = Callable[..., Any]
SEEDS = range(24)
MOVED = 1e-6


def certified(plan: Any, statistics: Any, definition: Any, limit_s: float = 60.0) -> Certificate:
    status = planner.solver_status(plan, definition)
    return certify(program.certifier(plan, statistics, definition), status, limit_s)


@pytest.mark.parametrize("seed", SEEDS)
def test_sound_plans_pass(case_of: Make, guaranteed_case: Make, seed: int) -> None:
    case = case_of(seed, 1 + seed % 3, (2,) if seed % 5 == 0 else ())
    found = certified(planner.plan(*case), *case)
    assert (found.status, found.loads) == ("optimal", found.of)
    for prior_hits in (0.0, 30.0):
        case = guaranteed_case(seed, prior_hits=prior_hits)
        plan = planner.plan(*case)
        found = certified(Plan.from_bytes(plan.to_bytes()), *case)
        assert found.loads == found.of >= len(plan.guaranteed.loads)
        assert found.status == "optimal" or found.status.startswith("within ")
        assert found.gap < 0.05
        above = max(one.holds_from for one in plan.guarantees)
        full = [check for check in found.checks if check.load >= above]
        assert max(check.bound - check.objective for check in full) <= plan.guaranteed.error + 1e-6


def test_samples_that_do_not_last_pass_too() -> None:
    statistics, definition = demo_statistics("joins"), demo_definition("joins")
    early = statistics.early
    assert early is not None
    turned = replace(statistics, early=(early[0][:, ::-1].copy(), early[1]))
    turned = replace(turned, hits=statistics.hits - early[0] + turned.early[0])
    plan = planner.plan(turned, definition)
    assert plan.lasting
    assert certified(plan, turned, definition).status == "optimal"
    assert plan.predicted_quality(0.1) < replace(plan, lasting=()).predicted_quality(0.1) - 0.01
    bare = replace(plan, lasting=())  # as nodes of release 0.1 know it
    assert certified(bare, turned, definition).status == "optimal"
    with pytest.raises(Contradiction, match="it claims quality"):
        certified(replace(plan, lasting=tuple(0.99 * x for x in plan.lasting)), turned, definition)


def test_the_scope_and_the_loads_are_said() -> None:
    plan, statistics = demo_plan("joins"), demo_statistics("joins")
    definition = demo_definition("joins")
    made = program.certifier(plan, statistics, definition)
    assert made.scope == "optimal for the estimated densities of these 126 items"
    assert made.loads[0] == definition.parameters.load
    assert {0.0, 1.0, *definition.gate.loads} <= set(made.loads)
    turns = np.cumsum(plan.volumes.ravel()[plan.order])
    assert all(np.abs(np.array(made.loads) - turn).min() < 1e-9 for turn in turns)


def test_a_load_without_time_has_no_bound() -> None:
    plan, statistics = demo_plan("joins"), demo_statistics("joins")
    definition = demo_definition("joins")
    check = program.certifier(plan, statistics, definition).check(0.3, 0.0)
    assert check.bound == math.inf
    assert check.best == check.objective
    assert check.violation < 1e-9


@dataclass
class Wrong:
    """A plan that answers otherwise than it was made to."""

    plan: Plan
    take: Callable[[Plan, float], Any] | None = None
    claim: float = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plan, name)

    def at(self, load: float) -> Setting:
        if self.take is None:
            return self.plan.at(load)
        return replace(self.plan.at(load), take=np.asarray(self.take(self.plan, load)))

    def predicted_quality(self, load: float) -> float:
        return self.plan.predicted_quality(load) * (1.0 + self.claim)


def swapped(table: Any, a: int, b: int) -> Any:
    other = np.array(table)
    other.ravel()[[a, b]] = other.ravel()[[b, a]]
    return other


def changed(table: Any, at: int, factor: float, most: float = np.inf) -> Any:
    other = np.array(table)
    other.ravel()[at] = min(other.ravel()[at] * factor, most)
    return other


def damages(plan: Plan, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Yield damaged candidates of a plan."""
    n = plan.density.size
    a, b = (int(i) for i in rng.choice(np.flatnonzero(plan.volumes.ravel() > 0), 2, replace=False))
    yield "a density", replace(plan, density=changed(plan.density, a, 1.01))
    yield "two densities", replace(plan, density=swapped(plan.density, a, b))
    yield "comparisons", replace(plan, comparisons=changed(plan.comparisons, a, 1.05))
    yield "less of everything", Wrong(plan, lambda p, r: p.at(r).take * 0.99)
    yield "more of everything", Wrong(plan, lambda p, r: np.minimum(p.at(r).take * 1.01, 1.0))
    yield "beyond the budget", Wrong(plan, lambda p, r: p.at(min(r * 1.005, 1.0)).take)
    yield "below the budget", Wrong(plan, lambda p, r: p.at(r * 0.995).take)
    yield "two items", Wrong(plan, lambda p, r: swapped(p.at(r).take, a, b))
    yield "more than all", Wrong(plan, lambda p, r: p.at(r).take * 1.01)
    yield "a claim", Wrong(plan, claim=1e-5)
    some = plan.guaranteed
    if some is None:
        return
    row = int(rng.integers(1, len(some.loads) - 1))

    def kept(**fields: Any) -> Plan:
        return replace(plan, guaranteed=replace(some, **fields))

    yield "a level", kept(levels=changed(some.levels, row * n + a, 0.99))
    yield "levels of two items", kept(levels=swapped(some.levels, row * n + a, row * n + b))
    middle = float(some.loads[row : row + 2].mean())
    yield "a load", kept(loads=changed(some.loads, row, 1.005, middle))
    yield "a quality", kept(quality=changed(some.quality, row, 1.01, 1.0))
    yield "what is kept", kept(kept=changed(some.kept, row * len(plan.guarantees), 1.01, 1.0))
    one, *others = plan.guarantees
    for name, other in {
        "a floor": replace(one, holds_from=one.holds_from * 0.99),
        "a limit": replace(one, value=one.value * 0.99),
        "a priority": replace(one, priority=one.priority + 1),
    }.items():
        yield name, kept(guarantees=(other, *others))
    yield "no guarantee", kept(guarantees=tuple(others), kept=some.kept[:, 1:])
    yield "no guarantees at all", replace(plan, guaranteed=None)


def moves(plan: Plan, other: Any, statistics: Any, definition: Any) -> bool:
    """Whether a damaged plan spends, finds, keeps or claims something else by the statistics."""
    density, _, made = statistics.settled(definition)
    volumes, value = made / made.sum(), density * made / (density * made).sum()
    tables = [table for _, table in statistics.protected(definition)]
    turns = np.cumsum(volumes.ravel()[path.rank(density)])
    some = plan.guaranteed.loads if plan.guaranteed else turns
    for load in np.concatenate((np.linspace(0.0, 1.0, 41), np.minimum(some, 1.0))):
        was, now = plan.at(load).take, other.at(load).take
        off = [np.abs(plan.predicted_quality(load) - other.predicted_quality(load))]
        off += [np.abs(((now - was) * value).sum())]
        off += [((now * volumes).sum() - load) / load if load > 0 else 0.0, now.max() - 1.0]
        off += [np.abs(((now - was) * table).sum()) for table in tables]
        for i, one in enumerate(other.guarantees):
            share = (tables[i] * now).sum() / one.value
            off += [1.0 - share if load >= one.holds_from and tables[i].any() else 0.0]
        if max(off) > MOVED:
            return True
    asked = [(one.name, one.value, one.priority) for one in plan.guarantees]
    return asked != [(one.name, one.value, one.priority) for one in other.guarantees]


def contradicted(plan: Any, statistics: Any, definition: Any) -> bool:
    try:
        certified(plan, statistics, definition)
    except Contradiction:
        return True
    return False


@pytest.mark.parametrize("seed", range(6))
def test_damaged_candidates_are_contradicted(
    case_of: Make, guaranteed_case: Make, seed: int
) -> None:
    rng, caught = np.random.default_rng(seed), 0
    for case in (case_of(seed, 1 + seed % 3), guaranteed_case(seed)):
        plan = planner.plan(*case)
        for name, other in damages(plan, rng):
            if moves(plan, other, *case):
                assert contradicted(other, *case), name
                caught += 1
    assert caught > 15


def test_damaged_candidates_of_the_demo_are_contradicted() -> None:
    rng, case = np.random.default_rng(7), (demo_statistics("joins"), demo_definition("joins"))
    for _ in range(2):
        for name, other in damages(demo_plan("joins"), rng):
            if moves(demo_plan("joins"), other, *case):
                assert contradicted(other, *case), name


def test_other_statistics_are_not_the_plan_s(case_of: Make) -> None:
    statistics, definition = case_of(3)
    plan = planner.plan(statistics, definition)
    longer = replace(statistics, comparisons=statistics.comparisons + 1)
    with pytest.raises(Contradiction, match="breaks the items of the statistics"):
        certified(plan, longer, definition)
