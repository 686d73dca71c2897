"""The conformance kit: what a consumer in any language must answer, made by the code of nodes.

One file per family, ``keys.json`` and ``manifests.json``, and ``kit.json`` that names them with
their digests. docs/artifacts.md describes the files. Everything follows from fixed seeds, so one
release writes the same kit everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from consumers.kit import attributes, fit, keys, lira, manifests, sifter
from planning.artifacts.codec import FORMAT_VERSION

VERSION = 1
"""Of the kit's own form; the vectors are of plans of ``FORMAT_VERSION``."""
FILES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "keys": keys.vectors,
    "manifests": manifests.vectors,
    "sifter": sifter.vectors,
    "lira": lira.vectors,
    "attributes": attributes.vectors,
    "fit": fit.vectors,
}


def write(folder: Path) -> dict[str, Any]:
    """Write the kit to a folder; return the content of ``kit.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, vectors in FILES.items():
        content = {"kit": VERSION, "headgate": FORMAT_VERSION, **vectors()}
        data = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        (folder / f"{name}.json").write_bytes(data)
        decisions = sum(len(d) for c in content.get("cases", ()) for d in c["decisions"])
        files[f"{name}.json"] = {
            "digest": hashlib.sha256(data).hexdigest(),
            "decisions": decisions,
            "damaged": len(content.get("damaged", ())),
        }
    index = {"kit": VERSION, "headgate": FORMAT_VERSION, "files": files}
    (folder / "kit.json").write_text(json.dumps(index, indent=2), encoding="utf-8")
    return index
