"""Space and partition: cuts, membership, whole trees."""

import numpy as np

from planning.sifter.model import Partition, cut_between, is_preorder


def test_cut_between_separates_even_neighbouring_floats():
    below = 0.1
    above = float(np.nextafter(below, 1))
    assert below < cut_between(below, above, False) <= above


def test_lookup_descends_to_the_region_that_holds_the_point(rng):
    partition = Partition.from_nested((0, 0.4, (1, 0.7, None, None), (1, 0.2, None, None)))
    points = rng.random((500, 2))
    points[:2] = [[np.nan, 0.5], [0.5, np.nan]]
    low, high = partition.bounds(np.zeros(2), np.ones(2))
    inside = ((low <= points[:, None]) & (points[:, None] < high)).all(axis=2)
    expected = np.where(inside.any(axis=1), inside.argmax(axis=1), -1)
    assert partition.lookup(points).tolist() == expected.tolist()
    assert partition.count(points).tolist() == inside.sum(axis=0).tolist()


def test_only_a_whole_tree_is_a_preorder():
    assert is_preorder(np.array([0, -1, 1, -1, -1]))
    for broken in ([0], [0, -1], [0, -1, -1, -1], [], [-2]):
        assert not is_preorder(np.array(broken, dtype=np.int64))
