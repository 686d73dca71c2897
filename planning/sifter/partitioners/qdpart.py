"""QDPart: regions alike both in position and in query hits (Section V-B)."""

from __future__ import annotations

from planning.sifter.parameters import Parameters
from planning.sifter.partition import Partition
from planning.sifter.partitioners.best_first import DIVERSITY, grow
from planning.sifter.partitioners.sample import Sample


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Split by diversity until there are l regions, or until all hits in every region are equal."""
    return grow(sample, sample.points, sample.hits, parameters.regions, DIVERSITY)
