"""Warming: the packaged plans, what is compiled once and then loaded, and where it is kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from planning import families
from planning.artifacts import codec
from planning.runtime import warm

GOLDEN = Path(__file__).parents[1] / "artifacts" / "golden"
PLANS = Path(warm.__file__).parent / "plans"
PREPARE = """
import sys
from pathlib import Path
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    from planning.artifacts import codec
    from planning.runtime.preparing import prepare
    for path in sys.argv[1:]:
        family, plan = codec.decode(Path(path).read_bytes(), "binary")
        prepare(plan, family, 0.5)
print(sorted({str(entry.data["dispatcher"]) for _, entry in compiled.buffer}))
"""


def run(cache: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
    )  # fmt: skip


@pytest.mark.parametrize("family", families.NAMES)
def test_every_family_has_plans_of_today_s_format(family):
    plans = list(warm.plans(family))
    assert plans
    stored = {path.read_bytes() for path in PLANS.glob(f"{family}*.bin")}
    assert {codec.encode_binary(plan, family) for plan in plans} == stored
    for data in stored:
        decoded, plan = codec.decode(data, "binary")
        assert (decoded, type(plan).__module__) == (family, f"planning.{family}.plan")


def test_no_plan_belongs_to_no_family():
    assert sum(len(list(warm.plans(family))) for family in families.NAMES) == len(
        list(PLANS.iterdir())
    )


def test_fit_is_warmed_with_every_kind_of_table():
    from planning.fit.codec import ARRAYS

    kinds = [part["kind"] for plan in warm.plans("fit") for part in plan.to_document()["parts"]]
    assert sorted(kinds) == sorted(ARRAYS)


@pytest.mark.slow
@pytest.mark.parametrize("family", families.NAMES)
def test_what_was_warmed_is_loaded_afterwards(family, tmp_path):
    """Another process, with another plan of the family, compiles nothing."""
    first = run(tmp_path, "-m", "planning.runtime.warm", family)
    assert first.returncode == 0, first.stderr
    line, place = first.stdout.splitlines()
    assert re.fullmatch(rf"{family}: \d+\.\d s, compiled \d+ functions", line)
    assert place == f"cache: {tmp_path}"
    again = run(tmp_path, "-m", "planning.runtime.warm", family)
    assert re.fullmatch(rf"{family}: \d+\.\d s, loaded", again.stdout.splitlines()[0])
    other = run(tmp_path, "-c", PREPARE, str(GOLDEN / family / "plan.bin"))
    assert (other.stdout.strip(), other.stderr) == ("[]", "")


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    done = run(tmp_path / "file" / "cache", "-m", "planning.runtime.warm", "sifter")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        r"headgate: the compile cache must be in a folder that user \d+ may write, got "
        r".*/file/cache \(named by NUMBA_CACHE_DIR\); let that user write there, .*\n",
        done.stderr,
    )


def test_an_unknown_family_is_an_error(capsys):
    assert warm.main(["sieve"]) == 1
    assert "family must be one of sifter, lira" in capsys.readouterr().err


def test_it_needs_the_base_installation_only():
    """Where the optional dependencies are absent, the plans of every family can be prepared."""
    script = """
import sys
for absent in ("typer", "rich", "pydantic", "yaml", "scipy", "ortools", "pandas", "pyarrow"):
    sys.modules[absent] = None
from planning import families
from planning.runtime import preparing, warm
for name in families.NAMES:
    for plan in warm.plans(name):
        families.family(name).room("shedder").Shedder(plan, 0.5)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
