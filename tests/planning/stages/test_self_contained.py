"""A run is self-contained: what changes around it after collect does not reach its plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planning.errors import InvalidInput
from planning.families import family
from planning.home import Home
from planning.query_files import written_queries
from planning.stages import collect, gate, local, publish, solve
from planning.stages.run import Run
from planning.streams import StreamDefinition, load

NOW = "2026-01-02T03:04:05Z"
DEFINITION = """
stream: ticks
family: sifter
attributes:
  - {{name: price, domain: [0, 100]}}
  - {{name: volume, domain: [0, 1000]}}
queries: {{file: {file}}}
"""
ASKED = [{"ranges": {"price": [0, 30]}, "weight": 2}, {"ranges": {"volume": [600, 1000]}}]
OTHERS = [{"ranges": {"price": [70, 100]}}]


def write_queries(path: Path, queries: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        flat = [
            {f"{n}_{end}": float(v) for n, pair in q["ranges"].items()
             for end, v in zip(("low", "high"), pair, strict=True)}
            for q in queries
        ]  # fmt: skip
        names = {name: None for row in flat for name in row}
        pq.write_table(pa.Table.from_pylist([{**names, **row} for row in flat]), path)
    else:
        path.write_text("".join(f"{json.dumps(query)}\n" for query in queries), encoding="utf-8")


def collected(home: Home, folder: Path, file: str) -> tuple[Run, StreamDefinition]:
    folder.mkdir(exist_ok=True)
    path = folder / "ticks.yaml"
    path.write_text(DEFINITION.format(file=file), encoding="utf-8")
    definition = load(path)
    family("sifter").room("demo").land(home.resolve(definition.landing), 0, definition)
    return collect.collect(home, definition, "run-0"), definition


def finished(home: Home, run: Run, between: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run the other stages, with something happening before each; return the manifest's inputs."""
    for stage in (local.validate, local.statistics, solve.solve):
        between()
        stage(run)
    between()
    gate.gate(home, run)
    between()
    publish.publish(home, run, created_at=NOW)
    return home.store().latest("ticks").inputs


@pytest.mark.parametrize(
    ("name", "where", "change"),
    [
        ("asked.jsonl", "beside the definition", "changed"),
        ("asked.jsonl", "below the home", "removed"),
        ("asked.parquet", "below the home", "changed"),
    ],
)
def test_queries_are_those_of_the_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: str, change: str
) -> None:
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "another home"))
    plans = []
    for kind in ("left alone", change):
        home = Home.at(tmp_path / kind / "home")
        folder = tmp_path / kind / "streams"
        beside = where.startswith("beside")
        original = (folder if beside else Path(str(home.root))) / name
        write_queries(original, ASKED)
        digest = hashlib.sha256(original.read_bytes()).hexdigest()
        run, definition = collected(home, folder, name)

        def happens(kind: str = kind, original: Path = original) -> None:
            if kind == "changed":
                write_queries(original, OTHERS)
            elif kind == "removed":
                original.unlink(missing_ok=True)

        inputs = finished(home, run, happens)
        assert inputs["queries"] == digest
        assert run.definition().queries.file != definition.queries.file
        read = [q["ranges"] for q in written_queries(run.definition())]
        assert json.loads(json.dumps(read)) == [q["ranges"] for q in ASKED]
        plans.append(home.store().load("ticks").plan.to_bytes())
    assert plans[0] == plans[1]


def test_a_run_without_a_query_file_has_none_among_its_inputs(
    tmp_path: Path, planned_demos: dict[str, Any]
) -> None:
    planned = planned_demos["joins"]
    assert not any(path.name.startswith("queries") for path in planned.run.folder.iterdir())


def test_a_missing_query_file_uses_up_no_samples(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    with pytest.raises(InvalidInput, match=r"queries\.file must be readable, got .*absent\.jsonl"):
        collected(home, tmp_path / "streams", "absent.jsonl")
    write_queries(tmp_path / "streams" / "absent.jsonl", ASKED)
    definition = load(tmp_path / "streams" / "ticks.yaml")
    run = collect.collect(home, definition, "run-1")
    assert [file["rows"] for file in run.read("collected")["files"]] == [20000]


def test_a_repeated_collection_takes_what_is_there_now(tmp_path: Path) -> None:
    home, folder = Home.at(tmp_path / "home"), tmp_path / "streams"
    write_queries(folder / "asked.jsonl", ASKED)
    run, definition = collected(home, folder, "asked.jsonl")
    write_queries(folder / "asked.jsonl", OTHERS)
    again = collect.collect(home, definition, "run-0")
    assert again == run
    assert [q["ranges"] for q in written_queries(run.definition())] == [
        query["ranges"] for query in OTHERS
    ]
