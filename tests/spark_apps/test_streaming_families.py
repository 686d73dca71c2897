"""Every family inside Spark: equal to its keyed shedder in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from planning.artifacts import Store
from planning.examples import demo_definition, demo_samples
from planning.runtime import PlanClient, RunningShedder
from spark_apps.streaming import shed
from tests.support.streaming import Sink, Source, new_store, publish_demo, run

pytestmark = pytest.mark.spark

LOAD = 0.5
KINDS = {"f": "double", "i": "long", "O": "string"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Source:
    return Source(spark, tmp_path)


def rows_of(family: str, rows: int) -> dict[str, Any]:
    """Return rows of the demo stream in their order, numbered."""
    samples = demo_samples(family, batch=1)
    columns = {name: column[:rows] for name, column in samples.items()}
    return {"id": np.arange(rows), **columns}


def schema_of(columns: dict[str, Any]) -> str:
    return ", ".join(f"`{name}` {KINDS[column.dtype.kind]}" for name, column in columns.items())


def alone(store: Store, family: str, key: str) -> RunningShedder:
    client = PlanClient(store, demo_definition(family).stream, node="alone", memory=False)
    client.poll()
    return RunningShedder(client, load=LOAD, key=key)


def add_thirds(source: Source, columns: dict[str, Any], rows: int, shuffled: bool = False) -> None:
    """Add the rows in three files, each in another order if asked for."""
    rng = np.random.default_rng(3)
    for part in np.array_split(np.arange(rows), 3):
        order = rng.permutation(part) if shuffled else part
        source.add(pa.table({name: column[order] for name, column in columns.items()}))


def test_fit(spark: Any, store: Store, tmp_path: Path) -> None:
    publish_demo(store, tmp_path, "fit")
    columns = rows_of("fit", 2000)
    rows = spark.createDataFrame(pa.table(columns).to_pandas())
    kept = shed(rows, stream="requests", store=store, key="id", load=LOAD).toPandas()
    wanted = columns["id"][alone(store, "fit", "id").offer(pa.table(columns))]
    assert sorted(kept["id"]) == wanted.tolist()
    assert 0 < len(wanted) < 2000


def test_joins_give_the_mask(spark: Any, store: Store, tmp_path: Path) -> None:
    publish_demo(store, tmp_path, "joins")
    columns = rows_of("joins", 2000)
    rows = spark.createDataFrame(pa.table(columns).to_pandas())
    kept = shed(rows, stream="news", store=store, key="id", load=LOAD, mask_column="windows")
    found = kept.toPandas().sort_values("id")
    wanted = alone(store, "joins", "id").offer(pa.table(columns))
    assert np.array_equal(np.stack(found["windows"].to_list()), wanted)
    assert 0.2 < wanted.mean() < 0.8


@pytest.mark.parametrize("buckets", [1, 5])
def test_lira_by_object(store: Store, source: Source, tmp_path: Path, buckets: int) -> None:
    """Whatever the order within a micro-batch, the number of buckets, and a failure in between."""
    publish_demo(store, tmp_path, "lira")
    rows = 9000
    columns = rows_of("lira", rows)
    add_thirds(source, columns, rows, shuffled=True)
    kept = shed(
        source.read(schema_of(columns)), stream="fleet", store=store, key="object_id", load=LOAD,
        order_by="time", buckets=buckets, control=tmp_path / "control", version_column="v",
    )  # fmt: skip
    sink = Sink()

    def fail_once(shed_rows: Any, batch: int) -> None:
        sink(shed_rows, batch)
        if batch == 1 and len(sink.batches[1]) == 1:
            publish_demo(store, tmp_path, "lira")
            raise RuntimeError("the sink broke down")

    with pytest.raises(Exception, match="broke down"):
        run(kept, tmp_path, fail_once)
    run(kept, tmp_path, fail_once)
    assert sink.batches[1][0] == sink.batches[1][1]
    assert [{row[-1] for row in sink.batches[n][-1]} for n in range(3)] == [{1}, {1}, {2}]
    shedder = alone(store, "lira", "object_id")
    keep = np.concatenate(
        [
            shedder.offer({name: column[part] for name, column in columns.items()})
            for part in np.array_split(np.arange(rows), 3)
        ]
    )
    found = sorted(id_ for n in range(3) for id_ in sink.ids(n))
    assert found == columns["id"][keep].tolist()
    assert 0.02 < keep.mean() < 0.8


def test_attributes_by_entity(store: Store, source: Source, tmp_path: Path) -> None:
    publish_demo(store, tmp_path, "attributes")
    rows = 6000
    columns = rows_of("attributes", rows)
    add_thirds(source, columns, rows, shuffled=True)
    kept = shed(
        source.read(schema_of(columns)), stream="sensors", store=store, key="machine", load=LOAD,
        order_by="sequence", buckets=1, control=tmp_path / "control", mask_column="sent",
    )  # fmt: skip
    sink = Sink()
    run(kept, tmp_path, sink)
    found = {row[0]: row for n in range(3) for row in sink.batches[n][0]}
    shedder = alone(store, "attributes", "machine")
    names = list(columns)
    for part in np.array_split(np.arange(rows), 3):
        mask = shedder.offer({name: column[part] for name, column in columns.items()})
        assert shedder.shedder is not None
        parts = shedder.shedder.parts
        for number, row in zip(part.tolist(), mask, strict=True):
            assert (number in found) == bool(row.any())
            if row.any():
                assert found[number][-1] == [p for p, s in zip(parts, row, strict=True) if s]
                for name, sent in zip(parts, row, strict=True):
                    value = found[number][names.index(name)]
                    assert value == columns[name][number] if sent else value is None
    assert 0 < len(found) <= rows
