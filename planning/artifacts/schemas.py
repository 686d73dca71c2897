"""The published JSON Schemas: ``python -m planning.artifacts.schemas docs/schemas``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from planning import families
from planning.artifacts import codec
from planning.artifacts.manifest import Manifest
from planning.artifacts.status import Status

EXAMPLES = re.compile(r"\s+Examples\n\s*-+\n.*", re.DOTALL)
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """Return every published schema by name: manifest, status, one per family's plan."""
    types: dict[str, Any] = {"manifest": Manifest, "status": Status}
    types |= {f"{name}-plan": codec.envelope_type(name) for name in families.NAMES}
    return {
        name: {"$schema": DIALECT, **_without_examples(msgspec.json.schema(t))}
        for name, t in types.items()
    }


def text(schema: dict[str, Any]) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def write(folder: Path) -> list[Path]:
    """Write every schema to ``<folder>/<name>.schema.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in schemas().items():
        path = folder / f"{name}.schema.json"
        path.write_text(text(schema), encoding="utf-8")
        written.append(path)
    return written


def _without_examples(schema: Any) -> Any:
    """Leave the Python examples out of descriptions, which msgspec takes from docstrings."""
    if isinstance(schema, dict):
        return {key: _without_examples(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_without_examples(value) for value in schema]
    return EXAMPLES.sub("", schema) if isinstance(schema, str) else schema


if __name__ == "__main__":
    for path in write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schemas")):
        print(path)
