"""Cutting axis after axis into slabs: the shape of the grid and of the equi-depth partitionings.

With l = u**n regions, the first axis is cut into u slabs, each slab into u along the second axis,
and so on (Section V). If ``regions`` is not such a power, u is the largest that does not exceed it.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import BoolArray, FloatArray
from planning.sifter.model import Nested, Partition, cut_between
from planning.sifter.partitioners.sample import Sample


def uniform_grid(sample: Sample, regions: int) -> Partition:
    """Divide every axis into u equal slabs."""
    u = slabs_per_axis(regions, sample.low.size)
    root: Nested = None
    for axis in reversed(range(sample.low.size)):
        edges = np.linspace(sample.low[axis], sample.high[axis], u + 1)[1:-1]
        if sample.discrete[axis]:
            edges = np.unique(np.round(edges))
            edges = edges[(edges > sample.low[axis]) & (edges < sample.high[axis])]
        root = _comb(axis, edges.tolist(), [root] * (len(edges) + 1))
    return Partition.from_nested(root)


def equi_depth(sample: Sample, points: FloatArray, regions: int) -> Partition:
    """Cut the space, axis after axis, into u slabs that hold equally many ``points``."""
    u = slabs_per_axis(regions, sample.low.size)
    return Partition.from_nested(_equal_depth(points, u, sample.discrete))


def slabs_per_axis(regions: int, dimensions: int) -> int:
    """Return the largest u with u**n <= l.

    >>> slabs_per_axis(16, 2), slabs_per_axis(30, 2), slabs_per_axis(1000, 3)
    (4, 5, 10)
    """
    u = max(1, int(round(regions ** (1.0 / dimensions))))
    return u if pow(u, dimensions) <= regions else u - 1


def _comb(axis: int, cuts: list[float], children: list[Nested]) -> Nested:
    """Return a balanced tree over ``cuts`` on one axis, with the slabs' subtrees as leaves."""
    if not cuts:
        return children[0]
    middle = len(cuts) // 2
    return (
        axis,
        cuts[middle],
        _comb(axis, cuts[:middle], children[: middle + 1]),
        _comb(axis, cuts[middle + 1 :], children[middle + 1 :]),
    )


def _equal_depth_cuts(values: FloatArray, slabs: int, discrete: bool) -> list[float]:
    """Return at most slabs - 1 cuts that divide the values into equal numbers.

    Equal values stay together, so there are fewer cuts when there are fewer distinct values.
    """
    ordered = np.sort(values)
    cuts: list[float] = []
    for k in range(1, slabs):
        place = round(k * len(ordered) / slabs)
        if not 0 < place < len(ordered):
            continue
        above = ordered[place]
        start = int(np.searchsorted(ordered, above))
        if start == 0:
            continue
        cut = cut_between(float(ordered[start - 1]), float(above), discrete)
        if not cuts or cut > cuts[-1]:
            cuts.append(cut)
    return cuts


def _equal_depth(points: FloatArray, slabs: int, discrete: BoolArray, axis: int = 0) -> Nested:
    """Return the equi-depth tree of ``points`` from ``axis`` on."""
    if axis == points.shape[1]:
        return None
    cuts = _equal_depth_cuts(points[:, axis], slabs, bool(discrete[axis]))
    slab = np.searchsorted(np.asarray(cuts), points[:, axis], side="right")
    children = [
        _equal_depth(points[slab == s], slabs, discrete, axis + 1) for s in range(len(cuts) + 1)
    ]
    return _comb(axis, cuts, children)
