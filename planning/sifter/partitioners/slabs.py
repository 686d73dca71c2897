"""Cutting axis after axis into slabs: the shape of the grid and of the equi-depth partitionings.

With l = u**n regions, the first axis is cut into u slabs, each slab into u along the second axis,
and so on (Section V). When ``regions`` is no such power, u is the largest that does not exceed it.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import BoolArray, FloatArray
from planning.sifter.partition import Nested, cut_between


def slabs_per_axis(regions: int, dimensions: int) -> int:
    """Return the largest u with u**n <= l.

    >>> slabs_per_axis(16, 2), slabs_per_axis(30, 2), slabs_per_axis(1000, 3)
    (4, 5, 10)
    """
    u = max(1, int(round(regions ** (1.0 / dimensions))))
    return u if pow(u, dimensions) <= regions else u - 1


def comb(axis: int, cuts: list[float], children: list[Nested]) -> Nested:
    """Return a balanced tree over ``cuts`` on one axis, with the slabs' subtrees as leaves."""
    if not cuts:
        return children[0]
    middle = len(cuts) // 2
    return (
        axis,
        cuts[middle],
        comb(axis, cuts[:middle], children[: middle + 1]),
        comb(axis, cuts[middle + 1 :], children[middle + 1 :]),
    )


def equal_depth_cuts(values: FloatArray, slabs: int, discrete: bool) -> list[float]:
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


def equal_depth(points: FloatArray, slabs: int, discrete: BoolArray, axis: int = 0) -> Nested:
    """Return the equi-depth tree of ``points`` from ``axis`` on."""
    if axis == points.shape[1]:
        return None
    cuts = equal_depth_cuts(points[:, axis], slabs, bool(discrete[axis]))
    slab = np.searchsorted(np.asarray(cuts), points[:, axis], side="right")
    children = [
        equal_depth(points[slab == s], slabs, discrete, axis + 1) for s in range(len(cuts) + 1)
    ]
    return comb(axis, cuts, children)
