"""The demo stream's definition, as its owner would write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def requests_definition(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that gives the demo definition with some parameters changed."""
    from planning import families
    from planning.fit import demo
    from planning.streams import parse

    if "fit" not in families.NAMES:
        monkeypatch.setattr(families, "NAMES", (*families.NAMES, "fit"))
    network = demo.network()
    elements = [*network.input_ids, *(o.id for o in network.operators)]
    counts = ("period", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")

    def make(**parameters: Any) -> Any:
        return parse(
            {
                "stream": "requests",
                "family": "fit",
                "attributes": [
                    {"name": "element", "type": "category", "values": elements},
                    *({"name": n, "type": "int", "domain": [0, 1e12]} for n in counts),
                ],
                "samples": {"expectations": "operators"},
                "gate": {"holdout_by": ["period"]},
                "parameters": {"network": network.to_document(), **parameters},
            },
            "requests.yaml",
        )

    return make
