"""What the families' demo streams share: batches and queries as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from upath import UPath


def land_batch(folder: UPath, batch: int, columns: Mapping[str, Any]) -> UPath:
    """Write columns as one Parquet file in a landing folder; it appears there whole.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     land_batch(UPath(folder), 7, {"price": [12.5, 80.0]}).name
    'batch-00007.parquet'
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"batch-{batch:05d}.parquet"
    part = folder / f".batch-{batch:05d}.part"
    with part.open("wb") as stream:
        parquet.write_table(pa.table(dict(columns)), stream)
    part.rename(target)
    return UPath(target)


def write_queries(path: Path | UPath | str, queries: Iterable[Mapping[str, Any]]) -> None:
    """Write queries as JSON lines.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = UPath(folder) / "ticks.queries.jsonl"
    ...     write_queries(path, [{"name": "cheap", "ranges": {"price": [0, 30]}}])
    ...     path.read_text().splitlines()
    ['{"name": "cheap", "ranges": {"price": [0, 30]}}']
    """
    target = UPath(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(f"{json.dumps(query)}\n" for query in queries), encoding="utf-8")
