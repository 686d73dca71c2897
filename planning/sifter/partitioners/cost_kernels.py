"""Compiled parts of the cost-sensitive tree: growing, pruning, reading lambda off the path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

LEAF = -1


@njit(cache=True)
def leaf_value(f: float, a: float, free: bool, lam: Any, share: Any, weight: Any, delta: float) -> float:
    """Return what a region brings at the given multipliers (see ``cost_tree``)."""
    total = 0.0
    for j in range(lam.size):
        if free:
            total += weight[j] * share[j] * lam[j] * f
        else:
            total += weight[j] * delta * max(0.0, lam[j] * f - a)
    return total


@njit(cache=True)
def grow(
    points: Any, mass: Any, centers: Any, center_mass: Any, box_low: Any, box_high: Any,
    low: Any, high: Any, discrete: Any, lam: Any, share: Any, weight: Any, delta: float, smallest: int,
    regions: int,
) -> Any:  # fmt: skip
    """Overgrow a k-d tree best first.

    Points and centers are sorted once per axis; a split divides the sorted lists and keeps their
    order. Returns node arrays: axis, cut, left child, f, A, free.
    """
    n, d = points.shape
    m = centers.shape[0]
    nodes = 2 * regions - 1
    axis = np.full(nodes, LEAF, np.int64)
    cut, left = np.zeros(nodes), np.zeros(nodes, np.int64)
    f, a, free = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes, np.bool_)
    gain, best_axis, best_cut = np.full(nodes, -1.0), np.zeros(nodes, np.int64), np.zeros(nodes)
    # Segments of the sorted lists.
    p_order, c_order = np.empty((d, n), np.int64), np.empty((d, m), np.int64)
    for k in range(d):
        p_order[k] = np.argsort(points[:, k], kind="mergesort")
        c_order[k] = np.argsort(centers[:, k], kind="mergesort")
    p_start, p_stop = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    c_start, c_stop = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    # Boxes that touch a node without covering it, in one growing pool.
    pool = np.arange(max(1, 4 * box_low.shape[0]))
    b_start, b_stop = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    covered = np.zeros(nodes, np.bool_)
    used_pool = box_low.shape[0]
    lows, highs = np.zeros((nodes, d)), np.zeros((nodes, d))
    lows[0], highs[0] = low, high
    p_stop[0], c_stop[0], b_stop[0] = n, m, box_low.shape[0]
    f[0], a[0] = 1.0, mass.sum() + center_mass.sum()
    free[0] = box_low.shape[0] == 0
    spare = np.zeros(max(n, m), np.int64)
    _best_cut(points, mass, centers, center_mass, box_low, box_high, discrete, lam, share, weight, delta,
              smallest, 0, p_order, c_order, p_start, p_stop, c_start, c_stop, pool, b_start,
              b_stop, covered, lows, highs, f, a, free, gain, best_axis, best_cut)  # fmt: skip
    used = 1
    while used + 1 < nodes:
        node = np.argmax(gain[:used])
        if gain[node] <= 0.0:
            break
        k, c = best_axis[node], best_cut[node]
        axis[node], cut[node], left[node] = k, c, used
        one, two = used, used + 1
        for child in range(used, used + 2):
            lows[child], highs[child] = lows[node], highs[node]
        highs[one, k], lows[two, k] = c, c
        middle = _divide(points[:, k], c, p_order, p_start[node], p_stop[node], spare)
        p_start[one], p_stop[one], p_start[two], p_stop[two] = (
            p_start[node], middle, middle, p_stop[node])  # fmt: skip
        middle = _divide(centers[:, k], c, c_order, c_start[node], c_stop[node], spare)
        c_start[one], c_stop[one], c_start[two], c_stop[two] = (
            c_start[node], middle, middle, c_stop[node])  # fmt: skip
        for child in range(used, used + 2):
            needed = used_pool + b_stop[node] - b_start[node]
            if needed > pool.size:
                larger = np.empty(2 * needed, np.int64)
                larger[:used_pool] = pool[:used_pool]
                pool = larger
            b_start[child] = used_pool
            covered[child] = covered[node]
            for j in range(b_start[node], b_stop[node]):
                box = pool[j]
                touches, covers = True, True
                for i in range(d):
                    touches &= box_low[box, i] < highs[child, i] and box_high[box, i] > lows[child, i]
                    covers &= box_low[box, i] <= lows[child, i] and box_high[box, i] >= highs[child, i]
                if covers:
                    covered[child] = True
                elif touches:
                    pool[used_pool] = box
                    used_pool += 1
            b_stop[child] = used_pool
            free[child] = not covered[child] and b_start[child] == b_stop[child]
            f[child] = (p_stop[child] - p_start[child]) / n
            total = 0.0
            for j in range(p_start[child], p_stop[child]):
                total += mass[p_order[0, j]]
            for j in range(c_start[child], c_stop[child]):
                total += center_mass[c_order[0, j]]
            a[child] = 0.0 if free[child] else total
            _best_cut(points, mass, centers, center_mass, box_low, box_high, discrete, lam, share,
                      weight, delta, smallest, child, p_order, c_order, p_start, p_stop, c_start, c_stop,
                      pool, b_start, b_stop, covered, lows, highs, f, a, free, gain, best_axis,
                      best_cut)  # fmt: skip
        gain[node] = -1.0
        used += 2
    return axis[:used], cut[:used], left[:used], f[:used], a[:used], free[:used]


@njit(cache=True)
def _divide(
    column: Any, c: float, order: Any, start: int, stop: int, spare: Any
) -> int:
    """Divide every axis's sorted list at the cut, keeping the order; return the middle."""
    middle = start
    for k in range(order.shape[0]):
        place, rest = start, 0
        for j in range(start, stop):
            index = order[k, j]
            if column[index] < c:
                order[k, place] = index
                place += 1
            else:
                spare[rest] = index
                rest += 1
        for j in range(rest):
            order[k, place + j] = spare[j]
        middle = place
    return middle


