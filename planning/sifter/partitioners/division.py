"""From the sample U and the queries to regions: what a partitioner is shown, and its answer.

Categories are put into an order first in which a cut makes sense; partitioners see positions in
that order instead of codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from planning.arrays import FloatArray, frozen_ints
from planning.sifter import partitioners, queries
from planning.sifter.matching import spread
from planning.sifter.partition import Partition
from planning.sifter.partitioners.sample import Sample
from planning.sifter.queries import Queries
from planning.sifter.space import Space


def divide(sample: FloatArray, definition: Any, asked: Queries) -> Partition:
    """Divide the space into regions from the sample U and the queries.

    With calibration the partitioner sees one half of U only, so that frequencies can be counted on
    data it has not fitted; U comes in the order of hashed keys, so any half is a fair one.
    """
    space = Space.of(definition)
    parameters = definition.parameters
    shown = sample[: (len(sample) + 1) // 2] if parameters.calibrate else sample
    discrete = np.array([axis.kind != "float" for axis in space.axes])
    inside = np.clip(shown, space.low, space.high)
    orders = code_orders(inside, asked, space)
    arranged = Partition.from_nested(None, orders).arranged(inside)
    seen = Sample(arranged, queries.arranged(asked, orders), space.low, space.high, discrete)
    made = partitioners.get(parameters.partitioner)(seen, parameters)
    partition = replace(made, orders=orders)
    return replace(partition, seen=frozen_ints(partition.count(shown)))


def code_orders(points: FloatArray, asked: Queries, space: Space) -> tuple[tuple[int, ...], ...]:
    """Return, per category axis, the position of each code by its ratio of query to data mass.

    Along such an order one cut separates the codes that are cheap to drop from the dear ones.
    """
    kinds = [axis.kind for axis in space.axes]
    if "category" not in kinds:
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
