"""The apps under spark-submit, with the code in a zip and nothing of the repository in reach."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from upath import UPath

pytestmark = [pytest.mark.spark, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]
WHERE = '\nprint("session from", __file__)\n'


def write_zip(target: Path) -> Path:
    with zipfile.ZipFile(target, "w") as archive:
        for package in ("planning", "expectations", "spark_apps"):
            for path in sorted((REPOSITORY / package).rglob("*.py")):
                text = path.read_text(encoding="utf-8")
                if path.name == "session.py":
                    text += WHERE
                archive.writestr(path.relative_to(REPOSITORY).as_posix(), text)
    return target


@pytest.fixture
def submit(tmp_path: Path) -> Any:
    code = write_zip(tmp_path / "code.zip")
    apps = tmp_path / "apps"
    elsewhere = tmp_path / "elsewhere"
    apps.mkdir()
    elsewhere.mkdir()
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "JAVA_HOME")}
    environment |= {"HOME": str(elsewhere), "PYSPARK_PYTHON": sys.executable}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "numba")
    if "JAVA_HOME" in os.environ:
        environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
    environment.pop("PYSPARK_SUBMIT_ARGS", None)

    def run(app: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        shutil.copy(REPOSITORY / "spark_apps" / app, apps / app)
        command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
        command += ["--py-files", str(code), str(apps / app), *arguments]
        return subprocess.run(
            command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=240
        )

    return run


def test_validate_and_region_frequencies(submit, make_run, ticks, tmp_path):
    from planning.samples import read_columns
    from planning.sifter import statistics

    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "price": np.append(rng.random(2000) * 100, [np.nan, 200.0]),
            "volume": rng.integers(0, 1000, 2002),
            "side": np.where(rng.random(2002) < 0.5, "buy", "sell"),
        }
    )
    definition = ticks(parameters={"regions": 8, "sample_size": 200})
    run = make_run({"a.parquet": table}, definition)
    docs = tmp_path / "validation" / "ticks"
    validated = submit("validate.py", "--run", run.uri, "--data-docs", str(docs))
    assert validated.returncode == 0, validated.stderr[-3000:]
    assert "code.zip/spark_apps/session.py" in validated.stdout
    report = run.read("validation")
    assert (report["clean"], report["quarantined"]) == (2000, 2)
    assert (docs / "index.html").exists()

    counted = submit("region_frequencies.py", "--run", run.uri)
    assert counted.returncode == 0, counted.stderr[-3000:]
    train = read_columns(UPath(run.train), definition.attribute_names)
    reference = statistics.build(train, definition).to_document()
    assert json.dumps(run.read("statistics")) == json.dumps(reference, sort_keys=True)
