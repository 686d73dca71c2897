"""The reproduction command writes every figure and table, and the stated numbers are in them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from planning.fit import experiments
from planning.fit.reproduce import reproduce

pytestmark = pytest.mark.slow


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"fit-{name}.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_figures_and_tables_are_written(tmp_path: Path):
    said: list[str] = []
    reproduce(tmp_path, True, said.append)
    page = (tmp_path / "fit.md").read_text(encoding="utf-8")
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


def test_more_mass_above_the_boundary_needs_more_plans():
    for _, *plans in experiments.provision_by_lambda((1, 3, 5)):
        assert plans == sorted(plans)


def test_larger_changes_send_more_rows_and_larger_distances_fewer():
    table = experiments.selectivity_deltas((0.0, 0.05, 0.1))
    for _, *shares in table:
        assert shares == sorted(shares, reverse=True)
    first = [row[1] for row in table]
    assert first == sorted(first)
