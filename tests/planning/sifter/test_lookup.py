"""Region lookup by tables, against descent of the tree."""

import numpy as np
import pytest

from planning.sifter import lookup
from planning.sifter.lookup import kernels
from planning.sifter.model import LEAF, Partition


def random_partition(rng, dimensions, regions):
    def split(low, high, leaves):
        if leaves == 1:
            return None
        axis = int(rng.integers(dimensions))
        cut = float(rng.uniform(low[axis], high[axis]))
        one, two = high.copy(), low.copy()
        one[axis] = two[axis] = cut
        left = int(rng.integers(1, leaves))
        return (axis, cut, split(low, one, left), split(two, high, leaves - left))

    return Partition.from_nested(split(np.zeros(dimensions), np.ones(dimensions), regions))


def descend(partition, point):
    """The region of a point, by the definition of the tree."""
    if np.isnan(point).any():
        return LEAF
    node = 0
    while (axis := partition.dimension[node]) != LEAF:
        node = node + 1 if point[axis] < partition.cut[node] else partition.right[node]
    return int(partition.leaf[node])


@pytest.mark.parametrize(
    ("dimensions", "regions", "kind"),
    [(1, 1, "cells"), (1, 40, "cells"), (2, 16, "cells"), (2, 700, "cells"), (3, 100, "cells"),
     (4, 100, "bitmaps"), (5, 300, "bitmaps"), (6, 5000, "tree")],
)  # fmt: skip
def test_tables_find_the_same_region_as_the_tree(dimensions, regions, kind, rng):
    partition = random_partition(rng, dimensions, regions)
    tables = lookup.build(partition, dimensions)
    assert tables.kind == kind
    points = rng.normal(0.5, 0.5, (3000, dimensions))
    points[:50] = np.nan
    points[50:100, 0] = np.inf
    points[100:150, 0] = -np.inf
    cuts = partition.cut[partition.dimension == 0]
    points[150 : 150 + len(cuts), 0] = cuts[: len(points) - 150]  # exactly on a cut
    expected = [descend(partition, point) for point in points]
    assert partition.lookup(points).tolist() == expected
    columns = np.ascontiguousarray(points.T)
    for size in (len(points), 513, 1):
        place = np.empty(size, dtype=np.int32)
        if kind == "cells":
            kernels.find_cells(columns, tables, place)
        elif kind == "bitmaps":
            kernels.find_common(columns, tables, regions, place)
        else:
            kernels.descend(columns, partition.tree, regions, place)
        assert place.tolist() == [region % (regions + 1) for region in expected[:size]]
