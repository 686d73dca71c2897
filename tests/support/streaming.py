"""Queries over files, one per micro-batch, and what their micro-batches contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_definition, demo_plan


def new_store(home: Path) -> Store:
    """Return a store that other processes can reach."""
    SigningKey.load_or_create(home / "keys")
    return Store(home / "plans", TrustedKeys.load(home / "keys"))


def publish_demo(store: Store, home: Path, family: str = "sifter") -> int:
    """Publish a family's demo plan as the next version of its demo stream."""
    made = store.publish(
        demo_definition(family).stream,
        demo_plan(family),
        family=family,
        signer=SigningKey.load_or_create(home / "keys"),
        created_at="2026-01-02T03:04:05Z",
    )
    return made.version


class Source:
    """A folder of files that a query reads, one file per micro-batch."""

    def __init__(self, spark: Any, home: Path) -> None:
        self.spark, self.folder = spark, home / "source"
        self.folder.mkdir()
        self.files = 0

    def add(self, rows: pa.Table) -> None:
        """Add a file, whole at once."""
        part = self.folder / f".{self.files}.part"
        pq.write_table(rows, part)
        part.rename(self.folder / f"{self.files:04}.parquet")
        self.files += 1

    def read(self, schema: str) -> Any:
        """Return the folder as a stream."""
        read = self.spark.readStream.schema(schema)
        return read.option("maxFilesPerTrigger", 1).parquet(str(self.folder))


class Sink:
    """Collects what micro-batches contain, by their number."""

    def __init__(self) -> None:
        self.batches: dict[int, list[list[Any]]] = {}

    def __call__(self, rows: Any, batch: int) -> None:
        found = sorted(tuple(row) for row in rows.collect())
        self.batches.setdefault(batch, []).append(found)

    def ids(self, batch: int) -> list[int]:
        return [row[0] for row in self.batches[batch][-1]]


def run(rows: Any, home: Path, sink: Any, checkpoint: str = "checkpoint") -> str:
    """Run a query over all that there is; return its id."""
    query = (
        rows.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(home / checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return str(query.id)
