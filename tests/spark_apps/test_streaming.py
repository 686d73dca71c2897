"""Shedding inside Spark equals the keyed shedder of one process, whatever is repeated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planning import keys
from planning.artifacts import Store
from planning.errors import InvalidInput
from planning.examples import demo_samples
from planning.runtime import PlanClient, RunningShedder
from spark_apps.streaming import Control, Law, shed
from tests.support.streaming import Sink, Source, new_store, publish_demo, run

pytestmark = pytest.mark.spark

ROWS = 6000
Publish = Callable[[], int]
TICKS = "id long, price double, volume double"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def store(home: Path) -> Store:
    return new_store(home)


@pytest.fixture
def publish(home: Path, store: Store) -> Publish:
    return lambda: publish_demo(store, home)


@pytest.fixture
def source(spark: Any, home: Path) -> Source:
    return Source(spark, home)


def table(begin: int = 0, rows: int = ROWS) -> pa.Table:
    ticks = demo_samples("sifter", batch=1)
    return pa.table(
        {
            "id": np.arange(begin, begin + rows),
            "price": ticks["price"][begin : begin + rows],
            "volume": ticks["volume"][begin : begin + rows],
        }
    )


def expected(store: Store, rows: pa.Table, load: float, version: int = 0) -> list[int]:
    """Return the ids that the keyed shedder keeps in one process."""
    client = PlanClient(store, "ticks", node="alone", memory=False)
    if version:
        shedder = RunningShedder(client, load=load, key="id")
        shedder.put(version, shedder.prepare(store.load("ticks", version)))
    else:
        client.poll()
        shedder = RunningShedder(client, load=load, key="id")
    return rows["id"].to_numpy()[shedder.offer(rows)].tolist()


def shed_ticks(rows: Any, store: Store, home: Path, **changes: Any) -> Any:
    given = {"stream": "ticks", "store": store, "key": "id", "control": home / "control"}
    return shed(rows, **{**given, "load": 0.5, **changes})


def test_a_batch_is_shed_as_in_one_process(spark: Any, store: Store, publish: Publish) -> None:
    publish()
    rows = spark.createDataFrame(table().to_pandas()).repartition(5)
    kept = shed(rows, stream="ticks", store=store, key=["id"], load=0.5,
                weight_column="hg_weight", version_column="hg_version")  # fmt: skip
    assert kept.columns == ["id", "price", "volume", "hg_weight", "hg_version"]
    found = kept.toPandas().sort_values("id")
    assert found["id"].tolist() == expected(store, table(), 0.5)
    assert set(found["hg_version"]) == {1}
    client = PlanClient(store, "ticks", node="alone", memory=False)
    client.poll()
    keep, weight = RunningShedder(client, load=0.5, key="id").offer_weighted(table())
    assert found["hg_weight"].tolist() == weight[keep].tolist()


def test_a_new_version_is_in_force_in_the_next_micro_batch(
    store: Store, publish: Publish, source: Source, home: Path
) -> None:
    publish()
    rows = shed_ticks(source.read(TICKS), store, home, version_column="v")
    sink = Sink()

    def and_publish(kept: Any, batch: int) -> None:
        sink(kept, batch)
        publish()

    for begin in (0, 2000, 4000):
        source.add(table(begin, 2000))
    run(rows, home, and_publish)
    assert [{row[-1] for row in sink.batches[n][0]} for n in range(3)] == [{1}, {2}, {3}]


def test_without_a_plan_rows_are_thinned_by_key(
    store: Store, source: Source, home: Path, publish: Publish
) -> None:
    source.add(table(0, 2000))
    sink = Sink()
    run(
        shed_ticks(source.read(TICKS), store, home, family="sifter", version_column="v"), home, sink
    )
    drawn = keys.draws_of([np.arange(2000)])
    assert sink.ids(0) == np.flatnonzero(drawn >= keys.drop_step(0.5)).tolist()
    assert {row[-1] for row in sink.batches[0][0]} == {0}


def test_a_second_action_and_a_restart_shed_alike(
    store: Store, publish: Publish, source: Source, home: Path
) -> None:
    """Batch 0 fails after its first action; meanwhile there is a new version and another load."""
    publish()
    source.add(table(0, 3000))
    sink = Sink()

    def twice_and_fail(kept: Any, batch: int) -> None:
        sink(kept, batch)
        publish()
        sink(kept, batch)
        raise RuntimeError("the sink broke down")

    rows = shed_ticks(source.read(TICKS), store, home, version_column="v")
    with pytest.raises(Exception, match="broke down"):
        run(rows, home, twice_and_fail)
    source.add(table(3000, 3000))
    again = shed_ticks(source.read(TICKS), store, home, load=0.2, version_column="v")
    run(again, home, sink)
    first, second, restarted = sink.batches[0]
    assert first == second == restarted
    assert sink.ids(0) == expected(store, table(0, 3000), 0.5, 1)
    assert sink.ids(1) == expected(store, table(3000, 3000), 0.2, 2)
    assert {row[-1] for row in sink.batches[1][0]} == {2}


def test_micro_batches_are_repeated_without_the_store(
    store: Store, publish: Publish, source: Source, home: Path
) -> None:
    """The plan is beside the checkpoint; without a store it stays in force."""
    publish()
    source.add(table(0, 3000))
    sink = Sink()
    run(shed_ticks(source.read(TICKS), store, home), home, sink)
    wanted = expected(store, table(3000, 3000), 0.5)
    source.add(table(3000, 3000))
    rows = shed_ticks(source.read(TICKS), store, home, salt=None, node="other")
    (home / "plans").rename(home / "gone")
    query = run(rows, home, sink)
    assert sink.ids(1) == wanted
    terms = Control(home / "control", query, "ticks").terms(1)
    assert terms is not None
    assert terms.version == 1
    assert terms.problem


def test_two_queries_do_not_share_terms(
    store: Store, publish: Publish, source: Source, home: Path
) -> None:
    publish()
    source.add(table(0, 2000))
    sink, other = Sink(), Sink()
    run(shed_ticks(source.read(TICKS), store, home), home, sink)
    run(shed_ticks(source.read(TICKS), store, home, load=0.1), home, other, "other")
    assert other.ids(0) == expected(store, table(0, 2000), 0.1)
    assert len(other.ids(0)) < len(sink.ids(0))


def test_inside_foreach_batch(store: Store, publish: Publish, source: Source, home: Path) -> None:
    publish()
    source.add(table(0, 2000))
    sink = Sink()

    def shed_here(rows: Any, batch: int) -> None:
        sink(shed_ticks(rows, store, home), batch)
        publish()
        sink(shed_ticks(rows.repartition(7), store, home, load=0.9), batch)

    run(source.read(TICKS), home, shed_here)
    first, second = sink.batches[0]
    assert first == second
    assert sink.ids(0) == expected(store, table(0, 2000), 0.5)


def test_a_query_with_a_shuffle_and_a_state_after_it(
    spark: Any, store: Store, publish: Publish, source: Source, home: Path
) -> None:
    publish()
    source.add(table(0, 2000))
    source.add(table(2000, 2000))
    kept = shed_ticks(source.read(TICKS), store, home)
    counts = kept.groupBy((kept.id % 3).alias("rest")).count()
    query = (
        counts.writeStream.outputMode("complete").format("memory").queryName("rests")
        .option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    ids = np.array(expected(store, table(0, 4000), 0.5))
    found = {row["rest"]: row["count"] for row in spark.table("rests").collect()}
    assert found == {rest: int((ids % 3 == rest).sum()) for rest in range(3)}


def test_samples_land_once(store: Store, publish: Publish, source: Source, home: Path) -> None:
    publish()
    source.add(table())
    rows = shed_ticks(
        source.read(TICKS), store, home, landing=home / "landing", sampling_fraction=0.1
    )
    sink = Sink()

    def twice(kept: Any, batch: int) -> None:
        sink(kept, batch)
        before = {path.name: path.stat().st_mtime_ns for path in (home / "landing").iterdir()}
        sink(kept, batch)
        assert {p.name: p.stat().st_mtime_ns for p in (home / "landing").iterdir()} == before

    run(rows, home, twice)
    assert sink.batches[0][0] == sink.batches[0][1]
    landed = pq.read_table(home / "landing")
    ids = landed["id"].to_pylist()
    assert len(ids) == len(set(ids))
    assert 500 < len(ids) < 700
    assert set(ids) <= set(sink.ids(0)), "marked rows bypass the plan"
    assert landed.select(["id", "price", "volume"]).sort_by("id") == table().take(sorted(ids))
    assert abs(len(sink.ids(0)) - ROWS * 0.5) < 0.03 * ROWS, "marks are charged to the load"


def test_counters_and_status_reach_the_driver(
    spark: Any, store: Store, publish: Publish, source: Source, home: Path
) -> None:
    publish()
    for begin in (0, 2000, 4000):
        source.add(table(begin, 2000))
    sink = Sink()
    query = run(shed_ticks(source.read(TICKS), store, home, node="rig"), home, sink)
    kept = sum(len(sink.ids(n)) for n in range(3))
    drain(spark)
    totals = Control(home / "control", query, "ticks").totals()
    assert totals.through == 2
    assert totals.counters["offered"] == ROWS
    assert totals.counters["kept"] == kept
    assert not list((home / "control" / query / "ticks" / "counters").iterdir())
    (status,) = store.nodes("ticks")
    assert (status.node, status.version, status.load, status.state) == ("rig", 1, 0.5, "stopped")
    assert status.counters["kept"] == kept


def drain(spark: Any) -> None:
    """Wait until listeners have heard all that has happened."""
    bus = spark.sparkContext._jsc.sc().listenerBus()
    bus.waitUntilEmpty(60_000)


def test_load_follows_the_rate_of_arrival(
    spark: Any, store: Store, publish: Publish, source: Source, home: Path
) -> None:
    """With a capacity far below any rate, the second micro-batch is shed to the floor."""
    publish()
    sink = Sink()

    def wait(kept: Any, batch: int) -> None:
        drain(spark)  # of what the micro-batch before it led to
        sink(kept, batch)

    for begin in (0, 2000, 4000):
        source.add(table(begin, 2000))
    rows = shed_ticks(source.read(TICKS), store, home, load=None, capacity_per_s=0.001)
    query = run(rows, home, wait)
    control = Control(home / "control", query, "ticks")
    loads = [control.terms(n).load for n in range(3)]  # type: ignore[union-attr]
    assert loads[0] == 1.0
    assert loads[2] == 0.01
    assert sink.ids(2) == expected(store, table(4000, 2000), 0.01)


@pytest.mark.parametrize("load", [1.0, 0.4])
def test_the_law_converges_to_what_can_be_processed(load: float) -> None:
    """A rig that needs 0.3 ms per row that passes, and gets 10,000 rows per second."""
    law = Law(batch_s=0.5)
    every_s = 1.0
    for _ in range(20):
        took_s = 0.05 + 0.0003 * 10_000 * every_s * load
        load = law.next(load, 10_000, every_s, took_s)
        every_s = max(1.0, took_s)
    assert 0.05 + 3.0 * load <= 1.0
    assert load > 0.25


def test_the_law_opens_again() -> None:
    law = Law()
    assert law.next(0.01, 10.0, 0.2, 0.2) < 1.0
    load = 0.01
    for _ in range(5):
        load = law.next(load, 10.0, 0.2, 0.2)
    assert load == 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": "user"}, "key must name columns"),
        ({"key": []}, "key must name columns"),
        ({"load": 1.5}, "load must lie"),
        ({"load": 0.5, "capacity_per_s": 3.0}, "give one of"),
        ({"capacity_per_s": -3.0, "load": None}, "capacity_per_s must be"),
        ({"weight_column": "price"}, "columns to add must be new"),
        ({"family": "lira"}, "order_by must name"),
        ({"family": "lira", "weight_column": "w"}, "depends on the rows before"),
        ({"family": "joins"}, "mask_column must be given"),
        ({"mask_column": "mask"}, "mask_column must be given"),
        ({"control": None}, "control must be a folder"),
    ],
)
def test_mistakes_are_found_before_anything_runs(
    changes: dict[str, Any], words: str, store: Store, publish: Publish, source: Source, home: Path
) -> None:
    publish()
    with pytest.raises(InvalidInput, match=words):
        shed_ticks(source.read(TICKS), store, home, **changes)


def own_spark(mode: str, home: Path) -> str:
    """Run the rig's query in a process of its own; return its id."""
    call = [sys.executable, str(Path(__file__).with_name("streaming_rig.py")), mode, str(home)]
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_SUBMIT_ARGS"}
    root = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    done = subprocess.run(call, capture_output=True, text=True, env=environment, timeout=300)
    found = re.search(r"^query (\S+)$", done.stdout, re.MULTILINE)
    assert found, done.stderr[-4000:]
    return found[1]


