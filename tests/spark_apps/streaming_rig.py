"""Queries that need a Spark of their own: ``python streaming_rig.py killed|connect HOME``.

``killed``: the worker that sheds dies in the middle of a partition, once per micro-batch.
``connect``: the same query through Spark Connect.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MASTER = "local[2,4]"


def session(mode: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if mode == "connect":
        return builder.remote("local[2]").getOrCreate()
    builder = builder.master(MASTER).config("spark.ui.enabled", "false")
    return builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "500").getOrCreate()


def dying(folder: Path) -> Any:
    """Return ``map_in_arrow`` with kernels whose process dies after their first batch of rows."""
    from pyspark import TaskContext

    from spark_apps.session import map_in_arrow

    def wrapped(rows: Any, kernel: Any, schema: Any) -> Any:
        def die_once(batches: Iterator[Any]) -> Iterator[Any]:
            task = TaskContext.get()
            assert task is not None
            number = task.getLocalProperty("streaming.sql.batchId")
            for shed in kernel(batches):
                yield shed
                try:
                    (folder / f"died-{number}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os._exit(9)

        return map_in_arrow(rows, die_once, schema)

    return wrapped


def main(mode: str, home: Path) -> None:
    import spark_apps.streaming as streaming

    spark = session(mode)
    if mode == "killed":
        streaming.map_in_arrow = dying(home)
    rows = (
        spark.readStream.schema("id long, price double, volume double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(home / "source"))
    )
    kept = streaming.shed(
        rows, stream="ticks", store=home / "plans", trusted=home / "keys", key="id", load=0.5,
        control=home / "control", landing=home / "landing", sampling_fraction=0.05, node="rig",
        weight_column="hg_weight", version_column="hg_version",
    )  # fmt: skip
    query = (
        kept.writeStream.format("parquet")
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(home / "out"))
    )
    query.awaitTermination()
    for _ in range(300):  # what the listener hears may come a little later
        if list((home / "plans" / "ticks").glob("nodes/rig.json")):
            break
        time.sleep(0.1)
    print(f"query {query.id}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
