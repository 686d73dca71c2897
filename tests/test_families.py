"""One battery over every family: what the frame relies on holds for each of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planning import families
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.runtime import PlanClient, RunningShedder
from planning.samples import read_columns
from planning.trial import batches

pytestmark = pytest.mark.parametrize("name", families.NAMES)

LIGHT_SECONDS = 0.5
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


def test_runtime_modules_import_light_and_fast(name: str) -> None:
    script = (
        f"import sys, time; sys.modules.update(dict.fromkeys({HEAVY!r}))\n"  # as if not installed
        "start = time.process_time()\n"
        f"import planning.{name}.plan, planning.{name}.shedder\n"
        "import planning.artifacts, planning.runtime\n"
        "print(time.process_time() - start)"
    )
    assert min(_seconds(script) for _ in range(3)) < LIGHT_SECONDS


def _seconds(script: str) -> float:
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return float(result.stdout)


def test_every_module_of_the_contract_is_there(name: str) -> None:
    rooms = Path(families.__file__).parent / name
    wanted = "parameters statistics planner plan shedder simulate demo figures".split()
    assert [room for room in wanted if not (rooms / f"{room}.py").is_file()] == []
