"""The gate: what it measures, and each reason for which it refuses a plan."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planning.artifacts import Store, TrustedKeys
from planning.errors import StoreError
from planning.families import family
from planning.home import Home
from planning.stages import gate, local, publish, solve
from planning.stages.run import Run

NOW = "2026-01-02T03:04:05Z"


@pytest.fixture
def planned(planned_demos: dict[str, Any], tmp_path: Path) -> tuple[Home, Run]:
    """A separate home with the sifter's demo stream, planned up to its candidate."""
    shutil.copytree(str(planned_demos["sifter"].home.root), tmp_path / "home")
    home = Home.at(tmp_path / "home")
    return home, Run.of(home, "ticks", "batch-0")


def test_the_gate_measures_on_the_held_out_rows_alone(planned: tuple[Home, Run]) -> None:
    home, run = planned
    outcomes = gate.gate(home, run)["outcomes"]
    assert {outcome["offered"] for outcome in outcomes} == {run.read("validation")["holdout"]}


def test_a_plan_that_does_worse_than_random_dropping_is_refused(
    planned: tuple[Home, Run],
) -> None:
    home, run = planned
    definition = run.read("definition")
    asked = {"file": None, "inline": [{"name": "dear", "ranges": {"price": [60, 100]}}]}
    other = {"file": None, "inline": [{"name": "cheap", "ranges": {"price": [0, 40]}}]}
    run.write("definition", _asking(definition, other))
    local.statistics(run)
    solve.solve(run)
    run.write("definition", _asking(definition, asked))
    verdict = gate.gate(home, run)
    assert verdict["decision"] == "refuse"
    assert "random dropping only" in verdict["reason"]
    assert publish.publish(home, run, created_at=NOW) is None


def _asking(document: dict[str, Any], queries: dict[str, Any]) -> dict[str, Any]:
    return {**document, "definition": {**document["definition"], "queries": queries}}


def test_a_plan_that_passes_more_than_its_load_is_refused(
    planned: tuple[Home, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, run = planned
    simulate = family("sifter").room("simulate")
    honest = simulate.evaluate

    def spendthrift(*arguments: Any) -> list[Any]:
        return [replace(o, passed_fraction=o.load + 0.1) for o in honest(*arguments)]

    monkeypatch.setattr(simulate, "evaluate", spendthrift)
    verdict = gate.gate(home, run)
    assert verdict["decision"] == "refuse"
    assert "at load 0.3 it passes 0.400 of the held-out samples" in verdict["reason"]


def test_a_damaged_published_plan_does_not_stop_the_next_one(planned: tuple[Home, Run]) -> None:
    home, run = planned
    gate.gate(home, run)
    publish.publish(home, run, created_at=NOW)
    store = Store(home.plans, TrustedKeys.load(home.keys))
    store.manifest_path("ticks", 1).write_bytes(b"half a manif")
    verdict = gate.gate(home, run)
    assert verdict["decision"] == "publish"
    assert verdict["reason"].startswith("the published plan cannot be compared: ")


def test_a_plan_may_replace_one_of_another_family(
    planned: tuple[Home, Run], planned_demos: dict[str, Any]
) -> None:
    home, run = planned
    gate.gate(home, run)
    publish.publish(home, run, created_at=NOW)
    fleet = planned_demos["lira"]
    successor = Run.of(home, "ticks", "as-lira")
    shutil.copytree(str(fleet.run.folder), str(successor.folder))
    document = successor.read("definition")
    document["definition"]["stream"] = "ticks"
    successor.write("definition", document)
    verdict = gate.gate(home, successor)
    assert verdict["decision"] == "publish"
    assert verdict["reason"] == "it replaces version 1, a plan of sifter"
    published = publish.publish(home, successor, created_at=NOW)
    assert published is not None
    assert published["version"] == 2


def test_a_store_that_cannot_be_reached_stops_the_gate(planned: tuple[Home, Run]) -> None:
    home, run = planned
    Path(str(home.plans)).write_text("a file where the store should be")
    with pytest.raises(StoreError):
        gate.gate(home, run)
    assert not run.has("verdict")
