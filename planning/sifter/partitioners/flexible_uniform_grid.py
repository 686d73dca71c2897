"""Approximate uniform grid for any l: halve the largest region (Section V-A)."""

from __future__ import annotations

from planning.sifter.parameters import Parameters
from planning.sifter.partition import Partition
from planning.sifter.partitioners.best_first import VOLUME, grow
from planning.sifter.partitioners.sample import Sample


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Halve the largest region until there are l."""
    return grow(sample, sample.points, None, parameters.regions, VOLUME)
