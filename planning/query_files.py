"""Queries as people write them: in a definition, or in a file that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from upath import UPath

from planning.definition_errors import problems_of
from planning.errors import Mistake
from planning.families import Definition
from planning.home import Home
from planning.sections import TERMS, Query, refuse_unplanned
from planning.streams import StreamDefinition

FIELDS = frozenset({"name", "ranges", "where", "weight", "qos_slope", *TERMS})
"""The fields that a written query may have."""


def written_queries(definition: Definition[Any]) -> list[dict[str, Any]]:
    """Return the queries of a definition, inline ones first, then those of its file.

    The file is looked up next to the definition; a planning run reads its own copy.

    >>> from planning.examples import demo_definition
    >>> written_queries(demo_definition("lira"))[0]["name"]
    'watch-1'
    """
    entries = [query.model_dump(exclude_defaults=True) for query in definition.queries.inline]
    if definition.queries.file is not None:
        for entry in read(locate(definition.queries.file, definition.source)):
            label = f"query {entry.get('name') or len(entries)}"
            entries.append(_checked(label, entry, definition))
        definition.queries.check_tenants(str(entry.get("tenant", "")) for entry in entries)
    return entries


def _checked(label: str, entry: dict[str, Any], definition: Definition[Any]) -> dict[str, Any]:
    """Return a query of the file with its terms typed; refuse those that cannot be planned for."""
    at = ("queries", "file")
    unknown = sorted(set(entry) - FIELDS)
    if unknown:
        raise Mistake(f"{label}: fields", ", ".join(sorted(FIELDS)), ", ".join(unknown), at=at)
    if not TERMS & entry.keys():
        return entry
    try:
        query = Query.model_validate(
            {name: entry[name] for name in entry if name in TERMS or name == "qos_slope"}
        )
    except ValidationError as error:
        first = problems_of(error, "", {}, Query)[0]
        field = label if first.field == "query" else f"{label}: {first.field}"
        raise Mistake(
            field, first.allowed, first.got, first.remedy, verb=first.verb, at=at
        ) from None
    terms = query.model_dump(exclude_defaults=True)
    refuse_unplanned(f"{label}: ", terms, definition, at)
    definition.parameters.check_terms(f"{label}: ", terms, at)
    return {name: entry[name] for name in entry if name not in TERMS} | terms


def locate(file: str, source: str, home: Home | None = None) -> UPath:
    """Return where a query file is: next to its definition if it exists there, else below a home.

    >>> locate("ticks.jsonl", "/streams/ticks.yaml").as_posix()
    '/streams/ticks.jsonl'
    >>> locate("ticks.jsonl", "/streams/ticks.yaml", Home.at("/srv/headgate")).as_posix()
    '/srv/headgate/ticks.jsonl'
    """
    beside = Home.at(Path(source).parent).resolve(file)
    return beside if home is None or beside.exists() else home.resolve(file)


def located(definition: StreamDefinition, home: Home) -> StreamDefinition:
    """Return the definition with the full path of its query file, if it has one."""
    file, source = definition.queries.file, definition.source
    return definition if file is None else with_file(definition, locate(file, source, home))


def with_file(definition: StreamDefinition, path: UPath) -> StreamDefinition:
    """Return the definition with its queries read from another file."""
    queries = definition.queries.model_copy(update={"file": str(path)})
    return definition.model_copy(update={"queries": queries})


def content(path: UPath) -> bytes:
    """Return the raw content of a query file."""
    try:
        return bytes(path.read_bytes())
    except OSError as error:
        raise _unfit(
            "readable", path, error.strerror or error,
            "give a path beside the definition, below the home, or a URL",
        ) from None  # fmt: skip


def read(path: UPath) -> list[dict[str, Any]]:
    """Read a query file: JSON lines, or Parquet with ``<attribute>_low`` / ``_high``."""
    data = content(path)
    if path.suffix == ".parquet":
        return _read_parquet(data, path)
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise _unfit("UTF-8", path, error) from None
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise Mistake(f"{path}:{number}", "one JSON object", str(error)) from None
        if not isinstance(entry, dict):
            raise Mistake(f"{path}:{number}", "one JSON object", repr(line[:60]))
        entries.append(entry)
    return entries


def _read_parquet(data: bytes, path: UPath) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        rows = parquet.read_table(pa.BufferReader(data)).to_pylist()
    except pa.ArrowInvalid as error:
        raise _unfit("Parquet", path, error, "write it again, or as .jsonl") from None
    return [_entry(row) for row in rows]


def _unfit(allowed: str, path: UPath, why: object, remedy: str = "") -> Mistake:
    return Mistake("queries.file", allowed, f"{path} ({why})", remedy, at=("queries", "file"))


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    ranges = {
        name.removesuffix("_low"): (row[name], row.get(name.removesuffix("_low") + "_high"))
        for name in row
        if name.endswith("_low") and row[name] is not None
    }
    kept = {k: row[k] for k in sorted(FIELDS - {"ranges"}) if row.get(k) is not None}
    return {**kept, "ranges": ranges}
