"""The match histogram on Spark equals the NumPy reference, bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from planning.errors import StatisticsError
from planning.families import Definition
from planning.joins.parameters import Parameters
from planning.streams import parse

pytestmark = pytest.mark.spark


def definition(**parameters: Any) -> Definition[Parameters]:
    """Return a definition whose columns have a dot and a space in their names."""
    items = [f"item.{k}" for k in range(4)]
    document = {
        "stream": "pairs",
        "family": "joins",
        "attributes": [
            {"name": "the side", "type": "category", "values": ["a", "b"]},
            {"name": "at.s", "domain": [-1e6, 1e6]},
            {"name": "kind", "type": "category", "values": ["x", "y"]},
            *({"name": name, "type": "int", "domain": [-1, 40]} for name in items),
        ],
        "parameters": {
            "stream": "the side",
            "time": "at.s",
            "type": "kind",
            "items": items,
            "threshold": 2,
            "window_s": [3.0, 5.0],
            **parameters,
        },
    }
    return parse(document, "pairs.yaml").of(Parameters)


def samples(seed: int, rows: int, span: float = 200.0) -> dict[str, np.ndarray]:
    """Return tuples with many equal times, also on the borders of blocks."""
    rng = np.random.default_rng(seed)
    at = rng.uniform(-span / 2, span / 2, rows)
    at[::2] = np.round(at[::2])
    at[::7] = 20.0 * np.round(at[::7] / 20.0)
    return {
        "the side": np.where(rng.random(rows) < 0.4, "a", "b").astype(object),
        "at.s": at,
        "kind": np.where(rng.random(rows) < 0.8, "x", "y").astype(object),
        **{f"item.{k}": rng.integers(-1, 9, rows).astype(float) for k in range(4)},
    }


def frame(spark: Any, columns: dict[str, np.ndarray], partitions: int) -> Any:
    rows = list(zip(*(c.tolist() for c in columns.values()), strict=True))
    schema = "`the side` string, `at.s` double, kind string, " + ", ".join(
        f"`item.{k}` double" for k in range(4)
    )
    return spark.createDataFrame(rows, schema).repartition(partitions)


@pytest.mark.parametrize(
    ("seed", "rows", "parameters"),
    [(1, 3000, {}), (2, 1500, {"origin_s": 0.3, "basic_window_s": 0.7})],
)
def test_spark_equals_numpy(spark, seed, rows, parameters):
    from planning.joins.statistics import build as reference
    from spark_apps.match_histogram import build

    made = definition(**parameters)
    columns = samples(seed, rows)
    expected = json.dumps(reference(columns, made).to_document(), sort_keys=True)
    for partitions in (1, 5):
        counted = build(frame(spark, columns, partitions), made)
        assert json.dumps(counted.to_document(), sort_keys=True) == expected


def test_one_silent_stream_is_refused(spark):
    from spark_apps.match_histogram import build

    columns = samples(3, 50)
    columns["the side"][:] = "a"
    with pytest.raises(StatisticsError, match="both streams, got 50 and 0"):
        build(frame(spark, columns, 2), definition())
    with pytest.raises(StatisticsError, match="got none"):
        build(frame(spark, columns, 2).where("false"), definition())


@pytest.mark.slow
def test_a_hundred_million_pairs_without_materialising_one(spark):
    from spark_apps.match_histogram import build

    made = definition()
    # 160,000 tuples per stream at 80 per second: 10^8 pairs within the windows.
    rows = spark.range(320_000, numPartitions=4).selectExpr(
        "if(id % 2 = 0, 'a', 'b') as `the side`",
        "cast(id as double) / 160 as `at.s`",
        "if(id % 10 < 8, 'x', 'y') as kind",
        *(f"cast(pmod(hash(id, {k}), 40) as double) as `item.{k}`" for k in range(4)),
    )
    counted = build(rows, made)
    assert counted.samples == 320_000
    assert counted.comparisons.sum() == pytest.approx(80 * 80 * 8 * 2000, rel=0.01)
    assert 0 < counted.hits.sum() < counted.comparisons.sum()
