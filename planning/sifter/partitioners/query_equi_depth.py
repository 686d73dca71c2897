"""Query equi-depth: regions with equally many query centers (Section V)."""

from __future__ import annotations

from planning.sifter.parameters import Parameters
from planning.sifter.partition import Partition
from planning.sifter.partitioners.sample import Sample
from planning.sifter.partitioners.slabs import equal_depth, slabs_per_axis


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Cut the query centers axis after axis into u equally filled slabs, l = u**n."""
    u = slabs_per_axis(parameters.regions, sample.dimensions)
    return Partition.from_nested(equal_depth(sample.query_centers, u, sample.discrete))
