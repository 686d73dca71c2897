"""What each stage reads and writes, for OpenLineage.

Airflow asks an operator after its task if the OpenLineage provider is installed; Headgate itself
does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from upath import UPath

from headgate_airflow import places
from planning.home import Home
from planning.stages.run import Run

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

Places = Callable[[Home, Run], Iterator[UPath]]


def _landed(home: Home, run: Run) -> Iterator[UPath]:
    files = run.read("collected")["files"] if run.has("collected") else []
    return (UPath(file["path"]) for file in files)


def _document(name: str) -> Places:
    return lambda home, run: iter([run.folder / f"{name}.json"])


def _train(home: Home, run: Run) -> Iterator[UPath]:
    yield run.train


def _holdout(home: Home, run: Run) -> Iterator[UPath]:
    yield run.holdout


def _quarantine(home: Home, run: Run) -> Iterator[UPath]:
    yield run.quarantine


def _plans(home: Home, run: Run) -> Iterator[UPath]:
    yield home.plans / run.folder.parent.name


STAGES: dict[str, tuple[tuple[Places, ...], tuple[Places, ...]]] = {
    "collect": ((_landed,), (_document("collected"),)),
    "validate": ((_landed,), (_train, _holdout, _quarantine)),
    "statistics": ((_train,), (_document("statistics"),)),
    "solve": ((_document("statistics"),), (_document("candidate"),)),
    "gate": ((_document("candidate"), _holdout), (_document("verdict"),)),
    "publish": ((_document("candidate"), _document("verdict")), (_plans,)),
}
"""Inputs and outputs of every stage: files of the run folder, landed files, published plans."""


def datasets(stage: str, home: Home, run: Run) -> tuple[list[UPath], list[UPath]]:
    """Return what a stage of a run has read and what it has written; after a failure, in part."""
    inputs, outputs = STAGES[stage]
    read = [path for place in inputs for path in place(home, run)]
    written = [path for place in outputs for path in place(home, run)]
    return read, [path for path in written if path.exists()]


def dataset_name(path: UPath) -> tuple[str, str]:
    """Return namespace and name of a path, as OpenLineage writes them.

    >>> dataset_name(UPath("/srv/headgate/plans/ticks"))
    ('file', '/srv/headgate/plans/ticks')
    >>> dataset_name(UPath("memory://headgate/plans/ticks"))
    ('memory://headgate', 'plans/ticks')
    """
    if path.protocol in ("", "file"):
        return "file", path.absolute().path
    scheme, _, rest = str(path).partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


class StageLineage:
    """Mixed into the operators: reports the datasets of a finished task to OpenLineage."""

    stage_name: str
    stream: str

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return the inputs and outputs of the stage."""
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import Dataset

        home = places.home()
        read, written = datasets(
            self.stage_name, home, Run.of(home, self.stream, task_instance.run_id)
        )
        return OperatorLineage(
            inputs=[Dataset(*dataset_name(path)) for path in read],
            outputs=[Dataset(*dataset_name(path)) for path in written],
        )
