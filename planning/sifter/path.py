"""The optimal drop thresholds for every throttle fraction at once (Equation 10, solved exactly).

The fairness rows |d_i - d_j| <= Delta over regions with queries mean that all these d_i lie in one
window [t, t + Delta]. With d_i = t + Delta * y_i and t = (1 - Delta) * y_0 the linear program is a
fractional knapsack over y in [0, 1]: dropping costs A_i per f_i, so

- regions without queries cost nothing and come first, together;
- queried region i has weight Delta * f_i and ratio A_i / f_i;
- the group item y_0 has weight (1 - Delta) * F and ratio A_Q / F, summed over queried regions.

Filling in order of ratio is optimal for every budget 1 - z; the order does not depend on Delta.
Deviation: the paper orders by A alone, which is optimal only when all f are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray

GROUP = -1


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The greedy order and its running sums; ``thresholds`` evaluates it at any z and Delta."""

    frequency: FloatArray  # f(S_i)
    queried: BoolArray
    order: IntArray  # queried regions by A/f, and GROUP once
    held: float  # frequency of the queried regions
    free: float  # frequency of the others

    @classmethod
    def of(cls, frequency: FloatArray, region_qos: FloatArray, queried: BoolArray) -> Path:
        """Sort once; that is all the solving there is."""
        members = np.flatnonzero(queried)
        f, a = frequency[members], region_qos[members]
        held = float(np.add.reduce(f))
        # The last item is the group. f = 0: nothing to gain by dropping, so last.
        ratio = np.full(len(members) + 1, np.inf)
        np.divide(a, f, out=ratio[:-1], where=f > 0)
        if held > 0.0:
            ratio[-1] = float(np.add.reduce(a)) / held
        order = ratio.argsort(kind="stable")
        items = np.empty(len(ratio), dtype=np.int64)
        items[:-1], items[-1] = members, GROUP
        free = float(np.add.reduce(frequency[~queried]))
        return cls(frequency, queried, items[order], held, free)

    @property
    def items(self) -> tuple[IntArray, FloatArray, BoolArray]:
        """The arrays as the compiled functions take them."""
        return self.order, self.frequency, self.queried

    def weights(self, fairness_threshold: float) -> FloatArray:
        """Return what each item of the order sheds when its y is 1."""
        f = np.where(self.order == GROUP, 0.0, self.frequency[self.order])
        group = (1.0 - fairness_threshold) * self.held
        return np.asarray(np.where(self.order == GROUP, group, fairness_threshold * f))

    def thresholds(self, throttle_fraction: float, fairness_threshold: float) -> FloatArray:
        """Return the d(S_i) that are optimal at z = ``throttle_fraction``.

        Two regions, the second without queries: it is dropped whole before the first is touched.

        >>> path = Path.of(np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.array([True, False]))
        >>> path.thresholds(0.75, 0.5).tolist(), path.thresholds(0.25, 0.5).tolist()
        ([0.0, 0.5], [0.5, 1.0])
        """
        need = 1.0 - throttle_fraction
        thresholds = np.zeros(len(self.frequency))
        if need <= 0.0:
            return thresholds
        if throttle_fraction <= 0.0:
            return np.ones(len(self.frequency))
        from_free = min(1.0, need / self.free) if self.free > 0.0 else 1.0
        thresholds[~self.queried] = from_free
        weights = self.weights(fairness_threshold)
        before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
        left = need - self.free * from_free - before
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            y = np.where(weights > 0, np.clip(left / weights, 0.0, 1.0), 0.0)
        regions = self.order != GROUP
        floor = (1.0 - fairness_threshold) * float(y[~regions][0])
        thresholds[self.order[regions]] = np.minimum(1.0, floor + fairness_threshold * y[regions])
        return thresholds

    def breakpoints(self, fairness_threshold: float) -> FloatArray:
        """Return the z at which the path bends, falling from 1 to 0; at most l + 2 of them."""
        steps = np.concatenate([[0.0, self.free], self.weights(fairness_threshold)])
        return np.unique(np.clip(1.0 - np.cumsum(steps), 0.0, 1.0))[::-1]
