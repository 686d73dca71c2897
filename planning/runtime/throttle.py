"""Throttles: controllers that turn observed load into the plan's parameter.

Time is passed in, so a throttle gives the same loads for the same observations. ``offered`` counts
items before shedding, ``kept`` those that passed.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from planning.errors import InvalidInput, check_between


class Throttle(Protocol):
    """Turns what a shedder sees into a load.

    Examples
    --------
    Any object with these two members will do, such as a load that a timetable prescribes:

    >>> class Timetable:
    ...     load = 1.0
    ...     def observe(self, now_s: float, offered: int, kept: int) -> float:
    ...         self.load = 0.3 if 9 <= now_s / 3600 % 24 < 17 else 1.0
    ...         return self.load
    >>> throttle: Throttle = Timetable()
    >>> [throttle.observe(hour * 3600.0, 100, 100) for hour in (8, 12, 17)]
    [1.0, 0.3, 1.0]
    """

    @property
    def load(self) -> float:
        """The load that plans are evaluated at now."""

    def observe(self, now_s: float, offered: int, kept: int) -> float:
        """Record items that arrived since the last call; return the load from now on."""


class FixedThrottle:
    """A load that something else has decided.

    Examples
    --------
    >>> FixedThrottle(0.5).observe(0.0, 1000, 500)
    0.5
    """

    def __init__(self, load: float) -> None:
        self.load = check_between("load", load, 0.0, 1.0, remedy="pass a fraction")

    def observe(self, now_s: float, offered: int, kept: int) -> float:
        """Return the load."""
        return self.load


class FeedForwardThrottle:
    """z = capacity / arrival rate, from the rate before shedding.

    Because shedding does not change what is measured, the loop cannot oscillate or get stuck. The
    rate is the larger of two: the mean over the window, and the mean over its latest tenths less
    two standard deviations of a Poisson count. So it responds to a burst within a fraction of
    a window but ignores noise. The load falls at once in a burst, by small amounts ten times per
    window, and it rises only when the new one is higher by more than ``hysteresis``.

    Parameters
    ----------
    capacity_per_s
        Items per second that may pass.
    window_s
        Memory; choose it no shorter than the time between two batches.
    hysteresis
        Relative change that is ignored.
    floor
        Smallest load: the filter never closes completely.

    Examples
    --------
    >>> throttle = FeedForwardThrottle(100.0, window_s=1.0)
    >>> for tenth in range(21):
    ...     load = throttle.observe(tenth / 10, offered=20, kept=20)
    >>> round(load, 6)
    0.5
    """

    SLOTS = 10

    def __init__(
        self,
        capacity_per_s: float,
        *,
        window_s: float = 1.0,
        hysteresis: float = 0.05,
        floor: float = 0.001,
    ) -> None:
        self.capacity_per_s = _positive("capacity_per_s", capacity_per_s)
        self.window_s = _positive("window_s", window_s)
        self.hysteresis = check_between("hysteresis", hysteresis, 0.0, 1.0)
        self.floor = check_between("floor", floor, 0.0, 1.0, open_low=True)
        self.load = 1.0
        # (end, items): the items arrived between the previous end and this one.
        self._slots: deque[tuple[float, int]] = deque()
        self._look_again = 0.0

    @property
    def rate_per_s(self) -> float:
        """The arrival rate that the load is based on."""
        if len(self._slots) < 2:
            return 0.0
        return max(self._mean_per_s(), self._latest_per_s())

    def observe(self, now_s: float, offered: int, kept: int = 0) -> float:
        """Record ``offered`` items that arrived since the last call."""
        new_slot = self._add(now_s, offered)
        latest = self._slots[-1][1]
        if len(self._slots) < 2 or not (new_slot or latest >= self._look_again):
            return self.load
        # A slot that fills item by item is evaluated whenever it has grown by a tenth.
        self._look_again = 1.1 * latest + 1
        rate = self.rate_per_s
        wanted = self.capacity_per_s / rate if rate > 0 else 1.0
        wanted = min(1.0, max(self.floor, wanted))
        # Within a slot only a burst counts, else every item would move the load a little.
        band = 1.0 if new_slot else 1.0 + self.hysteresis
        if wanted * band < self.load or wanted > self.load * (1.0 + self.hysteresis):
            self.load = wanted
        return self.load

    def _add(self, now_s: float, items: int) -> bool:
        """Count the items into the latest slot, or into a new one: then return True."""
        slots = self._slots
        if not slots:
            # What arrived before the first observation has no known duration.
            slots.append((now_s, 0))
            return True
        end, latest = slots[-1]
        now_s = max(now_s, end)
        if len(slots) > 1 and now_s - slots[-2][0] < self.window_s / self.SLOTS:
            slots[-1] = (now_s, latest + items)
            return False
        slots.append((now_s, items))
        while len(slots) > 2 and slots[1][0] <= now_s - self.window_s:
            slots.popleft()
        return True

    def _mean_per_s(self) -> float:
        return sum(items for _, items in self._recent(0)) / self._span_s(0)

    def _latest_per_s(self) -> float:
        first = max(0, len(self._slots) - 3)
        items = sum(items for _, items in self._recent(first))
        return (items - 2.0 * math.sqrt(items)) / self._span_s(first)

    def _recent(self, first: int) -> list[tuple[float, int]]:
        return list(self._slots)[first + 1 :]

    def _span_s(self, first: int) -> float:
        """Seconds since the end of slot ``first``; a pause counts as one window at most."""
        ends = [end for end, _ in list(self._slots)[first:]]
        spans = (b - a for a, b in zip(ends, ends[1:], strict=False))
        span = math.fsum(min(span, self.window_s) for span in spans)
        return max(span, self.window_s / self.SLOTS)


class ThrotLoop:
    """THROTLOOP: balances what enters a queue with what leaves it.

    Paper: LIRA, Section 3.4. With a queue of at most B items and utilisation rho = lambda / mu,
    every period u = rho / (1 - 1/B) and z = min(1, z / u). Deviations: z never falls below
    ``floor`` (the paper's z = 0 would stay 0 for ever) and changes by at most ``max_step`` per
    period, so that sources that follow late do not wind it up; without arrivals, u is 1/max_step.

    Parameters
    ----------
    max_queue
        B, at least 2: with 1 the utilisation would have to be 0.
    period_s
        Seconds between two adjustments.

    Examples
    --------
    A server that serves 100 items per second gets 200 per second; half of them must go:

    >>> throttle = ThrotLoop(max_queue=10, period_s=1.0)
    >>> for second in range(2):
    ...     throttle.served(items=100, busy_s=1.0)
    ...     load = throttle.observe(float(second), offered=200, kept=200)
    >>> round(load, 3)
    0.45
    """

    def __init__(
        self,
        max_queue: int,
        *,
        period_s: float = 1.0,
        floor: float = 0.001,
        max_step: float = 10.0,
    ) -> None:
        if max_queue < 2:
            raise InvalidInput(f"max_queue must be at least 2, got {max_queue}")
        if not max_step > 1:
            raise InvalidInput(f"max_step must be greater than 1, got {max_step}")
        self.max_queue = max_queue
        self.period_s = _positive("period_s", period_s)
        self.floor = check_between("floor", floor, 0.0, 1.0, open_low=True)
        self.max_step = max_step
        self.load = 1.0
        self._started_s: float | None = None
        self._kept = 0
        self._served = 0
        self._busy_s = 0.0
        self._service_per_s = 0.0

    def served(self, items: int, busy_s: float) -> None:
        """Record ``items`` served in ``busy_s`` seconds of work, not counting waiting."""
        self._served += items
        self._busy_s += busy_s

    def observe(self, now_s: float, offered: int, kept: int) -> float:
        """Record ``kept`` items that entered the queue; adjust once per period."""
        if self._started_s is None:
            self._started_s = now_s
            return self.load
        self._kept += kept
        elapsed = now_s - self._started_s
        if elapsed >= self.period_s:
            if self._served and self._busy_s > 0:
                self._service_per_s = self._served / self._busy_s
            if self._service_per_s > 0:
                self.step(self._kept / elapsed, self._service_per_s)
            self._started_s, self._kept, self._served, self._busy_s = now_s, 0, 0, 0.0
        return self.load

    def step(self, arrivals_per_s: float, service_per_s: float) -> float:
        """Adjust for one period with arrival rate lambda and service rate mu.

        >>> loop = ThrotLoop(max_queue=10)
        >>> round(loop.step(200.0, 100.0), 3)
        0.45
        >>> round(loop.step(90.0, 100.0), 3)
        0.45
        >>> loop.step(0.0, 100.0)
        1.0
        """
        utilisation = arrivals_per_s / service_per_s
        u = utilisation / (1.0 - 1.0 / self.max_queue)
        u = min(self.max_step, max(1.0 / self.max_step, u))
        self.load = min(1.0, max(self.floor, self.load / u))
        return self.load


def _positive(field: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise InvalidInput(f"{field} must be a positive number, got {value}")
    return float(value)
