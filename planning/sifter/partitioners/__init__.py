"""Partitioners: each is one module with ``partition(sample, parameters) -> Partition``.

``get(name)`` imports the module of that name; a new partitioner is one new file here, and its name
in :class:`~planning.sifter.parameters.Parameters`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from planning.sifter.partition import Partition
from planning.sifter.partitioners.sample import Sample

Partitioner = Callable[[Sample, Any], Partition]


def get(name: str) -> Partitioner:
    """Return the partitioner called ``name``."""
    partitioner: Partitioner = importlib.import_module(f"{__name__}.{name}").partition
    return partitioner
