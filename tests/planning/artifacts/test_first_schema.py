"""Schema version 1: what nodes of release 0.1 read, by the schemas that 0.1 published."""

import json
from dataclasses import replace

import jsonschema
import msgspec
import pytest

from planning import families
from planning.artifacts import SigningKey, Store, TrustedKeys, first_schema
from planning.errors import ArtifactError, InvalidInput
from planning.examples import demo_plan

NOW = "2026-01-02T03:04:05Z"
CERTIFICATE = {"status": "optimal", "gap": 0.0, "loads": 3, "of": 3}
KEPT = {"name": "query alerts", "limit": "min_completeness", "value": 0.95, "priority": 1,
        "holds_from": 0.21}  # fmt: skip


@pytest.fixture
def old_schema(load_module):
    folder = load_module("golden").FOLDER / "schemas-0.1"

    def validator(name):
        schema = json.loads((folder / f"{name}.schema.json").read_bytes())
        return jsonschema.Draft202012Validator(schema)

    return validator


@pytest.fixture
def place(tmp_path):
    signer = SigningKey.load_or_create(tmp_path / "keys")
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))

    def publish(plan, family, **options):
        given = {"schema_version": 1, "created_at": NOW, "solver_status": "exact"} | options
        return store.publish("ticks", plan, family=family, signer=signer, **given)

    return store, publish, signer


def full(**more):
    return {
        "predicted": [{"load": 0.5, "quality": 0.8, "low": 0.7, "high": 0.9, "model": 0.81}],
        "gate": {"decision": "publish", "reason": "first", "warnings": ["few periods"]},
        "certificate": CERTIFICATE,
        "inputs": {"statistics": b"{}"},
        **more,
    }


@pytest.mark.parametrize("family", families.NAMES)
def test_every_familys_plan_can_be_published_for_nodes_of_0_1(place, old_schema, family):
    store, publish, _ = place
    told = publish(demo_plan(family), family, **full())
    written = json.loads(store.manifest_path("ticks", 1).read_bytes())
    old_schema("manifest").validate(written)
    old_schema(f"{family}-plan").validate(json.loads(store.payload(told, "json")))
    assert written["schema_version"] == 1
    assert written["predicted"] == [{"load": 0.5, "quality": 0.8}]
    assert "warnings" not in written["gate"]
    assert store.verify("ticks").ok
    # What decides is the same plan.
    mine, theirs = demo_plan(family).to_document(), store.load("ticks").plan.to_document()
    left_out = {name for name in mine if msgspec.to_builtins(mine)[name] != theirs.get(name)}
    assert left_out <= {*first_schema.INFORMS.get(family, ()), "headroom"} - (
        {"headroom"} if mine.get("headroom", 1.0) != 1.0 else set()
    )


def test_the_same_publication_does_not_fit_0_1_without_asking_for_it(place, old_schema):
    store, publish, _ = place
    publish(demo_plan("sifter"), "sifter", **full(schema_version=2, guarantees=[KEPT]))
    written = json.loads(store.manifest_path("ticks", 1).read_bytes())
    assert not old_schema("manifest").is_valid(written)
    assert written["certificate"]["status"] == "optimal"
    assert written["guarantees"][0]["name"] == "query alerts"


@pytest.mark.parametrize("field", ["budget_tolerance", "min_keep"])
def test_a_plan_that_0_1_would_refuse_is_refused_first(place, old_schema, field):
    store, publish, _ = place
    plan = replace(demo_plan("sifter"), **{field: 0.25})
    document = {"family": "sifter", "headgate": 1, "plan": plan.to_document()}
    assert not old_schema("sifter-plan").is_valid(document)
    refusal = f"schema_version must be 2 for a sifter plan with {field}"
    with pytest.raises(InvalidInput, match=refusal):
        publish(plan, "sifter")
    assert store.versions("ticks") == ()
    publish(plan, "sifter", schema_version=2)


def test_head_room_of_a_fit_plan_decides_and_is_refused(place):
    _, publish, _ = place
    with pytest.raises(InvalidInput, match="a fit plan with headroom"):
        publish(replace(demo_plan("fit"), headroom=1.5), "fit")


def test_a_plan_with_guarantees_is_refused(place):
    store, publish, _ = place
    with pytest.raises(InvalidInput, match=r"guarantees \(query alerts\).*take the guarantees out"):
        publish(demo_plan("sifter"), "sifter", guarantees=[KEPT])
    assert store.versions("ticks") == ()


def test_a_compact_form_that_0_1_cannot_read_is_refused():
    header = b"HG" + bytes([1, 5]) + b"\0\0\0\0"
    with pytest.raises(InvalidInput, match="compact form is compressed"):
        first_schema.check_bytes({"binary": header + b"zipped"})
    first_schema.check_bytes({"binary": header + b"\x96"})
    first_schema.check_bytes({"binary": b"HG" + bytes([1, 1]) + b"\0\0\0\0zipped"})


def test_the_optional_fields_of_0_1_are_the_ones_its_schemas_name(load_module):
    folder = load_module("golden").FOLDER / "schemas-0.1"
    optional = {
        f"{name}.{field}"
        for path in folder.glob("*-plan.schema.json")
        for name, kind in json.loads(path.read_bytes())["$defs"].items()
        for field in kind.get("properties", {}).keys() - set(kind.get("required", ()))
    }
    assert optional == first_schema.KNOWN


@pytest.mark.parametrize("schema_version", [1, 2])
def test_a_rollback_keeps_the_schema_and_the_fields_of_the_old_version(place, schema_version):
    store, publish, signer = place
    other = 3 - schema_version
    old = publish(demo_plan("sifter"), "sifter", **full(schema_version=schema_version))
    publish(demo_plan("sifter"), "sifter", **full(schema_version=other))
    back = store.rollback("ticks", 1, signer=signer, created_at=NOW, reason="worse")
    own = {"version", "parent", "rollback_of", "reason", "signature"}
    changed = {c.path for c in store.diff("ticks", 1, 3).manifest}
    assert changed <= own
    assert (back.schema_version, back.certificate) == (schema_version, old.certificate)
    assert [m.schema_version for m in store.history("ticks")] == [
        schema_version, other, schema_version,
    ]  # fmt: skip
    assert all(store.verify("ticks", version).ok for version in (1, 2, 3))


def test_a_newer_schema_is_named(place):
    store, publish, _ = place
    publish(demo_plan("sifter"), "sifter")
    path = store.manifest_path("ticks", 1)
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":3'))
    with pytest.raises(ArtifactError, match="schema version 3; this reader knows versions 1 and 2"):
        store.latest("ticks")
