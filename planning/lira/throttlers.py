"""The exact update throttlers for every throttle fraction at once (Section 3.1.3, solved exactly).

Minimise Σ m_i·Δ_i subject to the budget Σ w_i·f(Δ_i) ≤ z·Σ w_i (w_i = n_i·s_i/ŝ), to
Δmin ≤ Δ_i ≤ Δmax and to fairness |Δ_i − Δ_j| ≤ F. With a price λ per update the objective is
additive: region i crosses segment k of the convex f (slope −r_k) iff m_i/w_i ≤ λ·r_k. So sorting
ρ_i = m_i/w_i gives the whole path. Fairness adds one number, the window's lower end t: all Δ_i are
clipped to [t, t + F], and the best t for a price is where two monotone sums cross, the pain of
those held up at t and the relief of those held down at t + F. Both t and every Δ_i are monotone in
the budget; between two neighbouring vertices of the path expenditure is linear, so interpolating
them is exact.

Regions without queries (m = 0) tie at zero inaccuracy; the tie is broken towards even throttlers.
Regions with neither nodes nor queries never hold the window down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from planning.arrays import FloatArray, IntArray, frozen
from planning.errors import InvalidInput, check_between
from planning.lira.reduction import ReductionCurve

LARGEST_PRICE = 1e60  # of normalised problems: Σ m = Σ w = 1
SMALLEST_PRICE = 1e-60


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """The update throttlers at one throttle fraction.

    Attributes
    ----------
    throttlers
        Δ_i, metres.
    throttle_fraction
        What was asked for.
    expenditure
        Σ w_i·f(Δ_i) / Σ w_i on the convex f: equals ``throttle_fraction`` when that is reachable.
    inaccuracy
        Σ m_i·Δ_i.
    window
        Lower end t of the fairness window.
    price
        λ: inaccuracy that one more update of budget would save; 0 while regions without queries
        pay for everything.
    """

    throttlers: FloatArray
    throttle_fraction: float
    expenditure: float
    inaccuracy: float
    window: float
    price: float

    @property
    def reached(self) -> bool:
        """Whether the budget is met; if not, every throttler is as high as it can help."""
        return self.expenditure <= self.throttle_fraction * (1 + 1e-9) + 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class ThrottlerPath:
    """All exact settings of one partition; ``at(z)`` is a point on the path.

    >>> from planning.lira.reduction import ReductionCurve
    >>> curve = ReductionCurve.of([5, 10, 15], [1.0, 0.5, 0.3])
    >>> path = ThrottlerPath.of([2.0, 0.0], [1.0, 1.0], curve, fairness_threshold=10)
    >>> path.at(0.75).throttlers.tolist()
    [5.0, 10.0]
    >>> path.at(0.5).throttlers.tolist()
    [8.0, 15.0]
    """

    importance: FloatArray  # m_i
    weight: FloatArray  # w_i
    curve: ReductionCurve
    fairness_threshold: float
    order: IntArray  # regions by ascending m/w
    ratio: FloatArray  # sorted m/w of the normalised problem
    weight_below: FloatArray  # prefix sums of normalised w in that order, length l + 1
    importance_below: FloatArray  # prefix sums of normalised m
    rates: FloatArray  # r_k
    windows: FloatArray  # candidates of t
    window_segment: IntArray  # segment right of t
    reach_segment: IntArray  # segment right of t + F

    @classmethod
    def of(
        cls,
        importance: ArrayLike,
        weight: ArrayLike,
        curve: ReductionCurve,
        fairness_threshold: float,
    ) -> ThrottlerPath:
        """Sort m/w and take prefix sums: everything that is shared by all throttle fractions."""
        m = _amounts("importance", importance)
        w = _amounts("weight", weight)
        if m.shape != w.shape or m.size == 0:
            raise InvalidInput(
                f"importance and weight must name the same regions, at least one, "
                f"got {m.size} and {w.size}"
            )
        fairness = check_between("fairness_threshold", fairness_threshold, 0, float("inf"))
        total_m, total_w = float(m.sum()), float(w.sum())
        scaled_m = m / total_m if total_m > 0 else m
        scaled_w = w / total_w if total_w > 0 else w
        order, ratio, weight_below, importance_below = _sorted_sums(scaled_m, scaled_w)
        d, f = curve.thresholds, curve.hull
        rates = np.maximum((f[:-1] - f[1:]) / np.diff(d), 0.0)
        rates = np.minimum.accumulate(rates)  # convex up to rounding: make it so exactly
        windows, low, high = _window_candidates(d, fairness)
        return cls(
            frozen(m), frozen(w), curve, fairness, order, ratio, weight_below, importance_below,
            frozen(rates), windows, low, high,
        )  # fmt: skip

    @property
    def regions(self) -> int:
        """Number of regions l."""
        return self.importance.size

    def at(self, throttle_fraction: float) -> Setting:
        """Return the optimal throttlers at z; unreachable budgets get the highest useful ones."""
        z = check_between("throttle_fraction", throttle_fraction, 0, 1, remedy="pass a fraction")
        throttlers, expenditure, window, price = _at(
            z, self.order, self.ratio, self.weight_below, self.importance_below,
            self.curve.thresholds, self.curve.hull, self.rates,
            self.windows, self.window_segment, self.reach_segment, self.fairness_threshold,
        )  # fmt: skip
        throttlers.flags.writeable = False
        inaccuracy = float(self.importance @ throttlers)
        scale = self.importance.sum() / max(self.weight.sum(), 1e-300)
        return Setting(
            throttlers, z, float(expenditure), inaccuracy, float(window), float(price * scale)
        )


def _amounts(field: str, values: ArrayLike) -> FloatArray:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any():
        raise InvalidInput(f"{field} must be a list of finite numbers of at least 0")
    return array


def _window_candidates(d: FloatArray, fairness: float) -> tuple[FloatArray, IntArray, IntArray]:
    """Every t at which the window's lower or upper end meets a breakpoint, with both segments."""
    last = max(d[0], d[-1] - fairness)
    t = np.unique(np.concatenate([d[d <= last], d[d - fairness >= d[0]] - fairness, [last]]))
    t = t[(t >= d[0]) & (t <= last)]
    keep = np.concatenate([[True], np.diff(t) > 1e-12 * d[-1]])
    t = t[keep]
    t[-1] = last
    segments = d.size - 1
    slack = 1e-12 * d[-1]
    low = np.clip(np.searchsorted(d, t + slack, side="right") - 1, 0, segments - 1)
    high = np.clip(np.searchsorted(d, t + fairness + slack, side="right") - 1, 0, segments - 1)
    return t, low.astype(np.int64), high.astype(np.int64)


