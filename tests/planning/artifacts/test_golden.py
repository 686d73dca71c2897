"""What was published once can be read for ever, and is written the same way today."""

import msgspec
import pytest

from planning import families
from planning.artifacts import TrustedKeys, codec, manifest


@pytest.fixture(scope="module")
def golden(tally, load_module):
    return load_module("golden")


@pytest.fixture(params=["tally", *families.NAMES])
def family(request):
    return request.param


def test_the_golden_files_still_decode(golden, family):
    folder = golden.FOLDER / family
    read = manifest.decode((folder / "manifest.json").read_bytes(), "manifest.json")
    TrustedKeys.of(golden.SIGNER).verify(read, "manifest.json")
    assert (read.stream, read.version, read.family) == ("golden", 1, family)
    assert read.parameters == {"regions": 3, "ratio": 0.1, "label": "ä"}
    for encoding, suffix in (("json", "json"), ("binary", "bin")):
        name, plan = codec.decode((folder / f"plan.{suffix}").read_bytes(), encoding)
        assert name == family
        assert codec.document(plan) == golden.DOCUMENTS[family]


def test_publishing_the_same_again_gives_the_same_bytes(golden, family, monkeypatch):
    golden.fix_provenance(monkeypatch)
    for name, data in golden.files(family).items():
        assert (golden.FOLDER / family / name).read_bytes() == data, name


def test_a_manifest_of_schema_version_2_still_decodes_and_is_written_alike(golden, monkeypatch):
    golden.fix_provenance(monkeypatch)
    data = golden.SECOND.read_bytes()
    assert golden.files("tally", schema_version=2, **golden.NEWS)["manifest.json"] == data
    read = manifest.decode(data, "manifest.json")
    TrustedKeys.of(golden.SIGNER).verify(read, "manifest.json")
    assert read.schema_version == 2
    written = msgspec.json.decode(msgspec.json.encode(read))
    assert {name: written[name] for name in golden.NEWS} == golden.NEWS
