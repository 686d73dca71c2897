"""The golden files: ``python tests/planning/artifacts/golden.py`` rewrites them.

They guard the published formats. If a change makes them differ, plans in the field become
unreadable or their signatures fail: raise the format's version instead of rewriting them.
"""

import importlib.util
import json
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from planning import families
from planning.artifacts import SigningKey, Store, TrustedKeys, drafting

FOLDER = Path(__file__).parent / "golden"
SIGNER = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
DOCUMENTS = {
    "tally": {"label": "gölden", "cuts": [0.0, 0.125, 1e-300, 7.5]},
    "sifter": {
        "format": 1,
        "axes": [
            {"name": "x", "kind": "float", "low": 0.0, "high": 1.0, "values": []},
            {"name": "carrier", "kind": "category", "low": 0.0, "high": 3.0,
             "values": ["AA", "B6", "UA"]},
        ],
        "partition": {
            "dimension": [0, 1, -1, -1, -1], "cut": [0.5, 2.0], "orders": [[], [2, 0, 1]],
        },
        "frequency": [0.5, 0.25, 0.25],
        "region_qos": [0.25, 0.5, 0.0],
        "queried": [True, True, False],
        "base_qos": 0.125,
        "fairness_threshold": 0.5,
        "throttle_fraction": 0.5,
        "pinned_fraction": 0.125,
        "pins": {"low": [[0.25, 0.0]], "high": [[0.5, 1.0]]},
    },
}  # fmt: skip
# The other families' documents are the plans of their demo streams.
for _source in sorted((FOLDER / "documents").glob("*.json")):
    DOCUMENTS[_source.stem] = json.loads(_source.read_text(encoding="utf-8"))


SECOND = FOLDER / "second" / "manifest.json"
NEWS = {
    "certificate": {
        "status": "within 0.02", "scope": "optimal for these 3 cuts", "reason": "the time limit",
        "gap": 0.02, "violation": 1e-9, "loads": 2, "of": 3, "solver": "OR-Tools 9.15 GLOP",
        "seconds": 0.25,
        "checks": [
            {"load": 0.3, "objective": 0.5, "best": 0.5, "bound": 0.51, "violation": 0.0},
            {"load": {"i1": 2.0}, "objective": 0.5, "best": 0.5, "bound": 0.5, "violation": 1e-9},
            {"load": [0.25, 3.0], "objective": 1.0, "best": 1.0, "bound": 1.0, "violation": 0.0},
        ],
    },
    "guarantees": [
        {"name": "query alerts", "limit": "min_completeness", "value": 0.95, "priority": 1,
         "holds_from": 0.21, "predicted": [{"load": 0.3, "value": 0.97}]},
    ],
}  # fmt: skip
"""What schema version 2 has and version 1 does not."""


def files(family: str, **more) -> dict[str, bytes]:
    """Return the three golden files of a family: manifest, JSON and binary plan."""
    if family not in DOCUMENTS:
        raise SystemExit(f"no golden document of {family}: see CONTRIBUTING, Adding a family")
    plan = families.family(family).room("plan").Plan.from_document(DOCUMENTS[family])
    with tempfile.TemporaryDirectory() as folder:
        place = Store(folder, TrustedKeys.of(SIGNER))
        told = place.publish(
            "golden",
            plan,
            family=family,
            signer=SIGNER,
            created_at="2026-01-02T03:04:05.678Z",
            inputs={"statistics": "ab" * 32},
            parameters={"regions": 3, "ratio": 0.1, "label": "ä"},
            predicted=[(0.3, 0.5), (1.0, 1.0)],
            gate={"decision": "publish", "reason": "first plan", "outcomes": [{"load": 0.3}]},
            validity={"not_after": "2026-02-01T00:00:00Z", "fallback": "uniform"},
            solver_status="exact",
            run="golden",
            **({"schema_version": 1} | more),
        )
        return {
            "manifest.json": place.manifest_path("golden", 1).read_bytes(),
            "plan.json": place.payload(told, "json"),
            "plan.bin": place.payload(told, "binary"),
        }


def fix_provenance(patch) -> None:
    """Pin what changes with every commit."""
    patch.setattr(drafting, "code_digest", lambda family: "cd" * 32)
    patch.setattr(drafting.planning, "__version__", "0.1.0")


def main() -> None:
    import pytest

    path = Path(__file__).parent / "tally_family.py"
    spec = importlib.util.spec_from_file_location("tally_family", path)
    tally = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tally)
    with pytest.MonkeyPatch.context() as patch:
        tally.register(patch)
        fix_provenance(patch)
        for family in DOCUMENTS:
            (FOLDER / family).mkdir(parents=True, exist_ok=True)
            for name, data in files(family).items():
                (FOLDER / family / name).write_bytes(data)
                print(FOLDER / family / name, len(data))
        SECOND.parent.mkdir(exist_ok=True)
        SECOND.write_bytes(files("tally", schema_version=2, **NEWS)["manifest.json"])


if __name__ == "__main__":
    main()
