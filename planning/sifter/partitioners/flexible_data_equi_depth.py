"""Approximate data equi-depth for any l: halve the fullest region (Section V-A)."""

from __future__ import annotations

from planning.sifter.parameters import Parameters
from planning.sifter.partition import Partition
from planning.sifter.partitioners.best_first import COUNT, grow
from planning.sifter.partitioners.sample import Sample


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Divide the fullest region at the median of its most varied axis until there are l."""
    return grow(sample, sample.points, None, parameters.regions, COUNT)
