"""The attribute profile on Spark equals the NumPy reference, bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.attributes.workload import Faults, stream
from planning.streams import StreamDefinition, parse

pytestmark = pytest.mark.spark


def definition_of(columns: dict[str, Any], **parameters: Any) -> StreamDefinition:
    attributes: list[dict[str, Any]] = []
    for name, column in columns.items():
        if column.dtype.kind in "OU":
            values = sorted({str(v) for v in column})
            attributes.append({"name": name, "type": "category", "values": values})
        else:
            attributes.append({"name": name, "type": "float", "domain": [-1e12, 1e12]})
    return parse(
        {
            "stream": "machines",
            "family": "attributes",
            "attributes": attributes,
            "parameters": {"order_by": ["sequence"], "sizes": {"sequence": 0}, **parameters},
        },
        "test",
    )


def frame(spark: Any, columns: dict[str, Any], partitions: int) -> Any:
    kinds = {"U": "string", "O": "string", "i": "long", "f": "double"}
    schema = ", ".join(f"`{n}` {kinds[c.dtype.kind]}" for n, c in columns.items())
    plain = [
        [None if v is None or v != v else v for v in column.tolist()] for column in columns.values()
    ]
    rows = list(zip(*plain, strict=True))
    np.random.default_rng(0).shuffle(rows)
    return spark.createDataFrame(rows, schema).repartition(partitions)


def written(statistics: Any) -> str:
    return json.dumps(statistics.to_document(), sort_keys=True)


def faulty(seed: int, lengths: tuple[int, ...] = (3, 4), cycles: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    clean = stream(rng, cycles=cycles, lengths=lengths, twins=1, constants=1)
    clean["state"] = np.array(["on", "off"])[rng.integers(0, 2, len(clean["key0"]))]
    columns = Faults(0.03, 0.03, 0.03).apply(clean, rng)
    columns["value1"][rng.random(len(columns["value1"])) < 0.05] = np.nan
    return {"sequence": np.arange(len(columns["key0"])), **columns}


@pytest.mark.parametrize("partitions", [1, 5])
def test_spark_equals_numpy_for_any_partitioning(spark: Any, partitions: int) -> None:
    from planning.attributes import statistics
    from spark_apps.attribute_profile import build

    columns = faulty(1)
    definition = definition_of(columns)
    reference = statistics.build(columns, definition)
    assert reference.streams[0].cycle.cid == ("key0", "key1")
    assert reference.streams[0].cycle.length == 12
    made = build(frame(spark, columns, partitions), definition)
    assert written(made) == written(reference)


def test_nested_loops_repeats_and_a_given_cid(spark: Any) -> None:
    from planning.attributes import statistics
    from spark_apps.attribute_profile import build

    i = np.arange(600)
    rng = np.random.default_rng(2)
    columns = {"sequence": i, "row": (i // 3) % 4 * 1.0, "column": i % 3 * 1.0,
               "x": rng.normal(size=600)}  # fmt: skip
    twice = {name: np.concatenate([c, c[100:150]]) for name, c in columns.items()}
    for parameters in ({}, {"cid": ["column"]}, {"detector": "exact"}):
        definition = definition_of(columns, **parameters)
        reference = statistics.build(columns, definition)
        assert written(build(frame(spark, twice, 3), definition)) == written(reference)


def test_several_streams_on_one_channel(spark: Any) -> None:
    from planning.attributes import statistics
    from spark_apps.attribute_profile import build

    rng = np.random.default_rng(3)
    i = np.arange(800)
    name = np.array(["air", "sea"])[i // 4 % 2]
    columns = {"sequence": i, "kind": name, "station": np.array(list("abcd"))[i % 4],
               "wind": np.where(name == "air", rng.normal(size=800), np.nan),
               "wave": np.where(name == "sea", np.cumsum(rng.normal(size=800)), np.nan)}
    definition = definition_of(columns, stream_attribute="kind", method="periods")
    reference = statistics.build(columns, definition)
    assert [s.name for s in reference.streams] == ["air", "sea"]
    assert written(build(frame(spark, columns, 3), definition)) == written(reference)


def test_the_app_writes_statistics(spark: Any, tmp_path: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from upath import UPath

    from planning.stages.run import Run
    from spark_apps.attribute_profile import APP

    columns = faulty(4, (5,))
    run = Run(UPath(tmp_path / "run"))
    definition = definition_of(columns)
    run.write("definition", {"definition": definition.model_dump(mode="json"), "source": "test"})
    (tmp_path / "run" / "samples" / "train").mkdir(parents=True)
    pq.write_table(pa.table(columns), tmp_path / "run" / "samples" / "train" / "a.parquet")
    assert APP.main(["--run", run.uri]) == 0
    assert run.read("statistics")["streams"][0]["cycle"]["cid"] == ["key0"]
    (tmp_path / "run" / "samples" / "train" / "a.parquet").unlink()
    pq.write_table(
        pa.table({n: c[:1] for n, c in columns.items()}),
        tmp_path / "run" / "samples" / "train" / "b.parquet",
    )
    assert APP.main(["--run", run.uri]) == 1


@pytest.mark.slow
def test_the_real_stream_gives_the_same_profile(spark: Any, shared_data: Any) -> None:
    """420,768 tuples with real nulls."""
    import pyarrow.parquet as pq

    from benchmarks.attributes import recorded
    from planning.attributes import statistics
    from spark_apps.attribute_profile import build

    path = shared_data / recorded.FILE
    order = ("tick", "station_order")
    table = pq.read_table(path, columns=[*order, *recorded.NAMES])
    columns = {name: table.column(name) for name in table.column_names}
    words = {n: sorted(set(columns[n].to_pylist()) - {None}) for n in recorded.NAMES
             if n not in recorded.NUMBERS}  # fmt: skip
    definition = parse(
        {
            "stream": "weather",
            "family": "attributes",
            "attributes": [
                {"name": n, "type": "category", "values": words[n]} if n in words
                else {"name": n, "domain": [-1e6, 1e6]}
                for n in columns
            ],
            "parameters": {"order_by": list(order), "sizes": dict.fromkeys(order, 0)},
        },
        "test",
    )  # fmt: skip
    reference = statistics.build(columns, definition)
    assert reference.streams[0].cycle.cid == ("station",)
    frame = spark.read.parquet(f"file://{path}").select(*columns)
    assert written(build(frame, definition)) == written(reference)
