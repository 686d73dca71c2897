"""A partitioning that is good on every workload: a cost-sensitive tree, overgrown and pruned.

For a multiplier lambda of the budget, the optimum of Equation 10 is a sum over regions: a region
with queries earns Delta * max(0, lambda * f - A), one without earns lambda * f times a share
between Delta and 1. So choosing regions means growing a tree that maximises this sum:

1. overgrow a k-d tree, best split first, by the value summed over a band of lambda, each scaled
   so that none drowns the others; cuts lie between neighbouring sample points and at the edges of
   the queries' bounding box, because regions without queries are free to drop and exempt from
   fairness;
2. prune it to l leaves by dynamic programming at the multipliers of the operating point and, with
   less weight, of a few other loads, which are read off the exact path of the pruned tree; repeat
   while the loss falls;
3. do both again with more multipliers near that of the operating point, then with these alone, and
   keep the partition that loses least: greedy growth errs by a few per cent one way or the other.

The query measure is exact, the data measure sampled: a query gives its mass to the sample points
that match it, one that none matches to its center. The paper left a partitioner for all workloads
as future work.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import FloatArray
from planning.sifter.model import LEAF, Partition
from planning.sifter.parameters import Parameters
from planning.sifter.partitioners import cost_growth as growth
from planning.sifter.partitioners import cost_pruning as pruning
from planning.sifter.partitioners.sample import Sample
from planning.sifter.partitioners.trees import partition_of
from planning.sifter.path import Path
from planning.sifter.queries.matching import spread

WIDE = np.geomspace(0.04, 6.0, 12)
"""Multipliers at which every tree is grown, in units of the stream's mean QoS per tuple."""
NEAR = np.geomspace(0.25, 4.0, 11)
"""Further ones, in units of the multiplier at the operating point."""
OVERGROWTH = 8
SMALLEST = 3  # sample points on either side of a cut between points
LOADS = (0.1, 0.3, 0.5, 0.7)
LOAD_WEIGHT = 0.1
"""Pruning serves these throttle fractions besides the operating point: one partition for all z."""
ROUNDS = 4
LEAST_MULTIPLIER = 0.01


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Overgrow and prune to l regions, three times; return the partition that loses least."""
    delta = parameters.fairness_threshold
    mass, center_mass = spread(sample.points, sample.queries)
    total = float(mass.sum() + center_mass.sum())
    if total <= 0.0 or not len(sample.points):
        return Partition.from_nested(None)
    masses = growth.Masses(
        np.ascontiguousarray(sample.points), mass, sample.query_centers, center_mass,
        sample.queries.low, sample.queries.high, sample.discrete,
    )  # fmt: skip
    needs = 1.0 - np.array([*LOADS, parameters.throttle_fraction])
    weights = np.array([*(LOAD_WEIGHT for _ in LOADS), 1.0])
    least, best, operating = np.inf, Partition.from_nested(None), 1.0
    for near, wide in ((NEAR[:0], WIDE), (NEAR, WIDE), (NEAR, WIDE[:0])):
        band = np.concatenate([wide, near * operating])
        axis, cut, left, f, a, free = _grown(sample, masses, band * total, parameters)
        chosen, last = axis == LEAF, np.inf
        for _ in range(ROUNDS):
            # What every node would earn as a leaf, at the multipliers of the chosen leaves.
            multiplier, share = pruning.multipliers(f, a, free, chosen, needs, delta)
            multiplier = np.maximum(multiplier, LEAST_MULTIPLIER * total)
            value = np.zeros(axis.size)
            for lam, part, weight in zip(multiplier, share, weights, strict=True):
                earned = np.where(free, part * f, delta * np.maximum(0.0, f - a / lam))
                value += weight * earned
            chosen = pruning.prune(axis, left, value, parameters.regions)
            loss = _loss(f[chosen], a[chosen], ~free[chosen], needs, weights, delta)
            if loss < least:
                least, best = loss, partition_of(np.where(chosen, LEAF, axis), cut, left)
                operating = float(multiplier[-1]) / total
            if loss >= last:
                break
            last = loss
    return best


def _grown(
    sample: Sample, masses: growth.Masses, band: FloatArray, parameters: Parameters
) -> tuple[np.ndarray, ...]:
    """Return axis, cut, left child, f, A and whether it is without queries, node by node."""
    delta = parameters.fairness_threshold
    mean = float(masses.mass.sum() + masses.center_mass.sum())
    # Below the mean ratio the group item is untouched and a region without queries counts in full,
    # above it the group is full and such a region counts Delta.
    free = float(np.where(band < mean, 1.0, delta).sum())
    prices = growth.Prices(np.sort(1.0 / band), free, delta, SMALLEST)
    points, boxes = len(sample.points), len(sample.queries.low)
    leaves = min(parameters.regions * OVERGROWTH, points + 4 * boxes + 1)
    nodes = growth.empty_nodes(2 * leaves - 1, sample.low.size)
    orders = (p.T.argsort(kind="stable") for p in (sample.points, sample.query_centers))
    used = growth.grow(masses, prices, nodes, sample.low, sample.high, *orders)
    return tuple(column[:used] for column in nodes[:6])


def _loss(
    f: FloatArray, a: FloatArray, queried: FloatArray, needs: FloatArray, weights: FloatArray,
    delta: float,
) -> float:  # fmt: skip
    """Return the loss over random dropping's, averaged over the loads."""
    path = Path.of(f, a, queried)
    lost = [float(np.dot(a, path.thresholds(1.0 - need, delta))) for need in needs]
    return float(np.dot(weights, np.divide(lost, needs, out=np.zeros(len(needs)), where=needs > 0)))
