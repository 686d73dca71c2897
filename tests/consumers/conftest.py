"""One kit for all tests of consumers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def made_in(folder: Path) -> dict[str, Any]:
    """Write the kit as a user does; return what kit.json says."""
    call = [sys.executable, "-m", "planning.conformance", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(call, check=True, cwd=ROOT, env=environment, capture_output=True)
    index: dict[str, Any] = json.loads((folder / "kit.json").read_text())
    return index


@pytest.fixture(scope="session")
def make_kit() -> Any:
    return made_in


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit")
    made_in(folder)
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from spark_apps.session import session

    made = session("tests")
    yield made
    made.stop()
