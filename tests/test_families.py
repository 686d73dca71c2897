"""One battery over every family: what the frame relies on holds for each of them."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract import departures

from planning import families
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.demos import land_batch
from planning.errors import PlanningError
from planning.home import Home
from planning.runtime import PlanClient, RunningShedder
from planning.samples import read_columns
from planning.sections import FamilyParameters
from planning.stages import collect, gate, local, publish, solve
from planning.stages.run import Run
from planning.streams import StreamDefinition
from planning.trial import batches

pytestmark = pytest.mark.parametrize("name", families.NAMES)

HEAVY = ("airflow", "pyspark", "ortools", "pandas", "scipy", "pydantic", "matplotlib", "pyarrow")


@pytest.fixture
def planned(name: str, planned_demos: dict[str, Any]) -> Any:
    assert name in planned_demos, f"family {name} has no demo stream in dags/streams"
    return planned_demos[name]


def holdout(planned: Any) -> dict[str, np.ndarray]:
    return read_columns(planned.run.holdout, planned.definition.sample_columns)


def test_same_statistics_give_the_same_bytes(planned: Any) -> None:
    statistics = planned.family.room("statistics").Statistics
    solve = planned.family.room("planner").plan
    document = planned.run.read("statistics")
    first = solve(statistics.from_document(document), planned.definition)
    second = solve(statistics.from_document(document), planned.definition)
    assert first.to_bytes() == second.to_bytes()
    assert json.dumps(first.to_document()) == json.dumps(second.to_document())


def test_both_encodings_decode_to_equal_plans(planned: Any) -> None:
    plan_type = planned.family.room("plan").Plan
    from_json = plan_type.from_document(json.loads(json.dumps(planned.plan.to_document())))
    from_binary = plan_type.from_bytes(planned.plan.to_bytes())
    assert from_json.to_document() == from_binary.to_document() == planned.plan.to_document()


def test_statistics_survive_json(planned: Any) -> None:
    statistics = planned.family.room("statistics").Statistics
    document = planned.run.read("statistics")
    assert json.loads(json.dumps(statistics.from_document(document).to_document())) == document


def test_predicted_quality_rises_with_the_load_passed(planned: Any) -> None:
    quality = [planned.plan.predicted_quality(load) for load in np.linspace(0, 1, 41)]
    assert np.all(np.diff(quality) >= -1e-9)
    if planned.family.name == "fit":
        # At load 1 the mean of the rates is affordable; as they vary, not each of them is.
        assert 0.7 < quality[-1] < 1.0
    else:
        assert quality[-1] == pytest.approx(1.0, abs=1e-6)


def test_the_plan_beats_random_dropping_within_its_budget(planned: Any) -> None:
    evaluate = planned.family.room("simulate").evaluate
    samples = holdout(planned)
    before = {name: values.copy() for name, values in samples.items()}
    for outcome in evaluate(planned.plan, samples, planned.definition, (0.3, 0.5, 0.7)):
        assert outcome.quality > outcome.random_quality
        noise = 4 * np.sqrt(outcome.load * (1 - outcome.load) / outcome.offered)
        assert outcome.passed_fraction <= outcome.load + noise + 0.02
    for name, values in samples.items():
        np.testing.assert_array_equal(values, before[name])


def test_what_passes_rises_with_the_load_and_stays_below_it(planned: Any) -> None:
    evaluate = planned.family.room("simulate").evaluate
    loads = tuple(tenths / 10 for tenths in range(1, 10))
    outcomes = evaluate(planned.plan, holdout(planned), planned.definition, loads)
    one_item = np.array([1 / outcome.offered for outcome in outcomes])
    passed = np.array([outcome.passed_fraction for outcome in outcomes])
    assert np.all(np.diff(passed) >= -one_item[1:])
    excess = {
        load: round(float(share - load), 6)
        for load, share, item in zip(loads, passed, one_item, strict=True)
        if share > load + item
    }
    assert excess == {}


def test_a_running_shedder_swaps_and_its_accounts_add_up(planned: Any, tmp_path: Path) -> None:
    signer = SigningKey.load_or_create(tmp_path / "keys")
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))

    def publish() -> None:
        store.publish(
            "demo", planned.plan, family=planned.family.name, signer=signer,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip

    client = PlanClient(store.root, "demo", trusted=store.trusted, node="battery")
    shedder = RunningShedder(client, load=0.5)
    kept = offered = shed = 0
    for number, batch in enumerate(batches(holdout(planned), 500)):
        if number in (1, 3):
            publish()
            assert client.poll()
        mask = shedder.offer(batch)
        offered += len(mask)
        kept += int(mask.reshape(len(mask), -1).any(axis=1).sum())
        shed += int((~mask).sum())
    assert shedder.version == 2
    assert shedder.counters.errors == 0
    assert (shedder.counters.offered, shedder.counters.kept) == (offered, kept)
    assert shedder.counters.dropped == offered - kept
    assert shed > 0


def test_read_only_columns_are_shed_like_others(planned: Any) -> None:
    batch = {name: values[:400].copy() for name, values in holdout(planned).items()}
    shedder = planned.family.room("shedder").Shedder
    expected = shedder(planned.plan, 0.5).offer(batch)
    compiled = _compiled(planned.family.name)
    for values in list(batch.values())[::2]:
        values.flags.writeable = False  # as Arrow gives them
    np.testing.assert_array_equal(shedder(planned.plan, 0.5).offer(batch), expected)
    assert _compiled(planned.family.name) == compiled  # nothing recompiled in the data path


def _compiled(name: str) -> int:
    """Count the signatures for which the family's kernels have been compiled."""
    rooms = [room for path, room in sys.modules.items() if path.startswith(f"planning.{name}.")]
    kernels = {id(k): k for room in rooms for k in vars(room).values() if hasattr(k, "py_func")}
    return sum(len(kernel.signatures) for kernel in kernels.values())


