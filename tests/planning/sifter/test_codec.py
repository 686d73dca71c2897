"""The plan's two forms: they agree, are compact, and refuse what is damaged."""

import json
from dataclasses import replace

import msgspec
import pytest
from jsonschema import Draft202012Validator

from planning.arrays import frozen
from planning.errors import ArtifactError
from planning.sifter import codec, planner, statistics
from planning.sifter.codec import PlanDocument, setting_from_bytes, setting_to_bytes
from planning.sifter.model import Partition
from planning.sifter.plan import Plan


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


def test_a_least_fraction_is_part_of_both_forms_and_absent_without_one(plan):
    made = replace(plan, min_keep=0.15)
    same(made, Plan.from_bytes(made.to_bytes()))
    same(made, Plan.from_document(made.to_document()))
    assert made.to_document() == plan.to_document() | {"min_keep": 0.15}
    assert len(made.to_bytes()) == len(plan.to_bytes()) + 8
    assert "min_keep" not in plan.to_document()


@pytest.mark.parametrize(
    "change",
    [
        {"min_keep": -0.1},
        {"min_keep": 1.5},
        {"budget_tolerance": -1.0},
        {"budget_tolerance": 2.0},
        {"frequency": -1.0},
    ],
)
def test_fields_without_thresholds_are_refused(plan, change):
    document = plan.to_document()
    if "frequency" in change:
        change = {"frequency": [-1.0, *document["frequency"][1:]]}
    with pytest.raises(ArtifactError, match="sifter plan must have"):
        Plan.from_document(document | change)
    bad = {name: frozen(value) if name == "frequency" else value for name, value in change.items()}
    with pytest.raises(ArtifactError, match="sifter plan must have"):
        Plan.from_bytes(replace(plan, **bad).to_bytes())


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
    assert len(setting_to_bytes(plan, 0.5)) <= 12 * plan.regions
    assert len(plan.to_bytes()) - header <= 20 * plan.regions


def test_setting_on_a_small_device(plan):
    partition, thresholds = setting_from_bytes(setting_to_bytes(plan, 0.4))
    exact = plan.at(0.4).drop_thresholds
    assert codec.partition_document(partition) == {
        **codec.partition_document(plan.partition), "orders": []
    }
    assert (thresholds >= exact - 1e-12).all()
    assert thresholds == pytest.approx(exact, abs=2 / 65535)


def test_damaged_bytes_are_refused_or_decode_to_something_whole(plan):
    payload = plan.to_bytes()
    for size in range(0, len(payload), 7):
        with pytest.raises(ArtifactError, match="sifter plan must"):
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


def test_a_document_that_is_no_tree_is_refused():
    whole = Partition.from_nested((0, 0.5, None, (1, 0.2, None, None)))
    document = codec.partition_document(whole)
    again = codec.read_partition(document, "sifter statistics")
    assert codec.partition_document(again) == document
    for broken in ([0], [0, -1], [0, -1, -1, -1], [], [-2]):
        with pytest.raises(ArtifactError, match="sifter statistics must hold .* whole cut tree"):
            codec.read_partition({**document, "dimension": broken}, "sifter statistics")
    with pytest.raises(ArtifactError, match="cut axes of the space"):
        codec.read_partition({**document, "dimension": [2**63, -1, -1]}, "sifter statistics")
    for cuts in ([0.5], [0.5, float("inf")]):
        with pytest.raises(ArtifactError, match="2 finite cuts"):
            codec.read_partition({**document, "cut": cuts}, "sifter statistics")


def test_a_plan_that_cuts_an_axis_it_does_not_have_is_refused(plan):
    document = plan.to_document()
    cut_tree = document["partition"]
    far = [2 if axis >= 0 else axis for axis in cut_tree["dimension"]]
    for change in ({"dimension": far}, {"orders": [[]]}):
        with pytest.raises(ArtifactError, match="cut its 2 axes"):
            Plan.from_document({**document, "partition": {**cut_tree, **change}})


def test_corners_of_pins_come_in_pairs(plan):
    pins = {"low": [[0.0, 0.0], [0.5, 0.5]], "high": [[0.1, 0.1]]}
    with pytest.raises(ArtifactError, match="2 x 2 values of pins.high"):
        Plan.from_document({**plan.to_document(), "pins": pins})
