import json
from pathlib import Path

import jsonschema
import pytest

from planning.artifacts import Status, schemas, status

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).parent / "golden"


def test_the_committed_schemas_are_current():
    """If this fails: ``python -m planning.artifacts.schemas docs/schemas``."""
    folder = ROOT / "docs" / "schemas"
    current = {f"{name}.schema.json": schemas.text(s) for name, s in schemas.schemas().items()}
    committed = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.schema.json")}
    assert committed == current, "run python -m planning.artifacts.schemas docs/schemas"


def test_every_schema_is_a_schema():
    for schema in schemas.schemas().values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("name", "file"),
    [("manifest", "sifter/manifest.json"), ("sifter-plan", "sifter/plan.json"),
     ("manifest", "tally/manifest.json"), ("manifest", "second/manifest.json")],
)  # fmt: skip
def test_published_json_fits_its_schema(name, file):
    document = json.loads((GOLDEN / file).read_bytes())
    validator = jsonschema.Draft202012Validator(schemas.schemas()[name])
    validator.validate(document)
    assert not validator.is_valid(document | {"zebra": 1})
    for field in document.keys() - {"certificate", "guarantees"}:
        without = {k: v for k, v in document.items() if k != field}
        assert not validator.is_valid(without), field


def test_a_status_fits_its_schema():
    full = Status(
        node="edge-1", version=3, at="2026-01-02T03:04:05.5Z", stream="ticks", state="expired",
        refused={4: "rot"}, load={"i1": 200.0}, counters={"kept": 1, "load": 0.5},
    )  # fmt: skip
    validator = jsonschema.Draft202012Validator(schemas.schemas()["status"])
    for word in (full, Status(node="edge-1", at="2026-01-02T03:04:05Z")):
        document = json.loads(status.encode(word))
        validator.validate(document)
        wrong = {"version": "three", "state": "well", "node": "../x", "at": "now", "load": "full"}
        for field, value in wrong.items():
            assert not validator.is_valid(document | {field: value}), field
        assert not validator.is_valid({k: v for k, v in document.items() if k != "node"})


def test_a_manifest_of_the_wrong_kind_does_not_fit():
    validator = jsonschema.Draft202012Validator(schemas.schemas()["manifest"])
    document = json.loads((GOLDEN / "tally" / "manifest.json").read_bytes())
    for field, value in {
        "created_at": "yesterday",
        "version": 0,
        "stream": "../x",
        "key_id": "short",
        "schema_version": 3,
    }.items():
        assert not validator.is_valid(document | {field: value}), field
