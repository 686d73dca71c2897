"""From the sample U and the queries to regions, by the partitioner that a definition names.

A partitioner takes what it is shown, a :class:`~planning.sifter.partitioners.sample.Sample`, and
the parameters, and returns a partition. A new one is a row of the table here, and its name in
:mod:`planning.sifter.parameters`. Categories are first put into an order in which a cut makes
sense; partitioners see positions in that order instead of codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from planning.arrays import FloatArray, frozen_ints
from planning.families import Definition
from planning.sifter import queries
from planning.sifter.model import Orders, Partition, Space
from planning.sifter.parameters import Parameters, PartitionerName
from planning.sifter.partitioners import cost_tree
from planning.sifter.partitioners.best_first import COUNT, DIVERSITY, VOLUME, grow
from planning.sifter.partitioners.sample import Sample
from planning.sifter.partitioners.slabs import equi_depth, uniform_grid
from planning.sifter.queries import Queries
from planning.sifter.queries.matching import spread

Partitioner = Callable[[Sample, Parameters], Partition]

PARTITIONERS: Mapping[PartitionerName, Partitioner] = {
    # Ours: a cost-sensitive tree, overgrown and pruned.
    "cost_tree": cost_tree.partition,
    # Section V: l = u**n regions of equal volume, or with equally many tuples or query centers.
    "uniform_grid": lambda sample, p: uniform_grid(sample, p.regions),
    "data_equi_depth": lambda sample, p: equi_depth(sample, sample.points, p.regions),
    "query_equi_depth": lambda sample, p: equi_depth(sample, sample.query_centers, p.regions),
    # Section V-A: the same for any l, by halving the largest or the fullest region.
    "flexible_uniform_grid": lambda sample, p: grow(sample, sample.points, p.regions, VOLUME),
    "flexible_data_equi_depth": lambda sample, p: grow(sample, sample.points, p.regions, COUNT),
    "flexible_query_equi_depth": lambda sample, p: grow(
        sample, sample.query_centers, p.regions, COUNT
    ),
    # Section V-B: regions alike both in position and in query hits; it stops early when all hits
    # in every region are equal.
    "qdpart": lambda sample, p: grow(sample, sample.points, p.regions, DIVERSITY),
}


def divide(sample: FloatArray, definition: Definition[Parameters], asked: Queries) -> Partition:
    """Divide the space into regions from the sample U and the queries.

    With calibration and few tuples per region the partitioner sees only one half of U, so that
    frequencies can be counted on data it has not fitted: every other row, because equal rows are
    neighbours in U.
    """
    space = Space.of(definition)
    parameters = definition.parameters
    few = len(sample) < cost_tree.MANY_PER_REGION * parameters.regions
    shown = sample[::2] if parameters.calibrate and few else sample
    discrete = np.array([axis.kind != "float" for axis in space.axes])
    inside = np.clip(shown, space.low, space.high)
    orders = code_orders(inside, asked, space)
    arranged = Partition.from_nested(None, orders).arranged(inside)
    seen = Sample(arranged, queries.arranged(asked, orders), space.low, space.high, discrete)
    made = PARTITIONERS[parameters.partitioner](seen, parameters)
    partition = replace(made, orders=orders)
    return replace(partition, seen=frozen_ints(partition.count(shown)))


def code_orders(points: FloatArray, asked: Queries, space: Space) -> Orders:
    """Return, per category axis, the position of each code by its ratio of query to data mass.

    Along such an order one cut separates the codes that are cheap to drop from the costly ones.
    """
    if all(axis.kind != "category" for axis in space.axes):
        return ()
    mass, box_mass = spread(points, asked)
    orders: list[tuple[int, ...]] = []
    for k, axis in enumerate(space.axes):
        if axis.kind != "category":
            orders.append(())
            continue
        code = points[:, k].astype(np.int64)
        data = np.bincount(code, minlength=len(axis.values)).astype(np.float64)
        value = np.bincount(code, weights=mass, minlength=len(axis.values))
        for first, last, m in zip(asked.low[:, k], asked.high[:, k], box_mass, strict=True):
            value[int(first) : int(last)] += m / (last - first)
        ratio = np.divide(value, data, out=np.full(len(data), np.inf), where=data > 0)
        orders.append(tuple(np.argsort(np.argsort(ratio, kind="stable")).tolist()))
    return tuple(orders)
