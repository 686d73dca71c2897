"""Shared fixtures: a separate home, the demo streams, and a planned demo stream per family."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from planning.families import Family, Plan
    from planning.home import Home
    from planning.stages.run import Run
    from planning.streams import StreamDefinition

# The first example of a test may import a family or compile its kernels.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")

# What nodes remember is this run's own.
os.environ["HEADGATE_MEMORY"] = tempfile.mkdtemp(prefix="headgate-memory-")
atexit.register(shutil.rmtree, os.environ["HEADGATE_MEMORY"], ignore_errors=True)

REPOSITORY = Path(__file__).resolve().parents[1]
STREAMS = REPOSITORY / "dags" / "streams"
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))  # modules that test modules share


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep what shares a Spark session, an Airflow or a module's fixtures in one process."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFileOrSession(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            shared = ("tests/spark_apps", "tests/plugins", "tests/dags")
            return next((folder for folder in shared if file.startswith(folder)), file)

    return ByFileOrSession(config, log)


@dataclass(frozen=True)
class Planned:
    """A demo stream planned without Spark and Airflow, up to its candidate."""

    home: Home
    definition: StreamDefinition
    run: Run
    family: Family

    @property
    def plan(self) -> Plan:
        from planning.stages.solve import candidate

        return candidate(self.run)


def plan_demo(definition: StreamDefinition, root: Path, batch: int = 0) -> Planned:
    from planning.families import family
    from planning.home import Home
    from planning.stages import collect, local, solve

    home = Home.at(root)
    kind = family(definition.family)
    kind.room("demo").land(home.resolve(definition.landing), batch, definition)
    run = collect.collect(home, definition, f"batch-{batch}")
    local.validate(run)
    local.statistics(run)
    solve.solve(run)
    return Planned(home, definition, run, kind)


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def demo_definitions() -> list[StreamDefinition]:
    from planning.streams import load_folder

    good, bad = load_folder(STREAMS)
    assert not bad, "\n".join(map(str, bad))
    return [d for d in good if d.demo]


@pytest.fixture(scope="session")
def planned_demos(
    demo_definitions: list[StreamDefinition], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Planned]:
    """Return every family's demo stream, planned once for the session; treat it as read-only."""
    return {
        d.family: plan_demo(d, tmp_path_factory.mktemp(f"home-{d.stream}"))
        for d in demo_definitions
    }


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real data sets, or skip."""
    from benchmarks import datasets

    folder = datasets.folder()
    if not folder.is_dir():
        pytest.skip(f"real data sets are not at {folder}; set HEADGATE_DATA to their folder")
    return folder
