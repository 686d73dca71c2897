"""``headgate verify --optimality`` and ``headgate show`` with guarantees, as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from planning.arrays import single_precision
from planning.home import Home

HEADGATE = Path(sys.executable).parent / "headgate"
NEWS = Path(__file__).parents[3] / "dags" / "streams" / "news.yaml"
ASKED = {"types": {"flash": {"min_share": 0.45, "priority": 2}}, "min_share": 0.5}


def headgate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HEADGATE, *arguments],
        capture_output=True,
        text=True,
        env=os.environ
        | {"HEADGATE_HOME": str(folder / "home"), "HEADGATE_STREAMS": str(folder / "streams")}
        | {"COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a planned stream that asks for guarantees."""
    from upath import UPath

    from planning.joins import demo
    from planning.streams import load

    folder = tmp_path_factory.mktemp("optimality")
    (folder / "streams").mkdir()
    document = yaml.safe_load(NEWS.read_text(encoding="utf-8"))
    document["parameters"] |= ASKED
    document["gate"] = document.get("gate", {}) | {"certificate_s": 60.0}
    path = folder / "streams" / "news.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    demo.land(UPath(folder / "home" / "landing" / "news"), 0, load(path).of(demo.Parameters))
    planned = headgate(folder, "plan", "news", "--json")
    assert planned.returncode == 0, planned.stderr
    return folder


@pytest.fixture
def copied(place: Path, tmp_path: Path) -> Path:
    """Return a copy of the place, to be spoiled."""
    import shutil

    shutil.copytree(place, tmp_path / "copy")
    return tmp_path / "copy"


def test_show_lists_guarantees_and_the_certificate(place: Path) -> None:
    shown = headgate(place, "show", "news", "--at", "0.25")
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    made = json.loads(headgate(place, "show", "news", "--at", "0.25", "--json").stdout)
    kept = {one["name"]: one for one in made["guarantees"]}
    assert list(kept) == ["type flash", "join"]
    for name, one in kept.items():
        assert one["limit"] == "min_share"
        assert f"{name} │ min_share" in text or f"{name} min_share" in text
        assert f"down to load {one['holds_from']:.3g}" in text
        assert 0.25 in [point["load"] for point in one["predicted"]]
        for point in one["predicted"]:
            short = point["value"] < one["value"] - 1e-6
            assert short == (point["load"] < one["holds_from"])
            assert f"{point['value']:.4g}" in text
    assert ("short" in text) == any(
        p["load"] < one["holds_from"] for one in kept.values() for p in one["predicted"]
    )
    certificate = made["manifest"]["certificate"]
    assert certificate["loads"] == certificate["of"] > 10
    assert f"{certificate['loads']} of {certificate['of']} loads" in text
    assert made["manifest"]["solver_status"].startswith("within 0.00")
    assert made["manifest"]["guarantees"][0]["name"] == "type flash"


def test_optimality_is_verified_again(place: Path) -> None:
    done = headgate(place, "verify", "news", "--optimality")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "news: version 1 is " in text
    assert "for the estimated densities of these 126 items" in text
    again = headgate(place, "verify", "news", "--optimality", "--version", "1", "--json")
    found = json.loads(again.stdout)
    before = json.loads(headgate(place, "show", "news", "--json").stdout)["manifest"]["certificate"]
    assert (found["stream"], found["version"]) == ("news", 1)
    for name in ("status", "scope", "loads", "of", "solver"):
        assert found[name] == before[name], name
    assert {c["load"] for c in found["checks"]} > {c["load"] for c in before["checks"]}


def test_little_time_checks_one_load_and_says_so(place: Path) -> None:
    done = headgate(place, "verify", "news", "--optimality", "--limit-s", "0", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["loads"], found["reason"]) == (1, "the time limit of 0 s ended the checks")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("news", "--optimality", "--all"), 2, "either --optimality or --all, got both"),
        (("news", "--optimality", "--limit-s", "-1"), 2, "--limit-s"),
        (("news", "--optimality", "--version", "7"), 6, "version 7"),
        (("nothing", "--optimality"), 6, "nothing"),
    ],
)
def test_wrong_use(place: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = headgate(place, "verify", *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_was_not_kept_is_said(copied: Path) -> None:
    store = Home.at(str(copied / "home")).store()
    path = store.folder("news", "inputs") / store.latest("news").inputs["statistics"]
    text = path.read_bytes()
    path.write_bytes(text[:-10])
    damaged = headgate(copied, "verify", "news", "--optimality")
    assert (damaged.returncode, damaged.stdout) == (4, "")
    assert "does not match its digest in the manifest" in damaged.stderr
    path.unlink()
    gone = headgate(copied, "verify", "news", "--optimality")
    assert gone.returncode == 1
    assert "the statistics of version 1 of news is not in the store" in gone.stderr


def test_a_contradiction_is_an_artifact_that_cannot_be_trusted(copied: Path) -> None:
    from planning.artifacts import SigningKey

    home = Home.at(str(copied / "home"))
    store, good = home.store(), home.store().load("news")
    inputs = {name: store.input(good.manifest, name) for name in ("definition", "statistics")}
    levels = np.array(good.plan.guaranteed.levels)
    levels[1:-1] = single_precision(0.99 * levels[1:-1])
    spoiled = replace(good.plan, guaranteed=replace(good.plan.guaranteed, levels=levels))
    store.publish(
        "news", spoiled, family="joins", signer=SigningKey.load_or_create(home.keys),
        created_at="2026-01-02T03:04:05Z", inputs=inputs,
        solver_status=good.manifest.solver_status,
    )  # fmt: skip
    done = headgate(copied, "verify", "news", "--optimality")
    assert done.returncode == 4
    assert "the certificate contradicts the plan at load" in done.stderr
    assert headgate(copied, "verify", "news", "--optimality", "--version", "1").returncode == 0
