"""What runs on a source node loads little, and fast."""

import json
import subprocess
import sys

import pytest

HEAVY = ("airflow", "pyspark", "ortools", "pandas", "scipy", "pydantic", "matplotlib", "pyarrow")
SCRIPT = """
import json, sys, time
before = time.process_time()
import planning.artifacts, planning.runtime
spent = time.process_time() - before
print(json.dumps([spent, sorted({name.split(".")[0] for name in sys.modules})]))
"""


def test_artifacts_and_runtime_import_lightly():
    seconds = []
    for _ in range(3):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
        )
        spent, modules = json.loads(run.stdout)
        assert not set(HEAVY) & set(modules)
        assert "numba" not in modules
        seconds.append(spent)
    assert min(seconds) < 0.5


@pytest.mark.parametrize("package", ["planning.artifacts", "planning.runtime"])
def test_every_public_name_resolves(package):
    module = __import__(package, fromlist=["__all__"])
    for name in module.__all__:
        assert getattr(module, name) is not None
