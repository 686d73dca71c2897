"""The stages from validate to publish, over a real run folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planning.artifacts import Store, TrustedKeys
from planning.errors import BatchRejected, NoPlan, PlanningError
from planning.families import family
from planning.home import Home
from planning.samples import read_columns
from planning.stages import collect, gate, local, publish, solve
from planning.stages.run import Run
from planning.streams import StreamDefinition, parse

NOW = "2026-01-02T03:04:05Z"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path)


@pytest.fixture(scope="module")
def ticks() -> StreamDefinition:
    document = {
        "stream": "ticks",
        "family": "sifter",
        "attributes": [
            {"name": "price", "domain": [0, 100]},
            {"name": "volume", "domain": [0, 1000]},
        ],
        "queries": {
            "inline": [
                {"name": "cheap", "ranges": {"price": [0, 30]}, "weight": 2},
                {"name": "large", "ranges": {"volume": [600, 1000]}},
                {"name": "corner", "ranges": {"price": [80, 100], "volume": [0, 200]}},
            ]
        },
        "retention": {"versions": 2, "runs": 3},
        "validity": {"valid_for_s": 60, "fallback": "pass"},
    }
    return parse(document, "ticks.yaml")


def planned(home: Home, definition: StreamDefinition, batch: int, **changes: Any) -> Run:
    """Run the stages of one batch up to the candidate."""
    changed = definition.with_parameters(changes)
    folder = home.resolve(definition.landing)
    family("sifter").room("demo").land(folder, batch, definition)
    run = collect.collect(home, changed, f"run-{batch}")
    local.validate(run)
    local.statistics(run)
    solve.solve(run)
    return run


def through(home: Home, definition: StreamDefinition, batch: int, **changes: Any) -> Any:
    run = planned(home, definition, batch, **changes)
    gate.gate(home, run)
    return publish.publish(home, run, created_at=NOW)


def store(home: Home) -> Store:
    return Store(home.plans, TrustedKeys.load(home.keys))


def test_the_first_plan_is_published_with_everything_a_reader_needs(
    home: Home, ticks: StreamDefinition
) -> None:
    summary = through(home, ticks, 0)
    published = store(home).load("ticks")
    manifest = published.manifest
    assert (summary["version"], manifest.version, manifest.parent) == (1, 1, None)
    assert manifest.parameters["regions"] == ticks.parameters.regions
    assert set(manifest.inputs) == {"definition", "collected", "statistics", "candidate"}
    assert [p.load for p in manifest.predicted] == [0.3, 0.5, 0.7]
    assert manifest.validity.not_after == "2026-01-02T03:05:05Z"
    assert manifest.validity.fallback == "pass"
    assert manifest.gate.decision == "publish"
    assert 1 < published.plan.at(0.5).drop_thresholds.size <= ticks.parameters.regions


def test_a_repeated_publication_of_a_run_publishes_once(
    home: Home, ticks: StreamDefinition
) -> None:
    run = planned(home, ticks, 0)
    gate.gate(home, run)
    first = publish.publish(home, run, created_at=NOW)
    (run.folder / "published.json").unlink()  # as if the task died before noting it
    second = publish.publish(home, run, created_at="2026-01-02T04:00:00Z")
    assert first is not None
    assert second is not None
    assert first["version"] == second["version"] == 1
    assert store(home).versions("ticks") == (1,)


def test_a_worse_plan_is_refused_and_the_published_one_stays(
    home: Home, ticks: StreamDefinition
) -> None:
    through(home, ticks, 0)
    run = planned(home, ticks, 1, regions=4, partitioner="uniform_grid")
    verdict = gate.gate(home, run)
    assert verdict["decision"] == "refuse"
    assert "the published version 1 only" in verdict["reason"]
    assert publish.publish(home, run, created_at=NOW) is None
    assert store(home).versions("ticks") == (1,)
    forced = gate.gate(home, run, force=True)
    assert forced["decision"] == "publish"
    assert forced["reason"].startswith("forced although at load 0.3 it loses")
    published = publish.publish(home, run, created_at=NOW)
    assert published is not None
    assert published["version"] == 2


def test_a_dry_run_stops_before_publishing(home: Home, ticks: StreamDefinition) -> None:
    run = planned(home, ticks, 0)
    gate.gate(home, run)
    assert publish.publish(home, run, created_at=NOW, dry_run=True) is None
    with pytest.raises(NoPlan):
        store(home).latest("ticks")


def test_retention_keeps_the_newest_versions_and_runs(home: Home, ticks: StreamDefinition) -> None:
    for batch in range(5):
        run = planned(home, ticks, batch)
        gate.gate(home, run, force=True)
        publish.publish(home, run, created_at=NOW)
    assert store(home).versions("ticks") == (4, 5)
    kept = sorted(folder.name for folder in (home.runs / "ticks").iterdir())
    assert kept == ["run-2", "run-3", "run-4"]


def test_bad_rows_are_quarantined_and_the_rest_is_split_without_loss(
    home: Home, ticks: StreamDefinition
) -> None:
    run = planned(home, ticks, 0)
    report = run.read("validation")
    names = ticks.attribute_names
    train, held = read_columns(run.train, names), read_columns(run.holdout, names)
    quarantined = (run.quarantine / "part-0.jsonl").read_text().splitlines()
    assert len(quarantined) == report["quarantined"] > 0
    assert json.loads(quarantined[0])["reasons"]
    assert len(train["price"]) + len(held["price"]) + len(quarantined) == report["rows"]
    assert len(held["price"]) == pytest.approx(0.25 * report["clean"], rel=0.05)
    rows = {tuple(row) for row in zip(train["price"], train["volume"], strict=True)}
    assert not rows & {tuple(row) for row in zip(held["price"], held["volume"], strict=True)}


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ([1.0] * 50, "at least 100 clean rows, got 50"),
        ([float("nan")] * 20 + [1.0] * 100, r"20 of 120 quarantined: price is missing \(20\)"),
        ([float("inf")] * 200, "got 0 of 200"),
    ],
)
def test_a_bad_batch_stops_the_run(
    home: Home, ticks: StreamDefinition, prices: list[float], message: str
) -> None:
    folder = Path(str(home.resolve(ticks.landing)))
    folder.mkdir(parents=True)
    table = pa.table({"price": prices, "volume": [1.0] * len(prices)})
    pq.write_table(table, folder / "bad.parquet")
    run = collect.collect(home, ticks, "run-0")
    with pytest.raises(BatchRejected, match=message):
        local.validate(run)
    assert run.read("validation")["success"] is False
    with pytest.raises(PlanningError):
        local.statistics(run)


def test_a_holdout_without_rows_stops_the_run(home: Home, ticks: StreamDefinition) -> None:
    gate_by = ticks.gate.model_copy(update={"holdout_by": ("price",)})
    definition = ticks.model_copy(update={"gate": gate_by})
    folder = Path(str(home.resolve(ticks.landing)))
    folder.mkdir(parents=True)
    table = pa.table({"price": [7.0] * 200, "volume": [float(i) for i in range(200)]})
    pq.write_table(table, folder / "one-price.parquet")
    run = collect.collect(home, definition, "run-0")
    with pytest.raises(BatchRejected, match=r"neither may be empty.*gate\.holdout_by"):
        local.validate(run)
    report = run.read("validation")
    assert {report["train"], report["holdout"]} == {0, 200}
    assert not run.train.exists()


def test_a_stage_whose_input_is_missing_says_which(home: Home) -> None:
    with pytest.raises(PlanningError, match=r"definition\.json is missing"):
        solve.solve(Run.of(home, "ticks", "nothing"))