@njit(cache=True)
def _best_cut(
    points: Any, mass: Any, centers: Any, center_mass: Any, box_low: Any, box_high: Any,
    discrete: Any, lam: Any, share: Any, weight: Any, delta: float, smallest: int, node: int, p_order: Any,
    c_order: Any, p_start: Any, p_stop: Any, c_start: Any, c_stop: Any, pool: Any, b_start: Any,
    b_stop: Any, covered: Any, lows: Any, highs: Any, f: Any, a: Any, free: Any, gain: Any,
    best_axis: Any, best_cut: Any,
) -> None:  # fmt: skip
    """Scan the middles between neighbouring points, and the edges of the queries' bounding box."""
    n, d = points.shape
    count = p_stop[node] - p_start[node]
    if free[node] or count == 0:
        return
    whole = leaf_value(f[node], a[node], False, lam, share, weight, delta)
    for k in range(d):
        first, last = highs[node, k], lows[node, k]
        if covered[node]:
            first, last = lows[node, k], highs[node, k]
        for j in range(b_start[node], b_stop[node]):
            first = min(first, box_low[pool[j], k])
            last = max(last, box_high[pool[j], k])
        if discrete[k]:
            last = np.ceil(last)
        edge_done = first <= lows[node, k]
        left_f, left_a = 0, 0.0
        c = c_start[node]
        previous = lows[node, k]
        for j in range(p_start[node], p_stop[node] + 2):
            at_end = j >= p_stop[node]
            if not at_end:
                x = points[p_order[k, j], k]
            elif last < highs[node, k] and j == p_stop[node]:
                x = highs[node, k]
            elif j == p_stop[node]:
                continue
            else:
                break
            # Candidates in (previous, x]: the first edge, the last edge, the middle.
            for which in range(3):
                if which == 0:
                    if edge_done or first > x:
                        continue
                    candidate = first
                    edge_done = True
                elif which == 1:
                    if not (previous < last <= x) or last >= highs[node, k]:
                        continue
                    candidate = last
                else:
                    if at_end or j == p_start[node] or x <= previous:
                        continue
                    if left_f < smallest or count - left_f < smallest:
                        continue
                    if discrete[k]:
                        candidate = np.floor((previous + x) / 2.0) + 1.0
                    else:
                        candidate = previous + (x - previous) / 2.0
                        short = float(np.float32(candidate))
                        if previous < short <= x:
                            candidate = short
                if candidate <= lows[node, k] or candidate >= highs[node, k]:
                    continue
                # Centers below the candidate; `ahead` does not move c, candidates are unsorted.
                ahead, here_a = c, left_a
                while ahead < c_stop[node] and centers[c_order[k, ahead], k] < candidate:
                    here_a += center_mass[c_order[k, ahead]]
                    ahead += 1
                one_free = candidate <= first and not covered[node]
                two_free = candidate >= last and not covered[node]
                value = leaf_value(
                    left_f / n, 0.0 if one_free else here_a, one_free, lam, share, weight, delta
                ) + leaf_value(
                    (count - left_f) / n, 0.0 if two_free else a[node] - here_a, two_free, lam,
                    share, weight, delta,
                )  # fmt: skip
                if value - whole > gain[node] and value - whole > 1e-12:
                    gain[node] = value - whole
                    best_axis[node], best_cut[node] = k, candidate
            if at_end:
                break
            left_f += 1
            left_a += mass[p_order[k, j]]
            if x > previous:
                previous = x
            while c < c_stop[node] and centers[c_order[k, c], k] < previous:
                left_a += center_mass[c_order[k, c]]
                c += 1


