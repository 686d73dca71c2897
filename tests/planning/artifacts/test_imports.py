"""What runs on a source node loads little; ``make bench`` says how fast."""

import subprocess
import sys

import pytest

HEAVY = ("airflow", "pyspark", "ortools", "pandas", "scipy", "pydantic", "matplotlib", "pyarrow")
SCRIPT = "import sys, planning.artifacts, planning.runtime; print(*sys.modules)"


def test_artifacts_and_runtime_import_lightly():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in run.stdout.split()}
    assert "planning" in packages
    assert not {*HEAVY, "numba"} & packages


@pytest.mark.parametrize("package", ["planning.artifacts", "planning.runtime"])
def test_every_public_name_resolves(package):
    module = __import__(package, fromlist=["__all__"])
    for name in module.__all__:
        assert getattr(module, name) is not None
