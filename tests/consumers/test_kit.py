"""The conformance kit: made alike every time, sound, and passed by the JavaScript consumer."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planning import batches, keys
from planning.artifacts import Reader, TrustedKeys
from planning.artifacts.codec import decode
from planning.artifacts.manifest import decode as read_manifest
from planning.errors import ArtifactError, PlanningError
from planning.sifter.shedder import Shedder

ROOT = Path(__file__).resolve().parents[2]
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
FAMILIES = ("sifter", "lira", "attributes", "fit")
LEAST = 10_000


def content(kit: Path, name: str) -> dict[str, Any]:
    return json.loads((kit / f"{name}.json").read_text())


def check(kit: Path) -> subprocess.CompletedProcess[str]:
    call = [str(NODE), str(ROOT / "consumers" / "js" / "check.mjs"), str(kit)]
    return subprocess.run(call, capture_output=True, text=True, timeout=300)


def test_the_kit_is_the_same_every_time(kit: Path, tmp_path: Path, make_kit: Any) -> None:
    assert make_kit(tmp_path) == json.loads((kit / "kit.json").read_text())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_kit_has_enough_of_everything(kit: Path, family: str) -> None:
    made = content(kit, family)
    assert sum(len(d) for case in made["cases"] for d in case["decisions"]) >= LEAST
    assert {one["encoding"] for one in made["damaged"]} == {"json", "binary"}
    decided = "".join(d for case in made["cases"] for d in case["decisions"])
    assert 0.1 < decided.count("1") / len(decided) < 0.9
    for case in made["cases"]:
        plans = [decode(base64.b64decode(case[e]), e)[1] for e in ("json", "binary")]
        assert plans[0].to_document() == plans[1].to_document(), case["name"]


def test_python_refuses_the_manifests_that_others_must(kit: Path, tmp_path: Path) -> None:
    made = content(kit, "manifests")
    (tmp_path / "keys" / "trusted").mkdir(parents=True)
    (tmp_path / "keys" / "trusted" / "one.pem").write_text(made["trusted"][0])
    trusted = TrustedKeys.load(tmp_path / "keys")
    for number, version in enumerate(made["good"] + made["refused"]):
        root = tmp_path / str(number)
        data = base64.b64decode(version["manifest"])
        put(root, version, data)
        reader = Reader(root, trusted)
        if "why" not in version:
            assert reader.load(version["stream"], version["version"], "json").plan.regions == 16
            continue
        with pytest.raises(PlanningError):
            read_both(reader, version)


def read_both(reader: Reader, version: dict[str, Any]) -> None:
    for encoding in ("json", "binary"):
        reader.load(version["stream"], version["version"], encoding)  # type: ignore[arg-type]


def put(root: Path, version: dict[str, Any], data: bytes) -> None:
    """Lay a version out as a store has it; payloads under the digests that the manifest names."""
    room = root / version["stream"]
    for part in ("versions", "payloads"):
        (room / part).mkdir(parents=True)
    (room / "versions" / f"{version['version']:08d}.json").write_bytes(data)
    try:
        payloads = read_manifest(data, "test").payloads
    except ArtifactError:
        return
    for encoding, ending in (("json", "json"), ("binary", "bin")):
        path = room / "payloads" / f"{payloads.of(encoding).digest}.{ending}"  # type: ignore[arg-type]
        path.write_bytes(base64.b64decode(version[encoding]))


@needs_node
def test_javascript_answers_as_python_does(kit: Path) -> None:
    done = check(kit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "keys.json", "manifests.json", *(f"{family}.json" for family in FAMILIES)
    ]  # fmt: skip


@needs_node
@pytest.mark.parametrize("family", FAMILIES)
def test_another_answer_and_a_sound_plan_among_the_damaged_are_noticed(
    kit: Path, tmp_path: Path, family: str
) -> None:
    shutil.copytree(kit, tmp_path, dirs_exist_ok=True)
    made = content(kit, family)
    decisions, case = made["cases"][-1]["decisions"], made["cases"][0]
    decisions[0] = decisions[0].translate(str.maketrans("01", "10"))
    made["damaged"] = [{"encoding": "json", "why": "sound", "data": case["json"]}]
    (tmp_path / f"{family}.json").write_text(json.dumps(made))
    done = check(tmp_path)
    assert done.returncode == 1
    assert "decisions at" in done.stdout
    assert "sound: taken" in done.stdout


@needs_node
def test_the_documented_example(kit: Path) -> None:
    page = (ROOT / "docs" / "artifacts.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```js\n(.*?)```", page, flags=re.DOTALL)
    made = content(kit, "manifests")
    version = made["good"][0]
    plan = decode(base64.b64decode(version["json"]), "json")[1]
    items = {"price": [3.5, 50.0, 99.0] * 40, "volume": [20.0, 700.0, 990.0] * 40}
    draws = keys.draws_of([list(range(120))])
    shedder = Shedder(plan, 0.5)  # type: ignore[arg-type]
    expected = shedder.decide(batches.read(items, shedder.schema), draws=draws).keep
    given = {"manifest": version["manifest"], "payload": version["json"], "pem": made["trusted"][0]}
    script = f"""
        const given = {json.dumps({**given, **items})};
        const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
        const [manifestBytes, payloadBytes] = [bytes(given.manifest), bytes(given.payload)];
        const [publicKeyPem, prices, volumes] = [given.pem, given.price, given.volume];
        const ids = prices.map((_, i) => i);
        {block.replace("version: 7", "version: 1")}
        console.log(Array.from(keep).join(""));
    """
    call = [str(NODE), "--input-type=module", "-e", script]
    room = ROOT / "consumers" / "js"
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, cwd=room)
    assert done.stdout.strip() == "".join("01"[int(kept)] for kept in expected), done.stderr
    assert 0 < expected.sum() < 120
