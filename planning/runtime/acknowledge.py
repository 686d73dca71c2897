"""A node's acknowledgement of the version it has in force, written into the store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from planning.artifacts import Acknowledgement, Store
from planning.artifacts.acknowledgement import check_node
from planning.artifacts.manifest import to_time


def acknowledge(
    store: Store,
    stream: str,
    *,
    node: str,
    version: int,
    at_s: float,
    counters: Mapping[str, int | float | str],
) -> Acknowledgement:
    """Write ``<stream>/acks/<node>.json``, whole or not at all; ``at_s`` is in Unix seconds."""
    word = Acknowledgement(
        node=check_node(node),
        version=version,
        at=to_time(datetime.fromtimestamp(at_s, UTC)),
        counters=dict(counters),
    )
    store.acknowledge(stream, word)
    return word
