"""Shedding inside Spark: what it costs beside an identity, and how good it is beside one process.

Spark runs on two local cores. Rows are drawn with replacement from the demo stream ``ticks``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rows import Row, best_of, measure, row
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import STREAMS, demo_plan, demo_samples
from planning.runtime import PlanClient, RunningShedder

ROWS = 10_000_000
FILES = 10
LOAD = 0.5
LEAST_THROUGHPUT = 0.8
MOST_LOST = 0.01
SCHEMA = "id long, pick int, price double, volume double"


def run(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder), ROWS // 10 if quick else ROWS)
        parts = [rig.kernel, rig.batch_throughput, rig.stream_throughput, rig.versions, rig.quality]
        rows = measure(parts, quick)
        rig.spark.stop()
    return rows


@cache
def spark() -> Any:
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from spark_apps.session import session

    return session("benchmark")


class Rig:
    """A store with a plan, and a folder of rows."""

    def __init__(self, home: Path, rows: int) -> None:
        self.home, self.rows, self.spark = home, rows, spark()
        self.signer = SigningKey.load_or_create(home / "keys")
        self.store = Store(home / "plans", TrustedKeys.load(home / "keys"))
        self.publish()
        (home / "source").mkdir()
        rng = np.random.default_rng(18)
        ticks = demo_samples("sifter", batch=1)
        for number in range(FILES):
            pick = rng.integers(0, len(ticks["price"]), rows // FILES)
            first = number * len(pick)
            table = pa.table(
                {
                    "id": np.arange(first, first + len(pick)),
                    "pick": pick.astype(np.int32),
                    "price": ticks["price"][pick],
                    "volume": ticks["volume"][pick],
                }
            )
            pq.write_table(table, home / "source" / f"{number}.parquet")
        self.runs = 0

    def publish(self) -> None:
        """Publish the demo plan as the next version."""
        self.store.publish(
            "ticks", demo_plan("sifter"), family="sifter", signer=self.signer,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip

    def shed(self, rows: Any, load: float, **more: Any) -> Any:
        """Return the rows that are kept."""
        from spark_apps.streaming import shed

        return shed(rows, stream="ticks", store=self.store, key="id", load=load, **more)

    def identity(self, rows: Any) -> Any:
        """Return all rows, having passed them through Python."""
        from spark_apps.session import map_in_arrow

        return map_in_arrow(rows, lambda batches: batches, rows.schema)

    def batch_throughput(self, quick: bool) -> list[Row]:
        """Compare batch jobs."""
        rows = self.spark.read.schema(SCHEMA).parquet(str(self.home / "source"))

        def written(change: Callable[[Any], Any]) -> None:
            change(rows).write.format("noop").mode("overwrite").save()

        return self._compared("batch", written, quick)

    def stream_throughput(self, quick: bool) -> list[Row]:
        """Compare queries."""

        def written(change: Callable[[Any], Any]) -> None:
            stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
            self.runs += 1
            query = (
                change(stream.parquet(str(self.home / "source")))
                .writeStream.format("noop")
                .option("checkpointLocation", str(self.home / f"checkpoint-{self.runs}"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        return self._compared("micro-batches", written, quick, control=self.home / "control")

    def _compared(
        self, what: str, work: Callable[[Callable[[Any], Any]], None], quick: bool, **more: Any
    ) -> list[Row]:
        """Run each in turn, several times, and compare those of one turn."""
        ways = {
            "identity": self.identity,
            f"load {LOAD:g}": lambda rows: self.shed(rows, LOAD, **more),
            "load 1": lambda rows: self.shed(rows, 1.0, **more),
            f"load {LOAD:g} with weights": lambda rows: self.shed(
                rows, LOAD, weight_column="w", version_column="v", **more
            ),
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        names = list(ways)
        for turn in range(1 + (4 if quick else 8)):
            # Each comes first, second … equally often: what else the machine does hits all alike.
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                wall, cpu = time.perf_counter(), cpu_seconds()
                work(ways[name])
                taken[name].append((time.perf_counter() - wall, cpu_seconds() - cpu))
        # Without the first turn, in which workers start and code is compiled.
        times = {name: np.array(each[1:]) for name, each in taken.items()}
        base = times.pop("identity")
        return [_throughput(f"{what}, {self.rows:,} rows, {n}", base, t) for n, t in times.items()]

    def kernel(self, quick: bool) -> list[Row]:
        """Time what a worker does to rows that are already there, in this process."""
        from planning.runtime.preparing import prepare
        from spark_apps.streaming.control import Terms
        from spark_apps.streaming.worker import Columns, Settings, Task, with_columns

        batch = pq.read_table(self.home / "source" / "0.parquet").to_batches(100_000)[0]
        settings = Settings("", None, "ticks", "sifter", ("id",), None, None, None, None, 0.0, {},
                            None)  # fmt: skip
        prepared = prepare(demo_plan("sifter"), "sifter")
        rows = []
        for load, added in ((LOAD, ()), (1.0, ()), (LOAD, ("w", "v"))):
            task = Task(settings, Terms(version=1, load=load), prepared, 0)
            columns = Columns(*(added or (None, None)), None)
            names = [*batch.schema.names, *added]

            def shed_once(
                task: Task = task, columns: Columns = columns, names: list[str] = names
            ) -> None:
                keep, weight = task.decide(batch, columns.weight is not None)
                with_columns(batch, keep, weight, 1, columns, names)

            ns = 1e9 * best_of(10 if quick else 30, shed_once).cpu / batch.num_rows
            what = f"load {load:g}{' with weights' if added else ''}"
            rows.append(row(f"what shedding adds in a worker, {what}", "reported",
                            f"{ns:.0f} ns of CPU per row", None))  # fmt: skip
        return rows

    def versions(self, quick: bool) -> Row:
        """Publish in every micro-batch; count those until the version is in force."""
        seen: dict[int, set[int]] = {}

        def note(rows: Any, batch: int) -> None:
            seen[batch] = {found[0] for found in rows.select("v").distinct().collect()}
            self.publish()

        newest = self.store.newest("ticks")
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        kept = self.shed(stream.parquet(str(self.home / "source")), LOAD, version_column="v",
                         control=self.home / "control")  # fmt: skip
        kept.writeStream.foreachBatch(note).option(
            "checkpointLocation", str(self.home / "versions")
        ).trigger(availableNow=True).start().awaitTermination()
        behind = max(newest + batch - min(found) for batch, found in seen.items())
        mixed = max(map(len, seen.values()))
        return row(
            f"micro-batches until a published version is in force, {len(seen)} versions",
            "the next, alone",
            f"{1 + behind}, at most {mixed} version(s) in one",
            behind == 0 and mixed == 1,
        )

    def quality(self, quick: bool) -> list[Row]:
        """Compare with the shedder of one process, which counts instead of hashing."""
        source = self.home / "source"
        rows = self.spark.read.schema(SCHEMA).parquet(str(source))
        counted = self.shed(rows, LOAD).groupBy("pick").count().toArrow()
        points = len(demo_samples("sifter", batch=1)["price"])
        spread = np.zeros(points)
        spread[counted["pick"].to_numpy()] = counted["count"].to_numpy()
        client = PlanClient(self.store, "ticks", node="alone", memory=False)
        client.poll()
        shedder = RunningShedder(client, load=LOAD)
        alone, every = np.zeros(points), np.zeros(points)
        for number in range(FILES):
            for batch in pq.read_table(source / f"{number}.parquet").to_batches(100_000):
                pick = batch.column("pick").to_numpy()
                every += np.bincount(pick, minlength=points)
                alone += np.bincount(pick[shedder.offer(batch)], minlength=points)
        here, there = quality_of(spread, every), quality_of(alone, every)
        return [
            row(
                f"quality of {self.rows:,} rows at load {LOAD:g} against one process",
                f"within {MOST_LOST:.0%}",
                f"{here:.4f} against {there:.4f} ({abs(here / there - 1):.2%})",
                bool(abs(here / there - 1) <= MOST_LOST),
            ),
            row(
                "share of them that passes",
                "reported",
                f"{spread.sum() / every.sum():.4f} against {alone.sum() / every.sum():.4f}",
                None,
            ),
        ]


def _throughput(what: str, base: Any, taken: Any) -> Row:
    """Judge by the median over the turns, by the clock; the spread says what that is worth."""
    low, middle, high = np.quantile(base[:, 0] / taken[:, 0], (0.25, 0.5, 0.75))
    per_cpu = float(np.median(base[:, 1] / taken[:, 1]))
    return row(
        f"throughput against an identity mapInArrow, {what}",
        f">= {LEAST_THROUGHPUT:.0%}",
        f"{middle:.0%} (middle half of the turns {low:.0%} to {high:.0%}); "
        f"{per_cpu:.0%} per CPU second",
        bool(middle >= LEAST_THROUGHPUT),
    )


def cpu_seconds() -> float:
    """Return the CPU time of this process, the JVM and all Python workers, past ones included."""
    own = psutil.Process()
    return sum(sum(p.cpu_times()[:4]) for p in (own, *own.children(recursive=True)))


def quality_of(kept: Any, every: Any) -> float:
    """Return how good the answers of the stream's queries are, from what each point was kept."""
    ticks = demo_samples("sifter", batch=1)
    good = total = 0.0
    for line in (STREAMS / "ticks.queries.jsonl").read_text().splitlines():
        query = json.loads(line)
        inside = np.ones(len(every), dtype=np.bool_)
        for name, (low, high) in query["ranges"].items():
            inside &= (ticks[name] >= low) & (ticks[name] <= high)
        matches = every[inside].sum()
        if matches:
            complete = kept[inside].sum() / matches
            good += query["weight"] * (1.0 - query.get("qos_slope", 1.0) * (1.0 - complete))
            total += query["weight"]
    return good / total
