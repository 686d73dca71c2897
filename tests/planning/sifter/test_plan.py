"""The plan: parametric, serialisable in two forms that agree, compact, light."""

import json
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from planning.errors import ArtifactError, InvalidInput
from planning.sifter.compact import decode_setting, encode_setting
from planning.sifter.plan import Plan, PlanDocument


@pytest.fixture(scope="module")
def plan(scene):
    return scene.plan()


def same(one, two):
    assert one.to_document() == two.to_document()
    for z in (0.0, 0.25, 0.5, 1.0):
        assert one.at(z).drop_thresholds.tolist() == two.at(z).drop_thresholds.tolist()


def test_both_forms_decode_to_equal_plans(plan):
    same(plan, Plan.from_document(json.loads(json.dumps(plan.to_document()))))
    same(plan, Plan.from_bytes(plan.to_bytes()))


def test_forms_agree_with_pins_and_categories(make, rng):
    from planning.sifter import planner, statistics

    attributes = [
        {"name": "x", "domain": [-1e6, 1e6]},
        {"name": "c", "type": "category", "values": list("abcde")},
        {"name": "n", "type": "int", "domain": [-3, 9]},
    ]
    definition = make(
        [{"where": "x > 3 AND c <> 'b'"}, {"where": "n IN (1, 5)"}],
        {"pins": ["c = 'a'", "n > 8"], "regions": 20},
        attributes=attributes,
    )
    columns = {
        "x": rng.normal(0, 1e5, 500),
        "c": rng.choice(list("abcde"), 500),
        "n": rng.integers(-3, 10, 500),
    }
    made = planner.plan(statistics.build(columns, definition), definition)
    same(made, Plan.from_bytes(made.to_bytes()))
    same(made, Plan.from_document(made.to_document()))


def test_document_fits_its_published_schema(plan):
    validator = Draft202012Validator(msgspec.json.schema(PlanDocument))
    document = plan.to_document()
    validator.validate(document)
    for field in document:
        assert not validator.is_valid(document | {field: "no such value"}), field


@pytest.mark.parametrize("regions", [16, 100])
def test_bytes_per_region(scene, regions):
    plan = scene.plan(regions=regions, sample_size=2000)
    assert plan.regions >= 0.7 * regions
    header = len(json.dumps([axis.name for axis in plan.space.axes])) + 100
    assert len(encode_setting(plan, 0.5)) <= 12 * plan.regions
    assert len(plan.to_bytes()) - header <= 20 * plan.regions


def test_setting_on_a_small_device(plan):
    partition, thresholds = decode_setting(encode_setting(plan, 0.4))
    exact = plan.at(0.4).drop_thresholds
    assert partition.to_document() == {**plan.partition.to_document(), "orders": []}
    assert (thresholds >= exact - 1e-12).all()
    assert thresholds == pytest.approx(exact, abs=2 / 65535)


def test_damaged_bytes_are_refused_or_decode_to_something_whole(plan):
    payload = plan.to_bytes()
    for size in range(0, len(payload), 7):
        with pytest.raises((ArtifactError, InvalidInput)):
            Plan.from_bytes(payload[:size])
    with pytest.raises(ArtifactError, match="must end after"):
        Plan.from_bytes(payload + b"\0")
    with pytest.raises(ArtifactError, match="must start with"):
        Plan.from_bytes(b"XXXX" + payload[4:])


def test_documents_that_do_not_fit_are_refused(plan):
    document = plan.to_document()
    for change in (
        {"frequency": document["frequency"][:-1]},
        {"format": 99},
        {"unknown": 1},
        {"base_qos": "high"},
    ):
        with pytest.raises(ArtifactError, match="sifter plan"):
            Plan.from_document({**document, **change})


def test_a_load_outside_its_range_is_refused(plan):
    for load in (-0.1, 1.4, float("nan")):
        with pytest.raises(InvalidInput, match="load must lie in"):
            plan.at(load)
    with pytest.raises(InvalidInput, match="fairness_threshold must lie in"):
        plan.at(0.5, fairness_threshold=2)


def test_a_wider_window_never_predicts_less(plan):
    for z in (0.2, 0.5, 0.8):
        qualities = [plan.predicted_quality(z, delta) for delta in np.linspace(0, 1, 11)]
        assert (np.diff(qualities) >= -1e-12).all()


def test_quality_rises_with_z_and_ends_at_one(plan):
    qualities = [plan.predicted_quality(z) for z in np.linspace(0, 1, 21)]
    assert (np.diff(qualities) >= -1e-12).all()
    assert qualities[-1] == pytest.approx(1.0, abs=1e-6)


def test_passed_fraction_is_z(plan):
    for z in np.linspace(0, 1, 11):
        assert plan.passed_fraction(z) == pytest.approx(z, abs=1e-6)


def test_what_runs_on_a_source_node_is_light():
    code = (
        "import sys, numba; numba.njit(lambda: 0); before = set(sys.modules); "
        "import planning.sifter.plan, planning.sifter.shedder; "
        "heavy = {'scipy', 'pandas', 'pydantic', 'ortools', 'matplotlib', 'sqlglot', 'pyarrow'}; "
        "sys.exit(', '.join(sorted(heavy & (set(sys.modules) - before))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