def kept_and_landed(home: Path) -> tuple[pa.Table, pa.Table]:
    kept = pq.read_table([p for p in (home / "out").iterdir() if p.suffix == ".parquet"])
    return kept.sort_by("id"), pq.read_table(home / "landing").sort_by("id")


@pytest.mark.slow
def test_killed_workers_and_spark_connect_change_nothing(
    store: Store, publish: Publish, source: Source, home: Path, tmp_path_factory: Any
) -> None:
    """The same query, once with dying workers and once through Spark Connect, is equal."""
    publish()
    source.add(table(0, 3000))
    source.add(table(3000, 3000))
    other = tmp_path_factory.mktemp("connect")
    shutil.copytree(home, other, dirs_exist_ok=True)
    query = own_spark("killed", home)
    assert {path.name for path in home.glob("died-*")} == {"died-0", "died-1"}
    kept, landed = kept_and_landed(home)
    marked = set(landed["id"].to_pylist())
    assert len(marked) == len(landed)
    # Marks are charged to the load: the plan is followed at what they leave.
    planned = expected(store, table(), (0.5 - 0.05) / (1 - 0.05))
    assert kept["id"].to_pylist() == sorted(marked | set(planned))
    assert not set(kept["id"].to_pylist()) - marked - set(planned)
    totals = Control(home / "control", query, "ticks").counted(1)
    assert totals.counters["offered"] == ROWS
    assert totals.counters["kept"] == len(kept)

    connected = own_spark("connect", other)
    assert kept_and_landed(other) == (kept, landed)
    assert Control(other / "control", connected, "ticks").counted(1) == totals
    (status,) = Store(other / "plans", store.trusted).nodes("ticks")
    assert (status.node, status.version) == ("rig", 1)
