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

Guarantees break that form. :class:`GuaranteedPath` holds what OR-Tools found for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from planning.arrays import BoolArray, FloatArray, IntArray, frozen
from planning.errors import InvalidInput, check_between
from planning.guarantees import NOWHERE, Guarantee
from planning.lira.kernels import inner
from planning.lira.model import ReductionCurve

LARGEST_PRICE = 1e60  # of normalised problems: Σ m = Σ w = 1
SMALLEST_PRICE = 1e-60


@dataclass(frozen=True, slots=True, eq=False)
class PathPoint:
    """The update throttlers at one throttle fraction.

    Attributes
    ----------
    throttlers
        Δ_i, metres.
    expenditure
        Σ w_i·f(Δ_i) / Σ w_i on the convex f: z, or as close as throttlers get.
    inaccuracy
        Σ m_i·Δ_i.
    window
        Lower end t of the fairness window.
    price
        λ: inaccuracy that one more update of budget would save; 0 while regions without queries
        pay for everything.
    """

    throttlers: FloatArray
    expenditure: float
    inaccuracy: float
    window: float
    price: float


class _Problem(NamedTuple):
    """The sorted regions, f and the windows, as the compiled functions take them."""

    order: Any  # regions by ascending m/w
    ratio: Any  # sorted m/w of the normalised problem
    below_w: Any  # prefix sums of normalised w in that order, length l + 1
    below_m: Any  # prefix sums of normalised m
    d: Any  # breakpoints d_k
    f: Any  # the convex f at them
    rates: Any  # r_k
    windows: Any  # candidates of t
    low_segment: Any  # segment right of t
    high_segment: Any  # segment right of t + F
    fairness: float


class _Ends(NamedTuple):
    """How many regions cross each segment at the lowest and the highest price."""

    zeros: int  # regions without queries
    finite: int  # regions with update weight
    lower: IntArray
    upper: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ThrottlerPath:
    """All exact settings of one partition; ``at(z)`` is a point on the path.

    >>> from planning.lira.model import ReductionCurve
    >>> curve = ReductionCurve.of([5, 10, 15], [1.0, 0.5, 0.3])
    >>> path = ThrottlerPath.of([2.0, 0.0], [1.0, 1.0], curve, fairness_threshold=10)
    >>> path.at(0.75).throttlers.tolist()
    [5.0, 10.0]
    >>> path.at(0.5).throttlers.tolist()
    [8.0, 15.0]
    """

    importance: FloatArray  # m_i
    weight: FloatArray  # w_i
    problem: _Problem
    ends: _Ends

    @classmethod
    def of(
        cls,
        importance: ArrayLike,
        weight: ArrayLike,
        curve: ReductionCurve,
        fairness_threshold: float,
    ) -> ThrottlerPath:
        """Sort m/w and take prefix sums: everything that all throttle fractions share."""
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
        d, f = curve.thresholds, curve.hull
        rates = np.maximum((f[:-1] - f[1:]) / np.diff(d), 0.0)
        rates = np.minimum.accumulate(rates)  # convex up to rounding: make it so exactly
        order, ratio, below_w, below_m = _sorted_sums(scaled_m, scaled_w)
        windows, low, high = _window_candidates(d, fairness)
        problem = _Problem(
            order, ratio, below_w, below_m, d, f, frozen(rates), windows, low, high, fairness
        )
        return cls(frozen(m), frozen(w), problem, _ends(problem))

    def at(self, throttle_fraction: float) -> PathPoint:
        """Return the optimal throttlers at z; unreachable budgets get the highest useful ones."""
        z = check_between("throttle_fraction", throttle_fraction, 0, 1, remedy="pass a fraction")
        throttlers, expenditure, window, price = self._solved(z)
        throttlers.flags.writeable = False
        inaccuracy = float(self.importance @ throttlers)
        scale = self.importance.sum() / max(self.weight.sum(), 1e-300)
        return PathPoint(
            throttlers, float(expenditure), inaccuracy, float(window), float(price * scale)
        )

    def throttlers(self, z: float) -> FloatArray:
        """Return the throttlers alone, for a z that has been checked."""
        return self._solved(z)[0]

    def _solved(self, z: float) -> tuple[FloatArray, float, float, float]:
        """Return throttlers, expenditure, window and price."""
        p = self.problem
        l, total_w = p.order.size, p.below_w[-1]  # noqa: E741
        out = np.full(l, p.d[0])
        if total_w == 0.0 or z >= 1.0:
            return out, 1.0 if total_w > 0.0 else 0.0, p.d[0], 0.0
        if p.below_m[l] == 0.0:
            level, reduced = _even(p, z, l, p.d[-1])
            out[:] = level
            return out, reduced, max(p.d[0], level - p.fairness), 0.0
        zeros, finite, lower, upper = self.ends
        lower, upper, counts = lower.copy(), upper.copy(), np.empty_like(lower)
        before, after, share, spent, price = _between(p, z, finite, lower, upper, counts)
        if price > 0.0:
            here, there = _vertex(p, before, lower), _vertex(p, after, upper)
            out[p.order] = here + share * (there - here) if share < 1.0 else there
            t, other = p.windows[before], p.windows[after]
            return out, spent, t + share * (other - t), price
        # Price 0+: regions without queries rise as far as fairness allows; everything else stays.
        level, reduced = _even(p, z, zeros, min(p.d[-1], p.windows[0] + p.fairness))
        out[p.order[:zeros]] = level
        spent = total_w - p.below_w[zeros] * (1.0 - reduced)
        return out, spent / total_w, p.d[0], 0.0


