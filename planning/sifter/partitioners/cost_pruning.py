"""Pruning the overgrown tree to l leaves, and the multipliers it is pruned for, compiled.

See :mod:`planning.sifter.partitioners.cost_tree`; trees are as in
:mod:`planning.sifter.partitioners.trees`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from planning.sifter.model import LEAF


@njit(cache=True)
def prune(axis: Any, left: Any, value: Any, regions: int) -> Any:
    """Keep the subtree of at most ``regions`` leaves with the largest total value.

    Dynamic programming bottom up: best[node, k] with k leaves below node; children come after
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
def multipliers(f: Any, a: Any, free: Any, chosen: Any, needs: Any, delta: float) -> Any:
    """Read multiplier and loss at each budget off the exact path of the chosen leaves.

    Also returned is the weight of a region without queries: 1 while the group item is
    untouched, delta once it is full.
    """
    lam, share, lost = np.zeros(needs.size), np.ones(needs.size), np.zeros(needs.size)
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
        passed_group = False
        for j in range(members.size + 1):
            if need <= 0.0:
                break
            if not passed_group and (j == members.size or ratio[order[j]] >= group):
                passed_group = True
                weight = (1.0 - delta) * group_f
                y = min(1.0, need / weight) if weight > 0.0 else 1.0
                lam[i], share[i] = group, 1.0 - (1.0 - delta) * y
                lost[i] += group * min(need, weight)
                need -= weight
                if need <= 0.0:
                    break
            if j < members.size and ratio[order[j]] < np.inf:
                lam[i] = ratio[order[j]]
                lost[i] += ratio[order[j]] * min(need, delta * f[members[order[j]]])
                need -= delta * f[members[order[j]]]
    return lam, share, lost