@njit(cache=True)
def prune(axis: Any, left: Any, value: Any, regions: int) -> Any:
    """Keep the subtree of at most ``regions`` leaves with the largest total value.

    Dynamic programming bottom up: best[node, k] with k leaves below node; children stand after
    their parent, so one backward pass suffices. Returns True where a node becomes a leaf.
    """
    nodes = axis.size
    leaves = np.ones(nodes, np.int64)
    for node in range(nodes - 1, -1, -1):
        if axis[node] != LEAF:
            leaves[node] = leaves[left[node]] + leaves[left[node] + 1]
    offset = np.zeros(nodes + 1, np.int64)
    for node in range(nodes):
        offset[node + 1] = offset[node] + min(regions, leaves[node])
    best = np.empty(offset[nodes])
    choice = np.zeros(offset[nodes], np.int64)
    for node in range(nodes - 1, -1, -1):
        here = offset[node]
        size = min(regions, leaves[node])
        best[here] = value[node]
        if axis[node] == LEAF:
            continue
        one, two = left[node], left[node] + 1
        n_one, n_two = min(regions, leaves[one]), min(regions, leaves[two])
        for k in range(2, size + 1):
            top, arg = best[here + k - 2], 0
            for i in range(max(1, k - n_two), min(k - 1, n_one) + 1):
                total = best[offset[one] + i - 1] + best[offset[two] + k - i - 1]
                if total > top + 1e-15:
                    top, arg = total, i
            best[here + k - 1], choice[here + k - 1] = top, arg
    is_leaf = np.zeros(nodes, np.bool_)
    stack = np.empty((nodes + 1, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, min(regions, leaves[0])
    depth = 1
    while depth > 0:
        depth -= 1
        node, k = stack[depth, 0], stack[depth, 1]
        while k > 1 and choice[offset[node] + k - 1] == 0:
            k -= 1
        if k == 1:
            is_leaf[node] = True
            continue
        i = choice[offset[node] + k - 1]
        stack[depth, 0], stack[depth, 1] = left[node] + 1, k - i
        stack[depth + 1, 0], stack[depth + 1, 1] = left[node], i
        depth += 2
    return is_leaf


@njit(cache=True)
def multipliers(
    f: Any, a: Any, free: Any, chosen: Any, needs: Any, delta: float, lam: Any, share: Any
) -> None:
    """Read the multiplier at each budget off the exact path of the chosen leaves.

    ``share`` is the weight of a region without queries: 1 while the group item is untouched,
    delta once it is full.
    """
    members = np.flatnonzero(chosen & ~free)
    open_f = 0.0
    for node in np.flatnonzero(chosen & free):
        open_f += f[node]
    ratio = np.full(members.size, np.inf)
    group_f = group_a = 0.0
    for j in range(members.size):
        if f[members[j]] > 0.0:
            ratio[j] = a[members[j]] / f[members[j]]
        group_f += f[members[j]]
        group_a += a[members[j]]
    group = group_a / group_f if group_f > 0.0 else 0.0
    order = np.argsort(ratio, kind="mergesort")
    for i in range(needs.size):
        need = needs[i] - open_f
        lam[i], share[i] = 0.0, 1.0
        passed_group = False
        for j in range(members.size + 1):
            if need <= 0.0:
                break
            if not passed_group and (j == members.size or ratio[order[j]] >= group):
                passed_group = True
                weight = (1.0 - delta) * group_f
                y = min(1.0, need / weight) if weight > 0.0 else 1.0
                lam[i], share[i] = group, 1.0 - (1.0 - delta) * y
                need -= weight
                if need <= 0.0:
                    break
            if j < members.size and ratio[order[j]] < np.inf:
                lam[i] = ratio[order[j]]
                need -= delta * f[members[order[j]]]


@njit(cache=True)
def preorder(axis: Any, cut: Any, left: Any, is_leaf: Any) -> Any:
    """Return the pruned tree's axes and cuts in preorder."""
    dimension, cuts = np.empty(axis.size, np.int64), np.zeros(axis.size)
    stack = np.empty(axis.size + 1, np.int64)
    stack[0] = 0
    depth, used = 1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        inner = axis[node] != LEAF and not is_leaf[node]
        dimension[used] = axis[node] if inner else LEAF
        if inner:
            cuts[used] = cut[node]
            stack[depth], stack[depth + 1] = left[node] + 1, left[node]
            depth += 2
        used += 1
    return dimension[:used].copy(), cuts[:used].copy()
