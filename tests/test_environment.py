"""The environment that the pins describe is the one that is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def test_pyspark_and_its_client_are_of_one_release() -> None:
    """The Spark provider installs the client over pyspark files; within one release they agree."""
    assert metadata.version("pyspark-client") == metadata.version("pyspark")


def test_the_package_is_described_once() -> None:
    """Airflow takes plugins from every description that it sees, the working directory's too."""
    described = list(metadata.distributions(name="headgate"))
    assert len(described) == 1, "a build has left headgate.egg-info in the checkout; remove it"


def test_requirements_are_pins_without_addresses() -> None:
    lines = (REPOSITORY / "requirements.txt").read_text().splitlines()
    assert len(lines) > 100
    assert [line for line in lines if "==" not in line or "://" in line] == []


def test_import_contracts_hold() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run([linter], cwd=REPOSITORY, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
