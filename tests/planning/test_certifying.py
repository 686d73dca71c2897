"""Certificates: when a check and a plan contradict each other, and what all checks come to."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.certifying import (
    NOT_CERTIFIED,
    TOLERANCE,
    Check,
    Contradiction,
    Load,
    at,
    certify,
    contradict,
)

SOUND = Check(0.5, objective=0.8, claimed=0.8, best=0.8, bound=0.8)
STATUSES = ("exact", "within 0.1", "heuristic", "within 0.1 expected", "")


def contradiction(status: str = "exact", **fields: Any) -> str:
    """Return what a check that differs from a sound one is contradicted with, or nothing."""
    try:
        contradict(replace(SOUND, **fields), status)
    except Contradiction as error:
        return str(error)
    return ""


@dataclass
class Checks:
    """A certifier whose checks are given, each of which may take its time."""

    found: list[Check]
    takes_s: float = 0.0
    limits: list[float] = field(default_factory=list)
    scope: str = "optimal for these 3 parts"

    @property
    def loads(self) -> list[Load]:
        return [check.load for check in self.found]

    def check(self, load: Load, limit_s: float) -> Check:
        self.limits.append(limit_s)
        time.sleep(self.takes_s)
        return self.found[len(self.limits) - 1]


class TestContradict:
    """Every way in which a plan can be wrong, for plans that promise more or less."""

    @pytest.mark.parametrize("status", STATUSES)
    def test_a_sound_check_contradicts_nothing(self, status: str) -> None:
        assert contradiction(status) == ""
        assert contradiction(status, bound=0.9) == ""  # nothing better was found
        assert contradiction(status, bound=math.inf) == ""
        assert contradiction(status, best=0.7) == ""

    @pytest.mark.parametrize("status", STATUSES)
    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"objective": math.nan}, "claims quality 0.8, its setting has nan"),
            ({"claimed": math.inf}, "claims quality inf, its setting has 0.8"),
            ({"violation": math.nan}, "claims quality 0.8"),
            ({"violation": 0.005, "broken": "the budget"}, "breaks the budget by 0.005 of it"),
            ({"claimed": 0.81}, "claims quality 0.81000000, its setting has 0.80000000"),
            ({"claimed": 0.79}, "claims quality 0.79000000, its setting has 0.80000000"),
            ({"bound": 0.79}, "quality 0.80000000, above the bound 0.79000000 of GLOP"),
        ],
    )
    def test_what_no_plan_may_do(self, status: str, fields: dict[str, Any], said: str) -> None:
        told = contradiction(status, **fields)
        assert said in told
        assert told.startswith("the certificate contradicts the plan at load 0.5: ")
        assert told.endswith("report this with its statistics")

    @pytest.mark.parametrize(
        ("status", "best", "caught"),
        [
            ("exact", 0.8 + 2e-6, True),
            ("exact", 0.8 + 0.5e-6, False),
            ("exact after 3 rounds", 0.81, True),
            ("within 0.1", 0.88, False),
            ("within 0.1", 0.8 / 0.9 + 1e-4, True),
            ("within 0", 0.81, True),
            ("within 0.1 expected", 0.99, False),
            ("heuristic", 1.0, False),
        ],
    )
    def test_a_better_setting(self, status: str, best: float, caught: bool) -> None:
        told = contradiction(status, best=best, bound=max(best, 0.8))
        assert bool(told) is caught
        if caught:
            assert f"quality 0.80000000, GLOP found one with {best:.8f}" in told

    def test_what_interpolating_loses_is_admitted(self) -> None:
        assert contradiction("exact", best=0.801, bound=0.801, admitted=0.0011) == ""
        assert contradiction("exact", best=0.802, bound=0.802, admitted=0.0011)

    @pytest.mark.parametrize("name", ["violation", "claimed", "best", "bound"])
    def test_a_coarse_solver_is_given_its_tolerance(self, name: str) -> None:
        worse = {"violation": 5e-6, "claimed": 0.8 + 5e-6, "best": 0.8 + 5e-6, "bound": 0.8 - 5e-6}
        assert contradiction(**{name: worse[name]})
        assert contradiction(**{name: worse[name]}, tolerance=1e-5, solver="PDLP") == ""

    def test_a_finer_tolerance_makes_rounding_no_fault(self) -> None:
        assert contradiction(claimed=0.8 + 0.9e-6, tolerance=1e-12) == ""


class TestCertify:
    """What the checks of a plan come to."""

    def test_all_loads_without_a_gap_are_optimal(self) -> None:
        checks = [replace(SOUND, load=z) for z in (0.1, 0.2, 0.3)]
        found = certify(Checks(checks), "exact", 10.0)
        assert (found.status, found.reason, found.loads, found.of) == ("optimal", "", 3, 3)
        assert found.scope == "optimal for these 3 parts"
        assert found.checks == tuple(checks)
        assert found.solver.startswith("OR-Tools 9.")
        assert found.solver.endswith(" GLOP")
        assert 0.0 <= found.gap <= TOLERANCE
        assert 0.0 <= found.seconds < 10.0

    def test_the_widest_gap_and_the_worst_violation_count(self) -> None:
        wide = replace(SOUND, load=0.2, bound=1.0, violation=5e-7)
        found = certify(Checks([SOUND, wide]), "heuristic", 10.0)
        assert (found.status, found.gap) == ("within 0.2", pytest.approx(0.2))
        assert found.violation == 5e-7
        assert wide.gap == pytest.approx(0.2)

    def test_a_gap_within_the_solver_s_tolerance_is_none(self) -> None:
        check = replace(SOUND, bound=0.8 + 5e-6)
        assert certify(Checks([check]), "exact", 1.0).status.startswith("within 6.2")
        coarse = replace(check, tolerance=1e-5, solver="PDLP")
        assert certify(Checks([coarse]), "exact", 1.0).status == "optimal"

    def test_solvers_are_named_once(self) -> None:
        checks = [SOUND, replace(SOUND, solver="PDLP"), replace(SOUND, solver="GLOP")]
        assert certify(Checks(checks), "exact", 1.0).solver.endswith(" GLOP, PDLP")

    def test_the_first_load_is_checked_however_little_time_there_is(self) -> None:
        made = Checks([SOUND] * 5)
        found = certify(made, "exact", 0.0)
        assert (found.loads, found.of, len(made.limits)) == (1, 5, 1)
        assert found.reason == "the time limit of 0 s ended the checks"
        assert found.status == "optimal"

    def test_checks_end_with_the_time_and_each_gets_what_is_left(self) -> None:
        made = Checks([SOUND] * 50, takes_s=0.05)
        found = certify(made, "exact", 0.2)
        assert 1 <= found.loads < 50
        assert found.reason == "the time limit of 0.2 s ended the checks"
        assert made.limits == sorted(made.limits, reverse=True)
        assert made.limits[0] <= 0.2

    def test_a_load_without_a_bound_is_said_and_not_counted(self) -> None:
        lost = replace(SOUND, load=(0.25, 3.0), bound=math.inf, solver="PDLP")
        found = certify(Checks([SOUND, lost]), "exact", 10.0)
        assert (found.status, found.loads, found.of) == ("optimal", 1, 2)
        assert found.reason == "PDLP reached no bound at load (0.25, 3)"

    def test_nothing_bounded_is_not_certified(self) -> None:
        found = certify(Checks([replace(SOUND, bound=math.inf)]), "exact", 10.0)
        assert (found.status, found.loads, found.gap) == (NOT_CERTIFIED, 0, 1.0)
        assert found.reason == "GLOP reached no bound at load 0.5"
        assert found.violation == 0.0
        empty = certify(Checks([]), "exact", 10.0)
        assert (empty.status, empty.reason) == (NOT_CERTIFIED, "no load could be checked")

    def test_a_load_without_a_bound_may_still_contradict(self) -> None:
        wrong = replace(SOUND, bound=math.inf, claimed=0.9)
        with pytest.raises(Contradiction, match="claims quality 0.9"):
            certify(Checks([SOUND, wrong]), "heuristic", 10.0)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_gap_is_a_part_of_the_bound(objective: float, bound: float) -> None:
    gap = replace(SOUND, objective=objective, bound=bound).gap
    assert 0.0 <= gap <= 1.0
    assert gap == pytest.approx(max(0.0, 1.0 - objective / bound) if bound > 1e-6 else gap)


def test_loads_read_alike_everywhere() -> None:
    assert [at(load) for load in (0.25, (1.0, 2.5), [3], {"a": 1e6, "b": 0.125})] == [
        "0.25", "(1, 2.5)", "(3)", "(a 1e+06, b 0.125)",
    ]  # fmt: skip
