"""Approximate query equi-depth for any l: halve the region with most query centers."""

from __future__ import annotations

from planning.sifter.parameters import Parameters
from planning.sifter.partition import Partition
from planning.sifter.partitioners.best_first import COUNT, grow
from planning.sifter.partitioners.sample import Sample


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Divide the region with most query centers at their median until there are l."""
    return grow(sample, sample.query_centers, None, parameters.regions, COUNT)