def test_the_shedder_lets_nothing_raise(planned: Any) -> None:
    shedder = planned.family.room("shedder").Shedder(planned.plan, 0.5)
    batch = {name: values[:8].copy() for name, values in holdout(planned).items()}
    for values in batch.values():
        if values.dtype.kind == "f":
            values[:3] = np.nan, np.inf, -1e300
    mask = shedder.offer(batch)  # one decision per item, or per item and part of it
    assert mask.dtype == np.bool_
    assert len(mask) == 8
    whole_items_dropped = 8 - int(mask.reshape(8, -1).any(axis=1).sum())
    assert int(np.sum(shedder.counters.offered)) == 8
    assert int(np.sum(shedder.counters.dropped)) == whole_items_dropped


def test_what_runs_on_a_node_loads_nothing_of_the_workshop(name: str) -> None:
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))\n"  # as if not installed
        f"import planning.{name}.plan, planning.{name}.shedder\n"
        "import planning.artifacts, planning.runtime\n"
        "print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    workshop = {"planner", "program", "printed", "figures", "demo", "parameters", "benchmarks"}
    loaded = [m for m in result.stdout.split() if m.startswith(("planning.", "benchmarks"))]
    assert [m for m in loaded if workshop & set(m.split("."))] == []


ROOMS = (
    "parameters", "statistics", "planner", "plan", "shedder", "simulate", "figures", "demo",
)  # fmt: skip


def test_every_module_keeps_the_contract(planned: Any) -> None:
    family, plan = planned.family, planned.plan
    rooms = {module: family.room(module) for module in ROOMS}
    if family.has_room("reevaluation"):
        rooms["reevaluation"] = family.room("reevaluation")
    statistics = rooms["statistics"].Statistics.from_document(planned.run.read("statistics"))
    shedder = rooms["shedder"].Shedder(plan, 0.5)
    promised = [(rooms[room], getattr(families, f"{room.capitalize()}Room")) for room in rooms]
    promised += [
        (statistics, families.Statistics),
        (plan, families.Plan),
        (shedder, families.Shedder),
        (shedder.counters, families.ItemCounts),
    ]
    optional = [(plan, families.PassesFraction), (rooms["figures"], families.FurtherFigures)]
    promised += [(thing, protocol) for thing, protocol in optional if isinstance(thing, protocol)]
    assert [found for thing, protocol in promised for found in departures(thing, protocol)] == []
    assert issubclass(rooms["parameters"].Parameters, FamilyParameters)
    setting = plan.at(0.5)
    assert is_dataclass(setting) or isinstance(setting, Mapping)


def test_the_planner_says_how_good_its_plan_is(planned: Any) -> None:
    status = planned.run.read("candidate")["solver_status"]
    assert re.fullmatch(families.SOLVER_STATUS, status)
    planner = planned.family.room("planner")
    assert planner.solver_status(planned.plan, planned.definition) == status


