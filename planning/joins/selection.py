"""The fractional knapsack behind every plan: which items to compare within a budget.

An item is "compare tuples of type z with basic window j of window i": its volume is the number of
comparisons per second, its value the utility of the matches. Both are linear in the fraction taken,
so taking items by value per comparison is optimal, and one sorted list answers for every budget.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray


def rank(density: FloatArray) -> IntArray:
    """Flat item indices by falling value per comparison; ties by index.

    >>> rank(np.array([[[1.0, 3.0]], [[3.0, 2.0]]])).tolist()
    [1, 2, 3, 0]
    """
    return np.argsort(-density, axis=None, kind="stable").astype(np.int64)


def fill(order: IntArray, volumes: FloatArray, budget: float) -> FloatArray:
    """Take items in order until ``budget`` comparisons are spent; the last one in part.

    Items without volume cost nothing and are taken when their turn comes before the budget ends.

    >>> fill(np.array([1, 0]), np.array([2.0, 4.0]), 5.0).tolist()
    [0.5, 1.0]
    """
    sorted_volumes = volumes.ravel()[order]
    before = np.concatenate(([0.0], np.cumsum(sorted_volumes)[:-1]))
    left = budget - before
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(sorted_volumes > 0, left / sorted_volumes, np.where(left > 0, 1.0, 0.0))
    take = np.empty(order.size)
    take[order] = np.clip(part, 0.0, 1.0)
    return take.reshape(volumes.shape)


def denser_side(density: FloatArray) -> BoolArray:
    """Whether the older neighbour of each basic window is denser than the newer one.

    A basic window that is taken in part is taken from that side.

    >>> denser_side(np.array([[[1.0, 2.0, 5.0]]])).tolist()
    [[[True, True, False]]]
    """
    newer = np.concatenate((np.full((*density.shape[:2], 1), -np.inf), density[..., :-1]), axis=2)
    older = np.concatenate((density[..., 1:], np.full((*density.shape[:2], 1), -np.inf)), axis=2)
    return np.asarray(older > newer)


def shrunk_density(
    value: FloatArray, hits: FloatArray, comparisons: FloatArray, prior_hits: float
) -> FloatArray:
    """Value per comparison of every item (i, z, j), pulled towards the product model.

    The paper takes u_{i,z} * p_{i,j}: a type's value times the basic window's match probability.
    The measured value of the very item replaces it as evidence comes in: ``prior_hits`` hits weigh
    as much as the product model. All arrays are indexed [window, type, basic window].

    >>> one = np.array([[[2.0, 6.0]]])
    >>> shrunk_density(one, one, np.array([[[100.0, 100.0]]]), 30.0).round(6).tolist()
    [[[0.02, 0.06]]]
    """
    pooled_hits = hits.sum(axis=1, keepdims=True)
    pooled_made = comparisons.sum(axis=1, keepdims=True)
    all_hits, all_made = hits.sum(), comparisons.sum()
    level = all_hits / all_made if all_made > 0 else 0.0
    # A basic window never compared is taken to be average.
    chance = np.where(pooled_made > 0, pooled_hits / np.maximum(pooled_made, 1e-300), level)
    by_type_hits = chance * comparisons
    expected = by_type_hits.sum(axis=2, keepdims=True)
    mean_value = value.sum() / all_hits if all_hits > 0 else 1.0
    factor = np.where(
        expected > 0, value.sum(axis=2, keepdims=True) / np.maximum(expected, 1e-300), mean_value
    )
    strength = prior_hits / (prior_hits + np.maximum(expected, 0.0))
    factor = (1.0 - strength) * factor + strength * mean_value
    if hits.shape[1] == 1:
        factor = np.full_like(factor, mean_value)
    prior = chance * factor
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(chance > 0, prior_hits / chance, 1.0)
    made = comparisons + weight
    return np.asarray((value + weight * prior) / made)
