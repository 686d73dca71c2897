"""The wheel in clean environments: a user's own Airflow, and a source node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import airflow_setup
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from planning import families

pytestmark = pytest.mark.slow

SOURCES = ("planning", "spark_apps", "expectations", "plugins")
UV = Path(sys.executable).parent / "uv"
DAG_FILE = """\
from headgate_airflow import planning_dags
globals().update(planning_dags("streams"))
"""
INTACT = """
import base64, hashlib
from importlib.metadata import distribution
for file in distribution("pyspark").files:
    if file.hash is not None:
        digest = hashlib.new(file.hash.mode, file.locate().read_bytes()).digest()
        expected = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        assert file.hash.value == expected, f"{file} is not as pyspark has it"
"""
MOUNTED = """
import json
from airflow.api_fastapi.app import create_app
paths = [route.path for route in create_app(apps="core").routes]
print(json.dumps([path for path in paths if "headgate" in path]))
"""
NODE = """
import importlib.util, json, sys
import numpy as np
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from planning.artifacts import SigningKey, TrustedKeys
from planning.runtime import PlanClient, RunningShedder

VALID = 1767323045.0  # when the golden plans were published
signer = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
told = {}
for folder in sorted(Path(sys.argv[1]).iterdir()):
    client = PlanClient(folder, "golden", trusted=TrustedKeys.of(signer), node="edge",
                        clock=lambda: VALID)
    client.poll()
    shedder = RunningShedder(client, load=0.3)
    with np.load(folder / "batch.npz") as batch:
        kept = shedder.offer({name: batch[name] for name in batch})
    counters = shedder.counters
    sheds = bool((~kept).any())
    told[folder.name] = [client.state, len(kept), sheds, counters.version, counters.passed_on_error]
installed = [name for name in ("benchmarks", "tests") if importlib.util.find_spec(name)]
print(json.dumps({"told": told, "installed": installed, "modules": sorted(sys.modules)}))
"""
BATCH = 400


def run(command: Sequence[str | Path], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def install(folder: Path, package: str, repository: Path) -> Path:
    """Make an environment with a package, in the pinned versions; return its Python.

    uv takes from its cache what ``make setup`` has fetched; without uv, pip fetches everything.
    """
    python = folder / "bin" / "python"
    wanted = [package, "--constraint", str(repository / "requirements.txt")]
    if not UV.exists():
        run([sys.executable, "-m", "venv", folder], repository, dict(os.environ))
        run([python, "-m", "pip", "install", "--quiet", *wanted], repository, dict(os.environ))
        return python
    run([UV, "venv", "--quiet", "--python", sys.executable, folder], repository, dict(os.environ))
    command = ["bash", ".ci/uv", UV, "pip", "install", "--quiet", "--python", python, *wanted]
    offline = subprocess.run(
        list(map(str, command)), cwd=repository, env={**os.environ, "UV_OFFLINE": "1"}, check=False,
        capture_output=True,
    )  # fmt: skip
    if offline.returncode:
        run(command, repository, dict(os.environ))
    return python


def clean(**variables: str) -> dict[str, str]:
    """Return the environment of someone who has only just installed the package."""
    kept = ("HOME", "JAVA_HOME", "LANG", "PATH", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ} | variables


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: a build leaves files behind."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        unwanted = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(repository / name, source / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, source)
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source]
    run(command, source, dict(os.environ))
    (built,) = folder.glob("headgate-*.whl")
    return built


def test_the_wheel_holds_the_product_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.partition("/")[0] for name in names}
    inside = {name for name in packages if not name.endswith(".dist-info")}
    assert inside == {
        "planning",
        "spark_apps",
        "expectations",
        "headgate_airflow",
        "headgate_serve",
    }
    for needed in (
        "headgate_airflow/templates/style.css",
        "planning/templates/report.html",
        "planning/runtime/leases/shares.lua",
    ):
        assert needed in names


@pytest.mark.airflow
@pytest.mark.spark
def test_a_two_line_dag_file_in_a_users_own_airflow_publishes(
    wheel: Path, repository: Path, tmp_path: Path
) -> None:
    python = install(tmp_path / "venv", f"{wheel}[pipeline]", repository)
    home = tmp_path / "airflow"
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    own = clean(
        AIRFLOW_HOME=str(home), AIRFLOW__CORE__LOAD_EXAMPLES="False", SPARK_LOCAL_IP="127.0.0.1",
        SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", PATH=path,
    )  # fmt: skip

    def airflow(*arguments: str) -> str:
        return run([python, "-m", "airflow", *arguments], tmp_path, own)

    run([python, "-c", INTACT], tmp_path, own)
    (home / "dags" / "streams").mkdir(parents=True)
    (home / "dags" / "planning.py").write_text(DAG_FILE)
    (home / "dags" / "streams" / "ticks.yaml").write_text(airflow_setup.STREAM)
    airflow("db", "migrate")
    assert entries(airflow("providers", "list", "-o", "json"), "package_name", "headgate")
    (plugin,) = entries(airflow("plugins", "-o", "json"), "name", "headgate")
    assert plugin["source"].startswith("headgate==")
    assert json.loads(last_line(run([python, "-c", MOUNTED], tmp_path, own))) == ["/headgate"]
    airflow("dags", "reserialize")
    (dag,) = json.loads(last_line(airflow("dags", "list", "-o", "json")))
    assert dag["dag_id"] == "plan_ticks"

    land(home / "headgate" / "landing" / "ticks")
    airflow("dags", "test", "plan_ticks")
    published = home / "headgate" / "plans" / "ticks" / "versions" / "00000001.json"
    assert json.loads(published.read_text())["family"] == "sifter"


def entries(text: str, key: str, value: str) -> list[dict[str, Any]]:
    """Return the entries of a command's JSON answer that have a value."""
    return [entry for entry in json.loads(last_line(text)) if entry[key] == value]