def test_the_package_offers_its_nouns_by_name(name: str) -> None:
    package = importlib.import_module(f"planning.{name}")
    assert {"Statistics", "Plan", "Shedder"} <= set(package.__all__)
    for noun in package.__all__:
        assert getattr(package, noun).__module__.startswith(f"planning.{name}.")


# What breaks a stage: each takes the home, the definition and the second run, and calls the stage.


def _garbage_lands(home: Home, definition: StreamDefinition, run: Run) -> None:
    file = home.resolve(definition.landing) / "garbage.parquet"
    file.write_bytes(b"PAR1 and then the power failed")
    os.utime(str(file), (0, 0))
    collect.collect(home, definition, "third")


def _everything_is_out_of_domain(home: Home, definition: StreamDefinition, run: Run) -> None:
    bad: dict[str, Any] = dict.fromkeys(definition.sample_columns, [1e300] * 2000)
    for attribute in definition.attributes:
        if attribute.type == "category":
            bad[attribute.name] = ["nowhere"] * 2000
    land_batch(home.resolve(definition.landing), 2, bad)
    local.validate(collect.collect(home, definition, "third"))


def _train_rows_are_gone(home: Home, definition: StreamDefinition, run: Run) -> None:
    shutil.rmtree(str(run.train))
    local.statistics(run)


def _train_rows_are_cut_off(home: Home, definition: StreamDefinition, run: Run) -> None:
    _halve(run.train / "part-0.parquet")
    local.statistics(run)


def _statistics_are_cut_off(home: Home, definition: StreamDefinition, run: Run) -> None:
    _halve(run.folder / "statistics.json")
    solve.solve(run)


def _statistics_are_of_something_else(home: Home, definition: StreamDefinition, run: Run) -> None:
    run.write("statistics", {"rows": 17})
    solve.solve(run)


LISTS = {
    "sifter": "frequency", "lira": "errors", "attributes": "lag_error", "joins": "type_counts",
    "fit": "highest_rates",
}  # fmt: skip
"""A list in the document of each family's statistics whose length matters."""


def _statistics_have_lost_an_item(home: Home, definition: StreamDefinition, run: Run) -> None:
    document = run.read("statistics")
    where = document["streams"][0]["attributes"][0] if "streams" in document else document
    assert definition.family in LISTS, f"name a list of {definition.family}'s statistics in LISTS"
    where[LISTS[definition.family]].pop()
    run.write("statistics", document)
    solve.solve(run)


def _holdout_is_gone(home: Home, definition: StreamDefinition, run: Run) -> None:
    shutil.rmtree(str(run.holdout))
    gate.gate(home, run)


def _holdout_is_cut_off(home: Home, definition: StreamDefinition, run: Run) -> None:
    _halve(run.holdout / "part-0.parquet")
    gate.gate(home, run)


def _candidate_is_gone(home: Home, definition: StreamDefinition, run: Run) -> None:
    (run.folder / "candidate.json").unlink()
    publish.publish(home, run, created_at="2026-01-02T04:04:05Z")


def _candidate_is_of_something_else(home: Home, definition: StreamDefinition, run: Run) -> None:
    run.write("candidate", {"family": definition.family, "plan": {"format": 1}, "summary": {}})
    gate.gate(home, run)


def _candidate_lacks_its_family(home: Home, definition: StreamDefinition, run: Run) -> None:
    run.write("candidate", {"plan": run.read("candidate")["plan"], "summary": {}})
    publish.publish(home, run, created_at="2026-01-02T04:04:05Z")


def _candidate_lacks_its_summary(home: Home, definition: StreamDefinition, run: Run) -> None:
    run.write("candidate", {**run.read("candidate"), "summary": None})
    publish.publish(home, run, created_at="2026-01-02T04:04:05Z")


def _candidate_lacks_its_status(home: Home, definition: StreamDefinition, run: Run) -> None:
    lacking = {k: v for k, v in run.read("candidate").items() if k != "solver_status"}
    run.write("candidate", lacking)
    publish.publish(home, run, created_at="2026-01-02T04:04:05Z")


def _verdict_lacks_its_decision(home: Home, definition: StreamDefinition, run: Run) -> None:
    run.write("verdict", {k: v for k, v in run.read("verdict").items() if k != "decision"})
    publish.publish(home, run, created_at="2026-01-02T04:04:05Z")


