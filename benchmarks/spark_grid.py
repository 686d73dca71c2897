"""Grid statistics on Spark: built-in expressions against a NumPy kernel in ``mapInArrow``.

``python -m benchmarks.spark_grid [rows]`` prints CPU seconds of the whole process tree (driver, JVM
and Python workers), the best of several repetitions, which a busy machine disturbs less than wall
time. See docs/decisions/0005-grid-statistics-with-built-ins.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from planning.lira.statistics import cell_ids, cell_sums
from spark_apps.session import session
from spark_apps.statistics_grid import grid_statistics

CELLS = 128
SIDE_M = 10_000.0
BOUNDS = (0.0, 0.0, SIDE_M, SIDE_M)
FILES = 4
REPETITIONS = 5


def with_kernel(positions: DataFrame) -> DataFrame:
    """Count in NumPy, one dense array per partition, then add up."""

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nodes = np.zeros(CELLS * CELLS, dtype=np.int64)
        speeds = np.zeros(CELLS * CELLS, dtype=np.int64)
        for batch in batches:
            x, y, speed = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
            some_nodes, some_speeds = cell_sums(cell_ids(x, y, CELLS, BOUNDS), speed, CELLS)
            nodes += some_nodes
            speeds += some_speeds
        filled = np.flatnonzero(nodes)
        arrays = [pa.array(a) for a in (filled, nodes[filled], speeds[filled])]
        yield pa.RecordBatch.from_arrays(arrays, names=["cell", "nodes", "speed_micro"])

    counted = positions.mapInArrow(kernel, "cell long, nodes long, speed_micro long")
    sums = (F.sum(name).alias(name) for name in ("nodes", "speed_micro"))
    return counted.groupBy("cell").agg(*sums).select("cell", "nodes", "speed_micro")


def with_built_ins(positions: DataFrame) -> DataFrame:
    return grid_statistics(positions, CELLS, BOUNDS).select("cell", "nodes", "speed_micro")


def cpu_seconds() -> float:
    own = psutil.Process()
    times = [p.cpu_times() for p in (own, *own.children(recursive=True))]
    return sum(t.user + t.system for t in times)


def best(work: Callable[[DataFrame], DataFrame], positions: DataFrame) -> tuple[float, pa.Table]:
    spent = []
    for _ in range(REPETITIONS):
        start = cpu_seconds()
        table = work(positions).toArrow()
        spent.append(cpu_seconds() - start)
    return min(spent), table.sort_by("cell")


def write_positions(folder: Path, rows: int) -> None:
    for number in range(FILES):
        rng = np.random.default_rng(number)
        x, y = rng.random((2, rows // FILES)) * SIDE_M
        table = pa.table({"x": x, "y": y, "speed": rng.gamma(2, 6, rows // FILES)})
        pq.write_table(table, folder / f"{number}.parquet")


def main(rows: int) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")
    with tempfile.TemporaryDirectory() as folder:
        write_positions(Path(folder), rows)
        positions = session("benchmark").read.parquet(folder)
        built_ins, expected = best(with_built_ins, positions)
        kernel, found = best(with_kernel, positions)
    assert found.to_pydict() == expected.to_pydict()
    print(f"{rows} rows, {CELLS} x {CELLS} cells, best of {REPETITIONS}, CPU seconds:")
    print(f"  built-in expressions {built_ins:.2f}")
    print(f"  mapInArrow, NumPy    {kernel:.2f}  ({kernel / built_ins:.2f} times)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