@dataclass(frozen=True, slots=True, eq=False)
class GuaranteedPath:
    """Throttlers of levels that keep guarantees: solved at some loads, mixed in between.

    Attributes
    ----------
    loads
        Rising.
    places
        Row b: every level's place on the error axis at load b; none rises with the load.
    guarantees, looks
        The most important first; ``looks[g, i]`` tells whether guarantee g is about level i.
    error
        What mixing loses at most: of the objective as a share of what Δmax everywhere would cost,
        and of what a guarantee is exceeded by.
    """

    loads: FloatArray
    places: FloatArray
    guarantees: tuple[Guarantee, ...]
    looks: BoolArray
    error: float

    def __post_init__(self) -> None:
        value, held = np.array([[g.value, g.holds_from] for g in self.guarantees]).reshape(-1, 2).T
        fits = (
            2 <= len(self.places) == self.loads.size
            and self.looks.shape == (value.size, self.places.shape[1])
            and bool((np.diff(self.loads) > 0.0).all() and 0.0 <= self.loads[0])
            and bool(self.loads[-1] <= 1.0 and np.isfinite(self.places).all())
            and bool((self.places >= 0.0).all() and (np.diff(self.places, axis=0) <= 0.0).all())
            and bool(((value > 0.0) & (value < np.inf)).all())
            and bool(((held >= 0.0) & (held <= NOWHERE)).all())
            and 0.0 <= self.error < np.inf
        )
        if not fits:
            raise InvalidInput(
                "throttlers with guarantees must be finite, at two or more rising loads in [0, 1], "
                "never rising with them, and their guarantees positive numbers"
            )

    @property
    def most(self) -> FloatArray:
        """The lowest ``max_delta`` asked for on every level, ∞ where nobody asks."""
        values = np.array([g.value for g in self.guarantees]).reshape(-1, 1)
        return np.asarray(np.where(self.looks, values, np.inf).min(axis=0, initial=np.inf))

    def throttlers(self, z: float) -> FloatArray:
        """Return the places at a load; beyond the first and the last, theirs."""
        right = min(max(int(self.loads.searchsorted(z)), 1), self.loads.size - 1)
        low, high = self.loads[right - 1], self.loads[right]
        part = min(max((z - low) / (high - low), 0.0), 1.0)
        here = self.places[right - 1]
        return np.asarray(here + part * (self.places[right] - here))


def _amounts(field: str, values: ArrayLike) -> FloatArray:
    array = np.ascontiguousarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        finite = np.isfinite(array.sum())
    if array.ndim != 1 or not finite or (array < 0).any():
        raise InvalidInput(f"{field} must be a list of numbers of at least 0 with a finite sum")
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


