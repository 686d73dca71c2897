"""Throttles that hold what passes to a capacity, by a bucket of tokens and the arrival rate."""

from __future__ import annotations

import math
import threading
from collections import deque

from planning.errors import check_between
from planning.runtime.throttle import Throttle, positive


class ArrivalRate:
    """The arrival rate of the last window, quick to notice a burst.

    It is the larger of two: the mean over the window, and the mean over its latest slots less two
    standard deviations of a Poisson count. A pause counts as one window at most.

    >>> rate = ArrivalRate(window_s=1.0, slot_s=0.1)
    >>> for tenth in range(30):
    ...     rate.add(tenth / 10, 20)
    >>> round(rate.per_s, 6)
    200.0
    """

    LATEST = 2  # slots

    def __init__(self, window_s: float, slot_s: float) -> None:
        self.window_s = window_s
        self.slot_s = slot_s
        self.per_s = 0.0
        # (end, amount): what arrived between the previous end and this one.
        self._slots: deque[tuple[float, float]] = deque()
        self._look_again = 0.0

    def add(self, now_s: float, amount: float) -> None:
        """Count what arrived since the last call."""
        slots = self._slots
        if not slots:
            # What arrived before the first call has no known duration.
            slots.append((now_s, 0.0))
            return
        end, latest = slots[-1]
        now_s = max(now_s, end)
        if len(slots) > 1 and now_s - slots[-2][0] < self.slot_s:
            slots[-1] = (now_s, latest + amount)
            # A slot that fills item by item is looked at whenever it has grown by a tenth.
            if latest + amount < self._look_again:
                return
        else:
            slots.append((now_s, amount))
            while len(slots) > 2 and slots[1][0] <= now_s - self.window_s:
                slots.popleft()
        self._look_again = 1.1 * slots[-1][1] + 1.0
        self.per_s = max(self._mean(0, 0.0), self._mean(max(0, len(slots) - 1 - self.LATEST), 2.0))

    def _mean(self, first: int, deviations: float) -> float:
        """Return the rate since the end of slot ``first``, less standard deviations."""
        slots = list(self._slots)[first:]
        amount = math.fsum(items for _, items in slots[1:])
        spans = (b[0] - a[0] for a, b in zip(slots, slots[1:], strict=False))
        span_s = math.fsum(min(span, self.window_s) for span in spans)
        return (amount - deviations * math.sqrt(amount)) / max(span_s, self.slot_s)


class Bucket:
    """Tokens that come in at a rate and are saved up to a depth; they may be owed.

    >>> bucket = Bucket(rate=10.0, depth=5.0)
    >>> bucket.at(0.0), bucket.spend(5.0), bucket.at(0.1)
    (5.0, None, 1.0)
    """

    def __init__(self, rate: float, depth: float) -> None:
        self.rate = rate
        self.depth = depth
        # Counted from one moment on, so that no rounding adds up over many small steps.
        self._since_s: float | None = None
        self._then = depth
        self._spent = 0.0
        self.tokens = depth

    def at(self, now_s: float) -> float:
        """Return the tokens there are at a moment, no earlier than the last one."""
        if self._since_s is None:
            self._since_s = now_s
        self.tokens = self._then + self.rate * (now_s - self._since_s) - self._spent
        if self.tokens >= self.depth:
            self.tokens = self._then = self.depth
            self._since_s, self._spent = now_s, 0.0
        return self.tokens

    def spend(self, tokens: float) -> None:
        """Take tokens, also those that are not there yet."""
        self._spent += tokens
        self.tokens -= tokens

    def change(self, now_s: float, rate: float, depth: float) -> None:
        """Go on with another rate and depth, and with the tokens that fit; none come along.

        >>> bucket = Bucket(rate=10.0, depth=5.0)
        >>> bucket.at(0.0), bucket.change(0.0, 1.0, 3.0), bucket.change(0.0, 2.0, 9.0)
        (5.0, None, None)
        >>> bucket.at(1.0)
        5.0
        """
        self._then = self.tokens = min(self.at(now_s), depth)
        self.rate, self.depth, self._since_s, self._spent = rate, depth, now_s, 0.0


