"""The sifter's statistics on Spark equal the NumPy reference, bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.spark


def samples(seed: int, rows: int) -> dict[str, np.ndarray]:
    """Return ticks with many copies, and values on the borders of the domain."""
    rng = np.random.default_rng(seed)
    price = np.round(rng.beta(2, 5, rows) * 100, rng.integers(0, 3))
    price[:3] = 0.0, 100.0, -0.0
    volume = rng.poisson(60, rows).clip(0, 1000)
    volume[:3] = 0, 1000, 0
    side = np.where(rng.random(rows) < 0.7, "buy", "sell").astype(object)
    return {"price": price, "volume": volume.astype(np.int64), "side": side}


def frame(spark: Any, columns: dict[str, np.ndarray], partitions: int) -> Any:
    rows = list(zip(*(c.tolist() for c in columns.values()), strict=True))
    schema = "price double, volume long, side string"
    return spark.createDataFrame(rows, schema).repartition(partitions)


def written(statistics: Any) -> str:
    return json.dumps(statistics.to_document(), sort_keys=True)


@pytest.mark.parametrize(
    ("seed", "rows", "parameters"),
    [
        (1, 4000, {"regions": 16, "sample_size": 300}),
        (2, 900, {"regions": 9, "sample_size": 1000, "partitioner": "uniform_grid"}),
        (3, 2500, {"regions": 40, "sample_size": 77}),
        (4, 3000, {"sample_size": 50, "pins": ["side = 'sell' AND price > 40", "volume >= 75"]}),
    ],
)
def test_spark_equals_numpy_for_any_partitioning(spark, ticks, seed, rows, parameters):
    from planning.sifter import statistics
    from spark_apps.region_frequencies import build

    definition = ticks(parameters=parameters)
    columns = samples(seed, rows)
    reference = statistics.build(columns, definition)
    assert reference.samples == rows
    assert (reference.pinned_fraction > 0) == ("pins" in parameters)
    for partitions in (1, 5):
        made = build(frame(spark, columns, partitions), definition)
        assert written(made) == written(reference)


def test_sample_is_the_reference_sample_when_one_value_dominates(spark):
    from planning import sampling
    from spark_apps.drawing import draw_sample

    rng = np.random.default_rng(5)
    values = np.where(rng.random(5000) < 0.6, 7.0, np.round(rng.random(5000), 3))
    rows = spark.createDataFrame([(v,) for v in values.tolist()], "a double").repartition(3)
    drawn = draw_sample(rows, lambda batch: batch.column(0).to_numpy()[:, None], 100)[:, 0]
    assert drawn.tolist() == values[sampling.draw([values], 100)].tolist()
    share = (values == 7.0).mean()
    assert abs((drawn == 7.0).sum() - 100 * share) <= 1


@pytest.mark.parametrize(("bits", "size"), [(1, 40), (3, 7), (3, 500), (12, 100)])
def test_ranks_are_picked_right_inside_a_bucket(monkeypatch, bits, size):
    from planning import sampling
    from spark_apps import drawing

    monkeypatch.setattr(drawing, "BUCKET_BITS", bits)
    values = np.random.default_rng(8).integers(0, 90, 600).astype(np.float64)
    buckets = drawing._buckets(sampling.stable_keys([values]))
    filled, counts = np.unique(buckets, return_counts=True)
    ends = np.cumsum(counts)
    ranks = sampling.sample_ranks(len(values), size)
    wanted = filled[np.unique(np.searchsorted(ends, ranks, side="right"))]
    distinct, copies = np.unique(values[np.isin(buckets, wanted)], return_counts=True)
    picked = drawing.pick(distinct[:, None], copies, ranks, filled, ends - counts)
    assert picked[:, 0].tolist() == values[sampling.draw([values], size)].tolist()


def test_flights_equal_numpy(spark, ticks, shared_data):
    from upath import UPath

    from planning.samples import read_columns
    from planning.sifter import statistics
    from spark_apps.region_frequencies import build
    from spark_apps.session import read_parquet

    bounds = {
        "dep_delay_min": [-100, 1400], "arr_delay_min": [-100, 1400],
        "air_time_min": [0, 700], "distance_mi": [0, 5000],
    }  # fmt: skip
    definition = ticks(
        attributes=[{"name": n, "type": "int", "domain": d} for n, d in bounds.items()],
        queries={"inline": [{"ranges": {"dep_delay_min": [60, 1400]}}]},
        parameters={"regions": 64, "sample_size": 2000},
    )
    file = UPath(shared_data / "sifter" / "nyc_flights_2013.parquet")
    made = build(read_parquet(spark, file, definition.attribute_names), definition)
    assert made.samples == 327_346
    reference = statistics.build(read_columns(file, definition.attribute_names), definition)
    assert written(made) == written(reference)


def test_region_counts_have_one_row_per_filled_region(spark, ticks):
    from pyspark.testing import assertDataFrameEqual

    from planning.sifter.model import Partition, Space
    from planning.sifter.queries import pins_of
    from spark_apps.region_frequencies import region_counts

    definition = ticks(parameters={"pins": ["side = 'sell'"]})
    space = Space.of(definition)
    thirds = Partition.from_nested((0, 10.0, None, (0, 50.0, None, None)))
    rows = [(9.99, 1, "buy"), (10.0, 1, "buy"), (10.5, 2, "sell"), (None, 1, "buy")]
    given = spark.createDataFrame(rows, "price double, volume long, side string")
    counted = region_counts(given, thirds, space, pins_of(definition))
    rows = [(0, 1, 0), (1, 2, 1)]
    expected = spark.createDataFrame(rows, "region long, tuples long, pinned long")
    assertDataFrameEqual(counted, expected)


def test_pinned_rows_are_all_counted_not_estimated_from_the_sample(spark, ticks):
    from spark_apps.region_frequencies import build

    columns = samples(6, 3000)
    definition = ticks(
        parameters={"sample_size": 10, "pins": ["side = 'sell'"], "calibrate": False}
    )
    made = build(frame(spark, columns, 3), definition)
    assert made.pinned_fraction == pytest.approx((columns["side"] == "sell").mean())
    assert made.frequency.sum() + made.pinned_fraction == pytest.approx(1.0)


def test_a_run_counts_for_its_own_copy_of_the_queries(spark, make_run, ticks):
    """The file that the definition names is long gone, and no environment variable helps."""
    from argparse import Namespace

    from planning.sifter import statistics
    from spark_apps.region_frequencies import APP

    definition = ticks(queries={"file": "asked.jsonl", "inline": []})
    run = make_run({}, definition)
    run.put(run.queries("asked.jsonl"), b'{"ranges": {"price": [10, 30]}, "weight": 3}')
    frame(spark, samples(7, 500), 2).write.parquet(str(run.train))
    APP.work(spark, run, Namespace())
    inline = ticks(queries={"inline": [{"ranges": {"price": [10, 30]}, "weight": 3}]})
    reference = statistics.build(samples(7, 500), inline)
    assert json.dumps(run.read("statistics"), sort_keys=True) == written(reference)


def test_no_rows_is_an_error_of_its_own(spark, ticks):
    from planning.errors import StatisticsError
    from spark_apps.region_frequencies import build

    empty = spark.createDataFrame([], "price double, volume long, side string")
    with pytest.raises(StatisticsError, match="at least one row"):
        build(empty, ticks())
