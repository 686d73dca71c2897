"""One Spark session for the whole suite, and small runs to validate."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from planning.stages.run import Run
from planning.streams import StreamDefinition, parse

# Before the JVM starts: short-lived JVMs gain nothing from the optimising compiler.
os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local[2] pyspark-shell"

TICKS: dict[str, Any] = {
    "stream": "ticks",
    "family": "sifter",
    "attributes": [
        {"name": "price", "type": "float", "domain": [0, 100]},
        {"name": "volume", "type": "int", "domain": [0, 1000]},
        {"name": "side", "type": "category", "values": ["buy", "sell"]},
    ],
    "samples": {"min_rows": 5, "max_quarantined": 0.5},
    "queries": {
        "inline": [
            {"ranges": {"price": [10, 30]}},
            {"ranges": {"price": [20, 80], "volume": [0, 500]}, "weight": 2},
        ]
    },
    "parameters": {"regions": 4, "sample_size": 50},
}

RunMaker = Callable[..., Run]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from spark_apps.session import session

    made = session("tests")
    made.conf.set("spark.sql.shuffle.partitions", "2")
    yield made
    made.stop()


def definition_of(**changes: Any) -> StreamDefinition:
    document = dict(TICKS)
    for section, values in changes.items():
        given = document.get(section)
        document[section] = {**given, **values} if isinstance(given, dict) else values
    return parse(document, "ticks.yaml")


@pytest.fixture(scope="session")
def ticks() -> Callable[..., StreamDefinition]:
    """Return a function that gives the test definition with some sections extended."""
    return definition_of


@pytest.fixture
def make_run(tmp_path: Path) -> RunMaker:
    """Return a function that lays out a run: definition, and landed files as collected."""

    def make(
        files: dict[str, list[Any] | pa.Table],
        definition: StreamDefinition | None = None,
        **collected: Any,
    ) -> Run:
        run = Run(UPath(tmp_path / "runs" / "ticks" / "run_1"))
        landing = tmp_path / "landing"
        landing.mkdir(exist_ok=True)
        listed = []
        for name, content in files.items():
            path = landing / name
            if isinstance(content, pa.Table):
                pq.write_table(content, path)
            else:
                rows = [r if isinstance(r, str) else json.dumps(r) for r in content]
                path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
            kind = "parquet" if name.endswith(".parquet") else "jsonl"
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            listed.append(
                {"path": str(path), "format": kind, "rows": len(content), "digest": digest}
            )
        made = definition or definition_of()
        run.write("definition", {"definition": made.model_dump(mode="json"), "source": "t.yaml"})
        run.write("collected", {"files": listed, "set_aside": [], **collected})
        return run

    return make
