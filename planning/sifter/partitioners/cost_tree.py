"""A partitioning that is good on every workload: a cost-sensitive tree, overgrown and pruned.

For a multiplier lambda of the budget, the optimum of Equation 10 is a sum over regions: a region
with queries earns Delta * max(0, lambda * f - A), one without earns lambda * f times a share
between Delta and 1. So choosing regions means growing a tree that maximises this sum:

1. overgrow a k-d tree, best split first, by the value averaged over a band of lambda, each scaled
   so that none drowns the others; cuts lie between neighbouring sample points and at the edges of
   the queries' bounding box, because regions without queries are free to drop and exempt from
   fairness;
2. prune it to l leaves by dynamic programming at the multipliers of the operating point and, with
   less weight, of a few other loads, which are read off the exact path of the pruned tree; repeat
   while the loss falls;
3. do both again in two bands around the multiplier of the operating point, and keep the partition
   that loses least.

The query measure is exact, the data measure sampled: a query gives its mass to the sample points
that match it, one that none matches to its center. The paper left a partitioner for all workloads
as future work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planning.sifter.model import LEAF, Partition
from planning.sifter.parameters import Parameters
from planning.sifter.partitioners import cost_growth as growth
from planning.sifter.partitioners import cost_pruning as pruning
from planning.sifter.partitioners.sample import Sample
from planning.sifter.partitioners.trees import partition_of
from planning.sifter.queries.matching import spread

WIDE, NEAR, NEARER = (0.04, 6.0), (0.3, 3.0), (0.6, 1.7)
"""Bands of multipliers, in units of the stream's mean QoS per tuple and of the operating one."""
OVERGROWTH = 6
SMALLEST, SMALLEST_OF_MANY = 3, 6  # sample points on either side of a cut between points
MANY_PER_REGION = 50
LOADS = (0.1, 0.3, 0.5, 0.7)
LOAD_WEIGHT = 0.02
"""Pruning serves these throttle fractions besides the operating point: one partition for all z."""
ROUNDS = 3
LEAST_MULTIPLIER = 0.01


def partition(sample: Sample, parameters: Parameters) -> Partition:
    """Overgrow and prune to l regions in each band; return the partition that loses least."""
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
    least, best, operating = np.inf, (np.array([LEAF]), np.zeros(1), np.zeros(1, np.int64)), total
    for band in (WIDE, NEAR, NEARER):
        unit = total if band is WIDE else operating
        prices = _prices(unit * band[0], unit * band[1], total, sample, parameters)
        axis, cut, left, f, a, free = _grown(sample, masses, prices, parameters)
        multiplier, share, _ = pruning.multipliers(f, a, free, axis == LEAF, needs, delta)
        last = np.inf
        for _ in range(ROUNDS):
            # What every node would earn as a leaf, at the multipliers of the chosen leaves.
            value = np.zeros(axis.size)
            for lam, part, weight in zip(multiplier, share, weights, strict=True):
                paid = a / max(lam, LEAST_MULTIPLIER * total)
                value += weight * np.where(free, part * f, delta * np.maximum(0.0, f - paid))
            chosen = pruning.prune(axis, left, value, parameters.regions)
            multiplier, share, lost = pruning.multipliers(f, a, free, chosen, needs, delta)
            loss = float(np.dot(weights, lost / np.maximum(needs, 1e-9)))  # over random dropping's
            if loss < least:
                least, best = loss, (np.where(chosen, LEAF, axis), cut, left)
                operating = max(float(multiplier[-1]), LEAST_MULTIPLIER * total)
            if loss >= last:
                break
            last = loss
    return partition_of(*best)


def _prices(
    low: float, high: float, mean: float, sample: Sample, parameters: Parameters
) -> growth.Prices:
    """Return what regions are worth over a band.

    Below the mean ratio the group item is untouched and a region without queries counts in full,
    above it the group is full and such a region counts Delta.
    """
    delta = parameters.fairness_threshold
    middle = min(max(mean, low), high)
    free = float(np.log(middle / low) + delta * np.log(high / middle))
    many = len(sample.points) >= MANY_PER_REGION * parameters.regions
    return growth.Prices(low, high, free, delta, SMALLEST_OF_MANY if many else SMALLEST)


def _grown(
    sample: Sample, masses: growth.Masses, prices: growth.Prices, parameters: Parameters
) -> tuple[Any, ...]:
    """Return axis, cut, left child, f, A and whether it is without queries, node by node."""
    points, boxes = len(sample.points), len(sample.queries.low)
    leaves = min(parameters.regions * OVERGROWTH, points + 4 * boxes + 1)
    nodes = growth.empty_nodes(2 * leaves - 1, sample.low.size)
    orders = (p.T.argsort(kind="stable") for p in (sample.points, sample.query_centers))
    used = growth.grow(masses, prices, nodes, sample.low, sample.high, *orders)
    return tuple(column[:used] for column in nodes[:6])
