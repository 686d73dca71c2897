"""Uniform grid: regions of equal volume (Section V)."""

from __future__ import annotations

import numpy as np

from planning.sifter.parameters import Parameters
from planning.sifter.partition import Nested, Partition
from planning.sifter.partitioners.sample import Sample
from planning.sifter.partitioners.slabs import comb, slabs_per_axis


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Divide every axis into u equal slabs, l = u**n."""
    u = slabs_per_axis(parameters.regions, sample.dimensions)
    root: Nested = None
    for axis in reversed(range(sample.dimensions)):
        edges = np.linspace(sample.low[axis], sample.high[axis], u + 1)[1:-1]
        if sample.discrete[axis]:
            edges = np.unique(np.round(edges))
            edges = edges[(edges > sample.low[axis]) & (edges < sample.high[axis])]
        root = comb(axis, edges.tolist(), [root] * (len(edges) + 1))
    return Partition.from_nested(root)
