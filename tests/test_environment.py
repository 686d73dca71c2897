"""The environment that the pins describe is the one that is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


def test_pyspark_client_does_not_overwrite_pyspark() -> None:
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("pyspark-client")


def test_requirements_are_pins_without_addresses() -> None:
    lines = (REPOSITORY / "requirements.txt").read_text().splitlines()
    assert len(lines) > 100
    assert [line for line in lines if "==" not in line or "://" in line] == []


def test_import_contracts_hold() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run([linter], cwd=REPOSITORY, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