def last_line(text: str) -> str:
    """Return an answer without what was logged before it."""
    return text.strip().splitlines()[-1]


def land(folder: Path) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(3)
    samples = {"price": rng.uniform(0, 100, 2000), "volume": rng.uniform(0, 10, 2000)}
    parquet.write_table(pa.table(samples), folder / "samples.parquet")


def test_a_node_sheds_with_every_family_and_loads_nothing_else(
    wheel: Path, repository: Path, tmp_path: Path
) -> None:
    python = install(tmp_path / "venv", str(wheel), repository)
    for family in families.NAMES:
        lay_out(repository, family, tmp_path / "plans" / family)
    told = json.loads(run([python, "-c", NODE, tmp_path / "plans"], tmp_path, clean()))
    assert told["installed"] == []
    assert told["told"] == {name: ["in force", BATCH, True, 1, 0] for name in families.NAMES}
    loaded = set(told["modules"])
    assert {f"planning.{name}.shedder" for name in families.NAMES} <= loaded
    planning_only = {"printed", "planner", "program", "figures", "demo"}
    ours = [module for module in loaded if module.startswith("planning.")]
    assert [module for module in ours if planning_only & set(module.split("."))] == []
    heavy = ("benchmarks", "scipy", "ortools", "pydantic", "pandas", "airflow", "pyspark")
    assert [module for module in loaded if module.partition(".")[0] in heavy] == []


def lay_out(repository: Path, family: str, store: Path) -> None:
    """Make a store of a family's golden plan, with a batch of its stream."""
    golden = repository / "tests" / "planning" / "artifacts" / "golden" / family
    manifest = json.loads((golden / "manifest.json").read_text(encoding="utf-8"))
    (store / "golden" / "versions").mkdir(parents=True)
    (store / "golden" / "payloads").mkdir()
    shutil.copy(golden / "manifest.json", store / "golden" / "versions" / "00000001.json")
    for encoding, suffix in (("json", "json"), ("binary", "bin")):
        digest = manifest["payloads"][encoding]["digest"]
        shutil.copy(golden / f"plan.{suffix}", store / "golden" / "payloads" / f"{digest}.{suffix}")
    np.savez(store / "batch.npz", **batch(family))


def batch(family: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return items of the stream that a family's golden plan is for."""
    from planning.examples import demo_samples

    if family == "sifter":  # the others' golden plans are those of their demo streams
        rng = np.random.default_rng(3)
        return {"x": rng.uniform(size=BATCH), "carrier": rng.choice(["AA", "B6", "UA"], BATCH)}
    samples = {name: values[:BATCH] for name, values in demo_samples(family).items()}
    return {n: v.astype(str) if v.dtype == object else v for n, v in samples.items()}
