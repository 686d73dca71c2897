"""The fractional knapsack behind every plan: which items to compare within a budget.

An item is "compare tuples of type z with basic window j of window i": its volume is the number of
comparisons per second, its value the utility of the matches. Both are linear in the fraction taken,
so taking items by value per comparison is optimal, and one sorted list answers for every budget.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray

Counts: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""Value, hits and comparisons of every item [window, type, basic window]."""
LOADS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
TINY = 1e-300
NEIGHBOURS = (0.25, 0.5, 1.0, 0.5, 0.25)


def rank(density: FloatArray) -> IntArray:
    """Flat item indices by descending value per comparison; ties by index.

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


def cut(volumes: FloatArray, before: FloatArray, budget: float) -> tuple[int, FloatArray]:
    """Return how many sorted items a budget takes whole, and the shares of those that follow.

    The same as :func:`fill`, but in the time that it takes to find the place: ``before`` is the sum
    of the volumes before each item.

    >>> cut(np.array([4.0, 2.0, 9.0]), np.array([0.0, 4.0, 6.0]), 5.0)
    (1, array([0.5]))
    """
    # Rounding may leave an item before the end of the budget a hair short of whole.
    low = max(int(np.searchsorted(before, budget * (1.0 - 1e-9), side="left")) - 1, 0)
    high = max(int(np.searchsorted(before, budget, side="left")), low)
    left, some = budget - before[low:high], volumes[low:high]
    return low, np.clip(np.divide(left, some, out=np.ones(high - low), where=some > 0), 0.0, 1.0)


def blend(levels: FloatArray, spent: FloatArray, budget: float) -> FloatArray:
    """Mix the two neighbouring settings that spend a budget together: the last two that do.

    Row b of ``levels`` is what the b-th setting takes of every item, from nothing to everything,
    and ``spent[b]`` what it costs. By volumes that the settings were not made for, costs may fall.

    >>> blend(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0.0, 2.0, 6.0]), 3.0)
    array([1.  , 0.25])
    """
    low = int(np.flatnonzero(spent <= budget).max(initial=0))
    if low + 1 == len(levels):
        return np.asarray(levels[low])
    share = max((budget - spent[low]) / (spent[low + 1] - spent[low]), 0.0)
    return np.asarray((1.0 - share) * levels[low] + share * levels[low + 1])


def within(density: FloatArray, volumes: FloatArray, take: FloatArray) -> FloatArray:
    """Spend what every window and type spends by ``take`` on its densest basic windows.

    >>> within(np.array([[[1.0, 3.0]]]), np.array([[[2.0, 2.0]]]), np.array([[[1.0, 0.5]]]))
    array([[[0.5, 1. ]]])
    """
    rows = zip(*(t.reshape(-1, t.shape[2]) for t in (density, volumes, take)), strict=True)
    return np.array([fill(rank(d), v, float(v @ t)) for d, v, t in rows]).reshape(take.shape)


def denser_side(density: FloatArray) -> BoolArray:
    """Whether the older neighbour of each basic window is denser than the newer one.

    A basic window that is taken in part is taken from that side.

    >>> denser_side(np.array([[[1.0, 2.0, 5.0]]])).tolist()
    [[[True, True, False]]]
    """
    padded = np.pad(density, ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    return np.asarray(padded[..., 2:] > padded[..., :-2])


def smooth(table: FloatArray) -> FloatArray:
    """Weighted sums over neighbouring basic windows.

    >>> smooth(np.array([[[0.0, 0.0, 4.0, 0.0, 0.0]]])).tolist()
    [[[1.0, 2.0, 4.0, 2.0, 1.0]]]
    """
    n = table.shape[2]
    padded = np.pad(table, ((0, 0), (0, 0), (2, 2)))
    return np.asarray(sum(w * padded[:, :, k : k + n] for k, w in enumerate(NEIGHBOURS)))


def match_chance(hits: FloatArray, comparisons: FloatArray, prior_hits: float) -> FloatArray:
    """Hits per comparison of each basic window, types pooled; shape [window, 1, basic window].

    Where a basic window has few hits, its neighbours count too: ``prior_hits`` of its own weigh as
    much as theirs, and two hits' worth of the overall average as much as the neighbours'.

    >>> made = np.full((1, 1, 3), 1e6)
    >>> match_chance(np.array([[[1e5, 2e5, 1e5]]]), made, 30.0).round(3).tolist()
    [[[0.1, 0.2, 0.1]]]
    """
    pooled, made = hits.sum(axis=1, keepdims=True), comparisons.sum(axis=1, keepdims=True)
    total = float(made.sum())
    level = float(pooled.sum()) / total if total > 0 else 0.0
    if level <= 0:
        return np.zeros(pooled.shape)
    base = 2.0 / level
    near = (smooth(pooled) + base * level) / (smooth(made) + base)
    return np.asarray((pooled + prior_hits) / np.maximum(made + prior_hits / near, TINY))


def shrunk_density(
    value: FloatArray, hits: FloatArray, comparisons: FloatArray, prior_hits: float
) -> FloatArray:
    """Value per comparison of every item [window, type, basic window], from counts.

    The paper takes u_{i,z} * p_{i,j}: a type's value times the basic window's match probability.
    The item's own measured value replaces this product as evidence comes in: ``prior_hits``
    hits of the item weigh as much.

    >>> one = np.array([[[2000.0, 6000.0]]])
    >>> shrunk_density(one, one, np.array([[[1e5, 1e5]]]), 30.0).round(3).tolist()
    [[[0.02, 0.06]]]
    """
    chance = match_chance(hits, comparisons, prior_hits)
    total = float(hits.sum())
    if total <= 0:
        return np.zeros(hits.shape)
    mean_value = float(value.sum()) / total
    if hits.shape[1] == 1:
        return np.asarray(chance * mean_value)
    expected = (chance * comparisons).sum(axis=2, keepdims=True)
    factor = value.sum(axis=2, keepdims=True) + prior_hits * mean_value
    factor = factor / np.maximum(expected + prior_hits, TINY)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(chance > 0, prior_hits / chance, 1.0)
    return np.asarray((value + weight * chance * factor) / np.maximum(comparisons + weight, TINY))