class FeedForwardThrottle(Throttle):
    """Holds what passes to a capacity: passed <= capacity x time + slack, in every stretch of time.

    The promise is kept by a bucket of tokens, which is the hard limit of every batch. The load
    makes sure that the limit seldom bites, and that no capacity is wasted: it is the capacity over
    the arrival rate, corrected towards a half-full bucket and by how much plans were off; at least
    what the bucket could not hold until the next batch, and at most what it has.

    The rate is the larger of two: the mean over the window, and the mean over its latest tenths
    less two standard deviations of a Poisson count. So it follows a burst within a fraction of a
    window but ignores noise.

    Parameters
    ----------
    capacity_per_s
        What may pass per second, in the family's unit.
    window_s
        Memory of the arrival rate.
    slack
        What may pass at once beyond capacity x time; by default what passes in one second, and at
        least 1. Batches further apart than ``slack / capacity_per_s`` seconds leave capacity
        unused.
    hysteresis
        Relative change of the load that is ignored.
    floor
        Smallest load that the plan is asked for.

    Examples
    --------
    >>> throttle = FeedForwardThrottle(100.0)
    >>> for tenth in range(40):
    ...     load = throttle.before(tenth / 10, offered=20)
    ...     throttle.after(passed=min(20 * load, throttle.allowed()))
    >>> round(load, 1)
    0.5
    """

    SLOTS = 10
    PULL = 0.2  # how far a full or an empty bucket moves the load
    of_share = True

    def __init__(
        self,
        capacity_per_s: float,
        *,
        window_s: float = 1.0,
        slack: float | None = None,
        hysteresis: float = 0.05,
        floor: float = 0.001,
    ) -> None:
        self.capacity_per_s = positive("capacity_per_s", capacity_per_s)
        self.window_s = positive("window_s", window_s)
        self.slack = max(1.0, capacity_per_s) if slack is None else positive("slack", slack)
        self.hysteresis = check_between("hysteresis", hysteresis, 0.0, 1.0)
        self.floor = check_between("floor", floor, 0.0, 1.0, open_low=True)
        self._share = 1.0
        self._bucket = Bucket(self.capacity_per_s, self.slack)
        self._rate = ArrivalRate(self.window_s, self.window_s / self.SLOTS)
        self._now_s = -math.inf
        self._gap_s = 0.0
        self._offered = 0.0
        self._asked = 0.0
        self._kept = 0.0

    @property
    def load(self) -> float:  # type: ignore[override]
        """The share that the plan is asked for now."""
        return self._share

    @property
    def rate_per_s(self) -> float:
        """The arrival rate that the load is based on."""
        return self._rate.per_s

    def before(self, now_s: float, offered: float) -> float:
        """Return the share of a batch that the plan is asked for."""
        now_s = max(now_s, self._now_s)
        if math.isfinite(self._now_s):
            self._gap_s = now_s - self._now_s
        self._now_s = now_s
        tokens = self._bucket.at(now_s)
        self._rate.add(now_s, offered)
        if offered > 0:
            self._share = self._aim(tokens, offered)
        self._offered = offered
        return self._share

    def allowed(self) -> int:
        """Return how much of this batch may pass: the tokens there are."""
        return max(0, int(self._bucket.tokens + 1e-9))

    def after(self, passed: float, cut: float = 0.0) -> None:
        """Pay for what passed; learn how much plans let pass of what they are asked for."""
        self._bucket.spend(passed)
        if 0.0 < self._share < 1.0:
            fade = math.exp(-self._gap_s / self.window_s)
            self._asked = self._asked * fade + self._share * self._offered
            self._kept = self._kept * fade + passed + cut

    def _aim(self, tokens: float, offered: float) -> float:
        yielded = self._yield()
        rate = self._rate.per_s
        smooth = self.capacity_per_s / rate if rate > 0 else 1.0
        smooth *= 1.0 + self.PULL * (2.0 * tokens / self.slack - 1.0)
        overflowing = tokens + self.capacity_per_s * self._gap_s - self.slack
        most = min(1.0, max(tokens, 0.0) / (offered * yielded))
        least = min(most, max(overflowing, 0.0) / (offered * yielded))
        wanted = max(least, self.floor, min(most, smooth / yielded))
        near = wanted <= self._share * (1.0 + self.hysteresis) and self._share <= most
        if near and self._share <= wanted * (1.0 + self.hysteresis) and self._share >= least:
            return self._share
        return min(1.0, wanted)

    def _yield(self) -> float:
        """Return what passes per unit that the plan is asked for; 1 until there is experience."""
        if self._asked < 1.0:
            return 1.0
        return min(max(self._kept / self._asked, 0.1), 2.0)


class CpuShare(FeedForwardThrottle):
    """Holds the work behind the shedder to a share of one core, by its measured time.

    The operator reports its work with :meth:`served`; what a unit costs is learned from it.

    Parameters
    ----------
    share
        Seconds of work per second.
    unit_cost_s
        What a unit costs until the operator has reported.
    slack_s
        Seconds of work that may be let in at once.

    Examples
    --------
    >>> throttle = CpuShare(0.5, unit_cost_s=0.001)
    >>> throttle.before(0.0, offered=1000), throttle.allowed()
    (0.5, 500)
    """

    SMOOTHING = 0.2  # weight of the newest report in the cost of a unit

    def __init__(
        self,
        share: float,
        *,
        unit_cost_s: float = 1e-6,
        slack_s: float | None = None,
        window_s: float = 1.0,
    ) -> None:
        check_between("share", share, 0.0, 1.0, open_low=True)
        super().__init__(share, window_s=window_s, slack=share if slack_s is None else slack_s)
        self.unit_cost_s = positive("unit_cost_s", unit_cost_s)
        self._lock = threading.Lock()  # the operator reports from a thread of its own

    def before(self, now_s: float, offered: float) -> float:
        """Return the share of a batch that the plan is asked for."""
        return super().before(now_s, offered * self.unit_cost_s)

    def allowed(self) -> int:
        """Return how many units the seconds there are will do for."""
        return max(0, int(self._bucket.tokens / self.unit_cost_s + 1e-9))

    def after(self, passed: float, cut: float = 0.0) -> None:
        """Pay for what passed at the cost known so far; :meth:`served` settles the rest."""
        with self._lock:
            super().after(passed * self.unit_cost_s, cut * self.unit_cost_s)

    def served(self, units: float, busy_s: float) -> None:
        """Record ``units`` of work done in ``busy_s`` seconds of processor time."""
        if not (units > 0 and busy_s >= 0 and math.isfinite(busy_s)):
            return
        with self._lock:
            self._bucket.spend(busy_s - units * self.unit_cost_s)
            learned = max(busy_s / units, 1e-12) - self.unit_cost_s
            self.unit_cost_s += self.SMOOTHING * learned
