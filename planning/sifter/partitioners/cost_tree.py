"""A partitioning that is good on every workload: a cost-sensitive tree, overgrown and pruned.

For a multiplier lambda of the budget, the optimum of Equation 10 is a sum over regions: a region
with queries earns Delta * max(0, lambda * f - A), one without earns lambda * f times a share
between Delta and 1. So choosing regions means growing a tree that maximises this sum:

1. overgrow a k-d tree, best split first, by the value averaged over a band of lambda, each scaled
   so that none drowns the others; cuts lie between neighbouring sample points and at the edges of
   the queries' bounding box, because regions without queries are free to drop and exempt from
   fairness;
2. prune it to l leaves by dynamic programming over the multipliers of a few loads and of the
   operating point, which are read off the exact path of the pruned tree, and repeat.

The query measure is exact, the data measure sampled: a query with many sample points gives its mass
to them, any other to its center. The paper left a partitioner for all workloads as future work.
"""

from __future__ import annotations

import numpy as np

from planning.sifter.model import LEAF, Partition
from planning.sifter.parameters import Parameters
from planning.sifter.partitioners import cost_growth as growth
from planning.sifter.partitioners import cost_pruning as pruning
from planning.sifter.partitioners.sample import Sample
from planning.sifter.partitioners.trees import partition_of
from planning.sifter.queries.matching import spread

LEAST, MOST = 0.04, 6.0
"""Growing looks at multipliers between these, in units of the stream's mean QoS per tuple."""
OVERGROWTH = 4
SMALLEST = 3  # sample points on either side of a cut between points
LOADS = (0.1, 0.3, 0.5, 0.7)
"""Pruning serves these throttle fractions and the operating point: one partition for all z."""
ROUNDS = 3
LEAST_MULTIPLIER = 0.01


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Overgrow, then prune to l regions."""
    delta = parameters.fairness_threshold
    mass, center_mass = spread(sample.points, sample.queries)
    total = float(mass.sum() + center_mass.sum())
    if total <= 0.0 or not len(sample.points):
        return Partition.from_nested(None)
    # Below the mean ratio the group item is untouched and a region without queries counts in full,
    # above it the group is full and such a region counts Delta.
    free = np.log(1.0 / LEAST) + delta * np.log(MOST)
    most = min(
        parameters.regions * OVERGROWTH, len(sample.points) + 4 * len(sample.queries.low) + 1
    )
    masses = growth.Masses(
        np.ascontiguousarray(sample.points), mass, sample.query_centers, center_mass,
        sample.queries.low, sample.queries.high, sample.discrete,
    )  # fmt: skip
    prices = growth.Prices(LEAST * total, MOST * total, float(free), delta, SMALLEST)
    nodes = growth.empty_nodes(2 * most - 1, sample.low.size)
    orders = (p.T.argsort(kind="stable") for p in (sample.points, sample.query_centers))
    used = growth.grow(masses, prices, nodes, sample.low, sample.high, *orders)
    axis, cut, left, f, a, free = (column[:used] for column in nodes[:6])
    budgets = 1.0 - np.array([*LOADS, parameters.throttle_fraction])
    chosen = axis == LEAF
    for _ in range(ROUNDS):
        # What every node would earn as a leaf, at the multipliers of the chosen leaves.
        multiplier, share = pruning.multipliers(f, a, free, chosen, budgets, delta)
        multiplier = np.maximum(multiplier, LEAST_MULTIPLIER * total)
        value = np.zeros(used)
        for lam, weight in zip(multiplier, share, strict=True):
            value += np.where(free, weight * lam * f, delta * np.maximum(0.0, lam * f - a))
        chosen = pruning.prune(axis, left, value, parameters.regions)
    return partition_of(np.where(chosen, LEAF, axis), cut, left)
