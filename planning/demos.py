"""What the families' demo streams share: batches as files."""

from __future__ import annotations

from collections.abc import Mapping
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
