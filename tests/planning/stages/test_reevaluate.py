"""Scheduled runs of a family that looks less often while its plans stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planning.home import Home
from planning.stages import gate, publish, reevaluate

NOON = "2026-01-02T12:00:00Z"
NOON_S = 1767355200.0


@pytest.fixture
def attributes(planned_demos: dict[str, Any], tmp_path: Path) -> Any:
    import shutil

    planned = planned_demos["attributes"]
    shutil.copytree(str(planned.home.root), tmp_path / "home")
    home = Home.at(tmp_path / "home")
    return home, planned.definition, type(planned.run)(home.runs / "sensors" / "batch-0")


def test_a_run_skips_until_the_interval_is_over_and_doubles_it(attributes: Any) -> None:
    home, definition, run = attributes
    interval = definition.parameters.reevaluate_s
    assert reevaluate.due(home, definition, NOON_S)[0]
    gate.gate(home, run)
    publish.publish(home, run, created_at=NOON)
    wanted, why = reevaluate.due(home, definition, NOON_S + interval - 1)
    assert not wanted
    assert "next look in 1 s" in why
    assert reevaluate.due(home, definition, NOON_S + interval)[0]
    run.folder.joinpath("published.json").unlink()
    publish.publish(home, run, created_at="2026-01-02T12:30:00Z")
    assert not reevaluate.due(home, definition, NOON_S + 2 * interval)[0]
    assert reevaluate.due(home, definition, NOON_S + interval + 2 * interval)[0]


def test_a_refused_plan_counts_as_an_evaluation_too(attributes: Any) -> None:
    home, definition, run = attributes
    run.write("verdict", {**gate.gate(home, run), "decision": "refuse"})
    assert publish.publish(home, run, created_at=NOON) is None
    assert not reevaluate.due(home, definition, NOON_S + 1)[0]


def test_a_dry_run_leaves_the_interval_alone(attributes: Any) -> None:
    home, definition, run = attributes
    gate.gate(home, run)
    publish.publish(home, run, created_at=NOON, dry_run=True)
    assert reevaluate.due(home, definition, NOON_S + 1)[0]


def test_other_families_plan_at_every_scheduled_run(planned_demos: dict[str, Any]) -> None:
    planned = planned_demos["sifter"]
    assert reevaluate.due(planned.home, planned.definition, 0.0)[0]
