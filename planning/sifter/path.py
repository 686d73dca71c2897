"""The optimal drop thresholds for every throttle fraction at once (Equation 10, solved exactly).

The fairness rows |d_i - d_j| <= Delta over regions with queries mean that all these d_i lie in one
window [t, t + Delta]. With d_i = t + Delta * y_i and t = (1 - Delta) * y_0 the linear program is a
fractional knapsack over y in [0, 1]: dropping costs A_i per f_i, so

- regions without queries cost nothing and come first, together;
- queried region i has weight Delta * f_i and ratio A_i / f_i;
- the group item y_0 has weight (1 - Delta) * F and ratio A_Q / F, summed over queried regions.

Filling in order of ratio is optimal for every budget 1 - z; the order does not depend on Delta.
Deviation: the paper orders by A alone, which is optimal only when all f are equal.

With a least fraction m that every region keeps, d_i <= D = 1 - m: put d = D d', and the program in
d' is the same at the budget (1 - z) / D and the threshold min(1, Delta / D). Where the budget needs
more than D of all that can be dropped, nothing but even dropping is left.

No threshold falls as z falls: every item fills up in turn. That holds for the rounded values too,
because each operation on 1 - z below is monotone, whatever it rounds to.
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
    ceiling: float = 1.0  # D, the largest threshold

    @classmethod
    def of(
        cls,
        frequency: FloatArray,
        region_qos: FloatArray,
        queried: BoolArray,
        min_keep: float = 0.0,
    ) -> Path:
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
        return cls(frequency, queried, items[order], held, free, 1.0 - min_keep)

    @property
    def lowest(self) -> float:
        """The z below which some region keeps less than 1 - D; 0 where D is 1."""
        total = self.free + self.held
        return max(0.0, 1.0 - self.ceiling * total) if self.ceiling < 1.0 else 0.0

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
        delta = fairness_threshold
        if self.ceiling < 1.0:
            total = self.free + self.held
            if need >= self.ceiling * total:
                even = max(self.ceiling, min(1.0, need / total)) if total > 0.0 else 1.0
                return np.full(len(self.frequency), even)
            need, delta = need / self.ceiling, self._scaled(delta)
        from_free = min(1.0, need / self.free) if self.free > 0.0 else 1.0
        thresholds[~self.queried] = from_free
        weights = self.weights(delta)
        before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
        left = max(0.0, need - self.free) - before
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            y = np.where(weights > 0, np.clip(left / weights, 0.0, 1.0), 0.0)
        regions = self.order != GROUP
        floor = (1.0 - delta) * float(y[~regions][0])
        thresholds[self.order[regions]] = np.minimum(1.0, floor + delta * y[regions])
        return self.ceiling * thresholds

    def breakpoints(self, fairness_threshold: float) -> FloatArray:
        """Return the z at which the path bends, falling from 1 to 0; at most l + 4 of them."""
        steps = np.concatenate([[0.0, self.free], self.weights(self._scaled(fairness_threshold))])
        bends = 1.0 - self.ceiling * np.cumsum(steps)
        if self.ceiling < 1.0:
            bends = np.append(bends, [1.0 - self.free - self.held, 0.0])
        return np.unique(np.clip(bends, 0.0, 1.0))[::-1]

    def _scaled(self, fairness_threshold: float) -> float:
        """Return the fairness threshold between values of d' = d / D."""
        return min(1.0, fairness_threshold / self.ceiling) if self.ceiling > 0.0 else 1.0