@njit(cache=True)
def _sorted_sums(m, w):  # type: ignore[no-untyped-def]
    """Order of m/w (∞ where w = 0 < m, 0 where m = 0), the ratios, and prefix sums of w and m."""
    l = m.size  # noqa: E741
    ratio = np.empty(l)
    for i in range(l):
        if m[i] == 0.0:
            ratio[i] = 0.0
        elif w[i] == 0.0:
            ratio[i] = np.inf
        else:
            ratio[i] = m[i] / w[i]
    order = np.argsort(ratio, kind="mergesort")
    below_w = np.zeros(l + 1)
    below_m = np.zeros(l + 1)
    for j in range(l):
        i = order[j]
        below_w[j + 1] = below_w[j] + w[i]
        below_m[j + 1] = below_m[j] + m[i]
    return order, ratio[order], below_w, below_m


@njit(cache=True)
def _crossing(ratio, limit, low, high):  # type: ignore[no-untyped-def]
    """Count the regions whose ratio is at most ``limit``, known to lie in [low, high]."""
    while low < high:
        middle = (low + high) >> 1
        if ratio[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _window(price, counts, rates, below_w, below_m, low_segment, high_segment):  # type: ignore[no-untyped-def]
    """Index of the best window for a price: the first where holding up hurts more than it helps."""
    total_w, total_m = below_w[-1], below_m[-1]
    first, last = 0, low_segment.size - 1
    while first < last:
        middle = (first + last) >> 1
        k = low_segment[middle]
        q = counts[k]
        limit = price * rates[k]
        held_up = (total_m - below_m[q]) - limit * (total_w - below_w[q])
        k = high_segment[middle]
        q = counts[k]
        held_down = price * rates[k] * below_w[q] - below_m[q]
        if held_up >= held_down:
            last = middle
        else:
            first = middle + 1
    return first


@njit(cache=True)
def _expenditure(t, top, counts, d, f, rates, below_w, low_segment, high_segment):  # type: ignore[no-untyped-def]
    """Σ w·f(Δ) when segment k inside the window [t, top] is crossed by its first counts[k]."""
    share = (t - d[low_segment]) / (d[low_segment + 1] - d[low_segment])
    f_t = f[low_segment] + share * (f[low_segment + 1] - f[low_segment])
    total = below_w[-1] * f_t
    for k in range(low_segment, high_segment + 1):
        start = max(d[k], t)
        end = min(d[k + 1], top)
        if end > start:
            total -= (end - start) * rates[k] * below_w[counts[k]]
    return total


@njit(cache=True)
def _fill(out, share, t, top, counts, order, d):  # type: ignore[no-untyped-def]
    """Move ``out`` by ``share`` towards a vertex, whose Δ_i is the last breakpoint crossed."""
    k = d.size - 1
    for j in range(order.size):
        while k > 0 and counts[k - 1] <= j:
            k -= 1
        vertex = min(max(d[k], t), top)
        here = out[order[j]]
        out[order[j]] = here + share * (vertex - here) if share < 1.0 else vertex


@njit(cache=True)
def _even(z, order, zeros, below_w, d, f, top, window):  # type: ignore[no-untyped-def]
    """Spend the budget on the first ``zeros`` regions of the order alone, all at one threshold."""
    l = order.size  # noqa: E741
    rest = below_w[l] - below_w[zeros]
    wanted = (z * below_w[l] - rest) / below_w[zeros] if below_w[zeros] > 0 else 1.0
    level = top
    for k in range(d.size - 1):
        if f[k + 1] <= wanted:
            span = f[k] - f[k + 1]
            share = (f[k] - wanted) / span if span > 0 else 0.0
            level = min(d[k] + min(max(share, 0.0), 1.0) * (d[k + 1] - d[k]), top)
            break
    out = np.full(l, d[0])
    for j in range(zeros):
        out[order[j]] = level
    return out, level


@njit(cache=True)
def _at(z, order, ratio, below_w, below_m, d, f, rates, windows, low_of, high_of, fairness):  # type: ignore[no-untyped-def]
    """Find the vertices before and after the price at which the budget is met; interpolate."""
    l = order.size  # noqa: E741
    segments = d.size - 1
    total_w = below_w[l]
    if total_w == 0.0 or z >= 1.0:
        spent = 1.0 if total_w > 0.0 else 0.0
        return np.full(l, d[0]), spent, d[0], 0.0
    target = z * total_w
    if below_m[l] == 0.0:
        out, level = _even(z, order, l, below_w, d, f, d[segments], d[0])
        return out, np.interp(level, d, f), max(d[0], level - fairness), 0.0
    # Price 0+: regions without queries rise as far as fairness allows; everything else stays.
    zeros = _crossing(ratio, 0.0, 0, l)
    lower = np.zeros(segments, np.int64)
    upper = np.zeros(segments, np.int64)
    counts = np.zeros(segments, np.int64)
    finite = _crossing(ratio, 1.7e308, 0, l)
    for k in range(segments):
        if rates[k] > 0.0:
            lower[k] = zeros
            upper[k] = finite
    top = min(d[segments], windows[0] + fairness)
    spent_low = _expenditure(
        windows[0], top, lower, d, f, rates, below_w, low_of[0], high_of[0]
    )
    if target >= spent_low:
        out, level = _even(z, order, zeros, below_w, d, f, top, d[0])
        spent = total_w - below_w[zeros] * (1.0 - np.interp(level, d, f))
        return out, spent / total_w, d[0], 0.0
    last = windows.size - 1
    at_low = 0
    at_high = last
    # As the price grows, the window ends where its upper end meets the last falling segment.
    while at_high > 0 and rates[high_of[at_high - 1]] == 0.0:
        at_high -= 1
    if below_w[finite] == 0.0:
        at_high = 0
    spent_high = _expenditure(
        windows[at_high], min(d[segments], windows[at_high] + fairness), upper, d, f, rates,
        below_w, low_of[at_high], high_of[at_high],
    )
    price_low, price_high = SMALLEST_PRICE, LARGEST_PRICE
    if target < spent_high:
        target = spent_high
    while True:
        moved = 0
        for k in range(segments):
            if lower[k] < upper[k]:  # regions of equal ratio cross together: one event
                moved += 1 if ratio[lower[k]] == ratio[upper[k] - 1] else 2
        if (moved <= 1 and at_low == at_high) or (moved == 0 and at_high - at_low <= 1):
            break
        ratio_of_prices = price_high / price_low
        if ratio_of_prices > 4.0:
            price = np.sqrt(price_low) * np.sqrt(price_high)
        else:
            price = 0.5 * (price_low + price_high)
        if price <= price_low or price >= price_high:
            break
        for k in range(segments):
            if lower[k] < upper[k]:
                counts[k] = _crossing(ratio, price * rates[k], lower[k], upper[k])
            else:
                counts[k] = lower[k]
        here = _window(price, counts, rates, below_w, below_m, low_of, high_of)
        here = min(max(here, at_low), at_high)
        spent = _expenditure(
            windows[here], min(d[segments], windows[here] + fairness), counts, d, f, rates,
            below_w, low_of[here], high_of[here],
        )
        if spent > target:
            price_low, at_low, spent_low = price, here, spent
            lower[:] = counts
        else:
            price_high, at_high, spent_high = price, here, spent
            upper[:] = counts
    share = (spent_low - target) / (spent_low - spent_high) if spent_low > spent_high else 1.0
    share = min(max(share, 0.0), 1.0)
    out = np.empty(l)
    low_t, high_t = windows[at_low], windows[at_high]
    _fill(out, 1.0, low_t, min(d[segments], low_t + fairness), lower, order, d)
    _fill(out, share, high_t, min(d[segments], high_t + fairness), upper, order, d)
    spent = (1.0 - share) * spent_low + share * spent_high
    return out, spent / total_w, low_t + share * (high_t - low_t), price_high
