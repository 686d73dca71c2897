"""Queries as people write them: in a definition, or in a file that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from upath import UPath

from planning.errors import InvalidInput
from planning.home import Home
from planning.streams import StreamDefinition

FIELDS = frozenset({"name", "ranges", "where", "weight", "qos_slope"})
"""What a written query may hold."""


def written_queries(definition: StreamDefinition) -> list[dict[str, Any]]:
    """Return the queries of a definition, inline ones first, then those of its file.

    >>> from planning.examples import demo_definition
    >>> written_queries(demo_definition("lira"))[0]["name"]
    'watch-1'
    """
    entries = [query.model_dump(include=set(FIELDS)) for query in definition.queries.inline]
    if definition.queries.file is not None:
        entries += read(locate(definition.queries.file, definition.source))
    return entries


def locate(file: str, source: str = "") -> UPath:
    """Return where a queries file lies: beside its definition if there, else below the home."""
    beside = Path(source).parent / file if source else None
    if beside is not None and beside.is_file():
        return UPath(beside)
    return Home.from_environment().resolve(file)


def read(path: UPath) -> list[dict[str, Any]]:
    """Read a file of queries: JSON lines, or Parquet with ``<attribute>_low`` / ``_high``."""
    try:
        if path.suffix == ".parquet":
            return _read_parquet(path)
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidInput(
            f"queries.file must be readable, got {path} ({error.strerror or error}); "
            "give a path beside the definition, below the home, or a URL"
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"queries.file must be UTF-8, got {path} ({error})") from None
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"{path}:{number} must be one JSON object, got {error}") from None
        if not isinstance(entry, dict):
            raise InvalidInput(f"{path}:{number} must be one JSON object, got {line[:60]!r}")
        entries.append(entry)
    return entries


def _read_parquet(path: UPath) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with path.open("rb") as stream:
        try:
            rows = parquet.read_table(stream).to_pylist()
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"queries.file must be Parquet, got {path} ({error}); write it again, or as .jsonl"
            ) from None
    return [_entry(row) for row in rows]


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    ranges = {
        name.removesuffix("_low"): (row[name], row.get(name.removesuffix("_low") + "_high"))
        for name in row
        if name.endswith("_low") and row[name] is not None
    }
    kept = {k: row[k] for k in ("name", "where", "weight", "qos_slope") if row.get(k) is not None}
    return {**kept, "ranges": ranges}
