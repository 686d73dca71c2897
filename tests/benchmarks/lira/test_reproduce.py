"""The reproduction's page: tables, plots, and verdicts that follow from the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.figures import Figure
from benchmarks.lira import claims, experiments
from benchmarks.reproduction import Page, claims_of

TINY = replace(
    experiments.QUICK, loads=(0.3, 0.5, 0.75), regions=(25, 250), fairness=(25.0, 95.0)
)
# Statements that do not depend on how fast a machine is.
HOLD = (
    "updates fall fast near Δmin", "LIRA has the least E_P", "Random Drop is worst",
    "relative errors fall towards 1", "D_ev falls with", "E_P rises with the query side length",
)  # fmt: skip
DIFFER = {
    "thresholds reach no lower than": "depends on the trace",
    "z = 0.5: Random Drop": "number of cars",
    "Lira-Grid has up to 35 %": "a plain grid often does as well",
    "at m/n = 0.1 LIRA has about half": "watch most cars",
    "regions per station of 1 to 5 km": "πR²",
}


@pytest.fixture(scope="module")
def tables(scene: Any) -> dict[str, Figure]:
    return {t.name: t for experiment in experiments.EXPERIMENTS for t in experiment(scene, TINY)}


@pytest.fixture
def page(tmp_path: Any) -> Page:
    return Page(tmp_path, "lira", "LIRA", "A page.")


def test_every_figure_is_a_table_and_a_plot_with_labels(tables, page, tmp_path):
    for table in tables.values():
        page.figure(table)
        assert (tmp_path / f"lira-{table.name}.svg").stat().st_size > 1000
        lines = (tmp_path / f"lira-{table.name}.csv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(table.rows) + 1
        for panel in table.panels:
            assert panel.y_label
            assert set(panel.columns) <= set(table.columns[1:])
    names = [f"figure-{n:02d}" for n in (1, *range(4, 15))]
    assert sorted(tables) == sorted([*names, "table-03"])


def test_every_figure_has_a_claim_and_every_difference_a_reason(tables, page):
    made = claims.claims(tables)
    page.claim(*made)
    rows = claims_of(page.write())
    assert {row[0] for row in rows} == {f"Figure {n}" for n in (1, *range(4, 15))} | {"Table 3"}
    assert all(claim.reason for claim in made)  # what holds here may not hold elsewhere
    told = ["reproduced" if claim.holds else f"differs: {claim.reason}" for claim in made]
    assert [verdict for *_, verdict in rows] == told


@pytest.mark.parametrize("words", HOLD)
def test_what_holds_on_a_small_scene_is_reproduced(tables, words):
    assert _verdict(tables, words) == "reproduced"


@pytest.mark.parametrize(("words", "reason"), DIFFER.items())
def test_what_differs_on_a_small_scene_says_why(tables, words, reason):
    verdict = _verdict(tables, words)
    assert verdict.startswith("differs: ")
    assert reason in verdict


def test_the_papers_table_3_is_an_area(tables):
    for _, paper, circle, *_ in tables["table-03"].rows[:5]:
        assert paper == pytest.approx(circle, abs=0.1)


def test_verdicts_follow_the_numbers(tables):
    """Put the paper's own numbers in: what differed is reproduced."""
    errors = (3.0, 0.4, 0.02, 0.01, 0.01)  # 300, 40 and 2 times the error of the printed LIRA
    table = tables["figure-04"]
    rows = [(row[0], *errors) if row[0] == 0.75 else row for row in table.rows]
    stated = replace(table, rows=rows)
    assert _verdict(tables, "z = 0.75").startswith("differs: ")
    assert _verdict(tables | {"figure-04": stated}, "z = 0.75") == "reproduced"
    table = tables["figure-13"]
    falling = replace(table, rows=[(w, p, 1.0 / w) for w, p, _ in table.rows])
    assert _verdict(tables | {"figure-13": falling}, "E_C falls") == "reproduced"
    rising = replace(table, rows=[(w, p, float(w)) for w, p, _ in table.rows])
    assert _verdict(tables | {"figure-13": rising}, "E_C falls").startswith("differs: ")


def _verdict(tables: dict[str, Figure], words: str) -> str:
    (claim,) = [c for c in claims.claims(tables) if words in c.stated]
    return claim.verdict


def test_trends_and_closeness():
    assert claims.rises(np.arange(5.0))
    assert not claims.rises(-np.arange(5.0))
    assert not claims.rises(np.zeros(3))
    assert claims.close(8.1, 10.0)
    assert not claims.close(7.9, 10.0)