def _sorted_sums(
    m: FloatArray, w: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Order of m/w (∞ where w = 0 < m, 0 where m = 0), the ratios, and prefix sums of w and m."""
    ratio = np.where(m > 0.0, np.inf, 0.0)
    with np.errstate(over="ignore"):
        np.divide(m, w, out=ratio, where=(m > 0.0) & (w > 0.0))
    order = ratio.argsort(kind="stable")
    below_w, below_m = (np.concatenate([[0.0], np.cumsum(a[order])]) for a in (w, m))
    return order, ratio[order], below_w, below_m


def _ends(p: _Problem) -> _Ends:
    zeros, finite = p.ratio.searchsorted([0.0, 1.7e308], side="right").tolist()
    falls = p.rates > 0.0
    return _Ends(zeros, finite, np.where(falls, zeros, 0), np.where(falls, finite, 0))


def _vertex(p: _Problem, window: int, counts: IntArray) -> FloatArray:
    """Return Δ by ascending m/w: the last breakpoint crossed, where segment k is by counts[k]."""
    crossed = (-counts).searchsorted(-np.arange(p.order.size))
    t = p.windows[window]
    return np.asarray(np.minimum(np.maximum(p.d[crossed], t), min(p.d[-1], t + p.fairness)))


def _even(p: _Problem, z: float, zeros: int, top: float) -> tuple[float, float]:
    """Spend the budget on the first ``zeros`` regions of the order; return their Δ, and f there."""
    d, f, below_w = p.d, p.f, p.below_w
    rest = below_w[-1] - below_w[zeros]
    wanted = (z * below_w[-1] - rest) / below_w[zeros] if below_w[zeros] > 0 else 1.0
    level = top
    reached = np.flatnonzero(f[1:] <= wanted)
    if reached.size:
        k = reached[0]
        span = f[k] - f[k + 1]
        share = (f[k] - wanted) / span if span > 0 else 0.0
        level = min(d[k] + min(max(share, 0.0), 1.0) * (d[k + 1] - d[k]), top)
    k = int(d.searchsorted(level, side="right")) - 1
    if k == d.size - 1 or d[k] == level:
        return level, f[k]
    return level, (f[k + 1] - f[k]) / (d[k + 1] - d[k]) * (level - d[k]) + f[k]


@inner
def _crossing(ratio, limit, low, high):  # type: ignore[no-untyped-def]
    """Count the regions whose ratio is at most ``limit``, known to be in [low, high]."""
    while low < high:
        middle = (low + high) >> 1
        if ratio[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _window(p, price, counts):  # type: ignore[no-untyped-def]
    """Index of the best window for a price: the first where holding up hurts more than it helps."""
    total_w, total_m = p.below_w[-1], p.below_m[-1]
    first, last = 0, p.low_segment.size - 1
    while first < last:
        middle = (first + last) >> 1
        k = p.low_segment[middle]
        q = counts[k]
        limit = price * p.rates[k]
        held_up = (total_m - p.below_m[q]) - limit * (total_w - p.below_w[q])
        k = p.high_segment[middle]
        q = counts[k]
        held_down = price * p.rates[k] * p.below_w[q] - p.below_m[q]
        if held_up >= held_down:
            last = middle
        else:
            first = middle + 1
    return first


@inner
def _expenditure(p, window, counts):  # type: ignore[no-untyped-def]
    """Σ w·f(Δ) when segment k inside the window is crossed by its first counts[k] regions."""
    d, f, t = p.d, p.f, p.windows[window]
    top = min(d[-1], t + p.fairness)
    low, high = p.low_segment[window], p.high_segment[window]
    share = (t - d[low]) / (d[low + 1] - d[low])
    total = p.below_w[-1] * (f[low] + share * (f[low + 1] - f[low]))
    for k in range(low, high + 1):
        start = max(d[k], t)
        end = min(d[k + 1], top)
        if end > start:
            total -= (end - start) * p.rates[k] * p.below_w[counts[k]]
    return total


@inner
def _bracket(p, target, lower, spent_low, upper, at_high, spent_high, counts):  # type: ignore[no-untyped-def]
    """Bisect the price until the target lies between two neighbouring vertices.

    ``lower`` and ``upper`` are set to how many regions cross each segment at the two. Returns
    window and expenditure below and above, and the price above.
    """
    at_low = 0
    price_low, price_high = SMALLEST_PRICE, LARGEST_PRICE
    while True:
        moved = 0
        for k in range(lower.size):
            if lower[k] < upper[k]:  # regions of equal ratio cross together: one event
                moved += 1 if p.ratio[lower[k]] == p.ratio[upper[k] - 1] else 2
        if (moved <= 1 and at_low == at_high) or (moved == 0 and at_high - at_low <= 1):
            break
        if price_high / price_low > 4.0:
            price = np.sqrt(price_low) * np.sqrt(price_high)
        else:
            price = 0.5 * (price_low + price_high)
        if price <= price_low or price >= price_high:
            break
        for k in range(lower.size):
            counts[k] = _crossing(p.ratio, price * p.rates[k], lower[k], upper[k])
        here = min(max(_window(p, price, counts), at_low), at_high)
        spent = _expenditure(p, here, counts)
        if spent > target:
            price_low, at_low, spent_low = price, here, spent
            nearer = lower
        else:
            price_high, at_high, spent_high = price, here, spent
            nearer = upper
        for k in range(lower.size):
            nearer[k] = counts[k]
    return at_low, spent_low, at_high, spent_high, price_high


@njit(cache=True)
def _between(p, z, finite, lower, upper, counts):  # type: ignore[no-untyped-def]
    """Find the vertices before and after the price at which the budget is met.

    Returns their windows, the share of the way from one to the other, expenditure and price; the
    price is 0 if regions without queries can pay for it all. ``lower`` and ``upper`` are set to how
    many regions cross each segment at the two.
    """
    total_w, first = p.below_w[-1], p.order.size * 0
    spent_low = _expenditure(p, first, lower)
    if z * total_w >= spent_low:
        return first, first, 0.0, 0.0, 0.0
    # As the price grows, the window ends where its upper end meets the last falling segment.
    last = p.windows.size - 1
    while last > 0 and p.rates[p.high_segment[last - 1]] == 0.0:
        last -= 1
    if p.below_w[finite] == 0.0:
        last = 0
    spent_high = _expenditure(p, last, upper)
    target = max(z * total_w, spent_high)
    at_low, spent_low, at_high, spent_high, price = _bracket(
        p, target, lower, spent_low, upper, last, spent_high, counts
    )
    share = (spent_low - target) / (spent_low - spent_high) if spent_low > spent_high else 1.0
    share = min(max(share, 0.0), 1.0)
    spent = (1.0 - share) * spent_low + share * spent_high
    return at_low, at_high, share, spent / total_w, price