def _verdict_lacks_qualities(home: Home, definition: StreamDefinition, run: Run) -> None:
    verdict = run.read("verdict")
    del verdict["outcomes"][0]["predicted_quality"]
    run.write("verdict", verdict)
    publish.publish(home, run, created_at="2026-01-02T04:04:05Z")


def _signing_key_is_damaged(home: Home, definition: StreamDefinition, run: Run) -> None:
    _halve(home.keys / "signing.pem")
    publish.publish(home, run, created_at="2026-01-02T04:04:05Z")


def _halve(file: Any) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


FAILURES: list[tuple[str, Callable[[Home, StreamDefinition, Run], None], str]] = [
    ("collect", _garbage_lands, r"was set aside: .*garbage\.parquet is not a whole Parquet file"),
    ("validate", _everything_is_out_of_domain, r"at least \d+ clean rows, got 0 of 2000"),
    ("statistics", _train_rows_are_gone, r"train holds no Parquet file"),
    ("statistics", _train_rows_are_cut_off, r"part-0\.parquet is not a whole Parquet file"),
    ("solve", _statistics_are_cut_off, r"statistics\.json is not valid JSON"),
    ("solve", _statistics_are_of_something_else, r"json must hold statistics of family"),
    ("solve", _statistics_have_lost_an_item, r"statistics\.json must hold .* run the statistics "),
    ("gate", _holdout_is_gone, r"holdout holds no Parquet file"),
    ("gate", _holdout_is_cut_off, r"part-0\.parquet is not a whole Parquet file"),
    ("publish", _candidate_is_gone, r"candidate\.json is missing"),
    ("gate", _candidate_is_of_something_else, r"candidate\.json must hold a candidate plan"),
    ("publish", _candidate_lacks_its_family, r"candidate\.json must hold .* run the solve stage"),
    ("publish", _candidate_lacks_its_summary, r"candidate\.json must hold .*\$\.summary"),
    ("publish", _candidate_lacks_its_status, r"candidate\.json must hold .*`solver_status`"),
    ("publish", _verdict_lacks_its_decision, r"verdict\.json must hold .* run the gate stage"),
    ("publish", _verdict_lacks_qualities, r"verdict\.json must hold .* run the gate stage"),
    ("publish", _signing_key_is_damaged, r"signing\.pem must be an Ed25519 private key"),
]


@pytest.fixture(scope="module")
def twice_planned(
    planned_demos: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Home]:
    """Return homes, one per family, with version 1 published and a second run before publish."""
    homes: dict[str, Home] = {}

    def of(name: str) -> Home:
        if name not in homes:
            planned = planned_demos[name]
            root = tmp_path_factory.mktemp(f"twice-{name}") / "home"
            shutil.copytree(str(planned.home.root), root)
            home, definition = Home.at(root), planned.definition
            first = Run.of(home, definition.stream, planned.run.folder.name)
            gate.gate(home, first)
            assert publish.publish(home, first, created_at="2026-01-02T03:04:05Z")
            planned.family.room("demo").land(home.resolve(definition.landing), 1, definition)
            second = collect.collect(home, definition, "second")
            local.validate(second)
            local.statistics(second)
            solve.solve(second)
            gate.gate(home, second, force=True)
            homes[name] = home
        return homes[name]

    return of


@pytest.mark.parametrize(
    ("fail", "message"),
    [pytest.param(f, m, id=f"{stage}:{f.__name__.strip('_')}") for stage, f, m in FAILURES],
)
def test_whatever_stage_fails_the_published_plan_stays(
    name: str,
    planned: Any,
    twice_planned: Callable[[str], Home],
    tmp_path: Path,
    fail: Callable[[Home, StreamDefinition, Run], None],
    message: str,
) -> None:
    shutil.copytree(str(twice_planned(name).root), tmp_path / "home")
    home, stream = Home.at(tmp_path / "home"), planned.definition.stream
    store = Store(home.plans, TrustedKeys.load(home.keys))
    before = store.load(stream)
    with pytest.raises(PlanningError, match=message):
        fail(home, planned.definition, Run.of(home, stream, "second"))
    after = store.load(stream)
    assert after.manifest == before.manifest
    assert after.plan.to_bytes() == before.plan.to_bytes()
    assert store.verify(stream).ok
    assert ([m.version for m in store.history(stream)], store.history(stream).broken) == ([1], ())
    client = PlanClient(store, stream, node="battery")
    assert client.poll()
    assert (client.version, client.errors) == (1, 0)
