"""The reproduction command writes every figure and table, and the stated numbers are in them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.fit import claims, experiments
from benchmarks.fit.reproduce import draw_regions, reproduce
from planning.fit import demo
from planning.fit.planner import plan_network


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"fit-{name}.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_colours_tell_which_arcs_shed_nothing_a_part_or_all():
    plan = plan_network(demo.figure_1())
    axes = Figure().add_subplot()
    draw_regions(plan, axes, "i1", "i2", points=11)
    [mesh] = axes.collections
    colours = np.asarray(mesh.get_array()).reshape(11, 11).T
    kinds = {}
    for i, j in np.ndindex(11, 11):
        drops = plan.at([i / 10, j / 10])
        whole = frozenset(arc for arc, fraction in drops.items() if fraction >= 1 - 1e-9)
        shed = frozenset(arc for arc, fraction in drops.items() if fraction > 1e-9)
        assert kinds.setdefault((shed, whole), colours[i, j]) == colours[i, j]
    assert len(set(kinds.values())) == len(kinds) >= 3
    assert colours[0, 0] == colours[1, 1] != colours[10, 10]


@pytest.mark.slow
def test_figures_and_tables_are_written(tmp_path: Path):
    said: list[str] = []
    reproduce(tmp_path, True, said.append)
    page = (tmp_path / "fit.md").read_text(encoding="utf-8")
    stated = [line.split(" | ")[0] for line in page.splitlines() if line.endswith(" |")]
    for number in ("Table 1", "Figure 7", "Figure 10(a)", "Figure 11(a)", "Figure 12", "Figure 13",
                   "Figure 14(b)", "Figure 15(c)", "Table 3"):  # fmt: skip
        assert f"| {number}" in stated
    for title in ("Figure 10", "Figure 11", "Figure 12", "Figure 13", "Figure 14", "Figure 15",
                  "Table 3"):  # fmt: skip
        assert title in page
        assert any(title in line for line in said)
    for name in ("10", "11a", "12", "13", "14a", "15b", "15c"):
        assert (tmp_path / f"fit-figure-{name}.svg").stat().st_size > 1000
    table = rows(tmp_path, "table-3")
    assert abs(int(table[0]["entries, floor at mfr/10"]) - 46) <= 2
    assert [row["critical regions"] for row in table] == ["4", "9", "25"]
    plans = [int(row["Solver plans"]) for row in rows(tmp_path, "figure-10")]
    assert plans == sorted(plans)  # imbalance makes Solver work harder
    fans = [int(row["C-FIT plans"]) for row in rows(tmp_path, "figure-13")]
    assert fans == sorted(fans)


def test_table_1_and_figure_7_are_reproduced():
    table = experiments.motivating_example()
    stated = claims.table_1(table) + claims.figure_7(*experiments.complementary_plan())
    assert [claim.verdict for claim in stated] == ["reproduced"] * 3
    wrong = [*table[:4], (4, "1/5, 2/5", "1", "1/5, 2/5", "1", "1/5, 1/5")]
    assert not any(claim.holds for claim in claims.table_1(wrong))
    assert not claims.figure_7(0.6, 0.28, 0.26)[0].holds


def test_claims_that_do_not_hold_say_so():
    assert claims.figure_11c([("", "22%", 9, 0.1), ("", "30%", 8, 0.1)])[1].holds
    assert not claims.figure_11c([("", "22%", 8, 0.1), ("", "30%", 9, 0.1)])[1].holds
    assert not claims.figure_15b([(0.9, 0.1, 0.2), (0.8, 0.3, 0.1)])[0].holds
    refused = claims.figure_14b([(2, 0.1, 0.1, 50, ""), (8, 0.1, "", "", "refused")])
    assert [claim.holds for claim in refused] == [True, False]
    entries = claims.table_3([(2, 46, 52, 47, 113, 24, 4), (4, 984, 96, 30883, 992469, 40, 9)])
    assert [claim.holds for claim in entries] == [True, False, False]


@pytest.mark.slow
def test_more_mass_above_the_boundary_needs_more_plans():
    for _, *plans in experiments.provision_by_lambda((1, 3, 5)):
        assert plans == sorted(plans)


@pytest.mark.slow
def test_larger_changes_send_more_rows_and_larger_distances_fewer():
    table = experiments.selectivity_deltas((0.0, 0.05, 0.1))
    for _, *shares in table:
        assert shares == sorted(shares, reverse=True)
    first = [row[1] for row in table]
    assert first == sorted(first)
