"""The paper's throttle: it balances what enters a queue with what leaves it."""

from __future__ import annotations

import math
import threading

from planning.errors import InvalidInput, check_between
from planning.runtime.throttle import Throttle, positive


class ThrotLoop(Throttle):
    """THROTLOOP: balances what enters a queue with what leaves it, and keeps the queue below B.

    Paper: LIRA, Section 3.4. With a queue of at most B items and utilisation rho = lambda / mu,
    every period u = rho / (1 - 1/B) and z = min(1, z / u). Deviations: z never falls below
    ``floor`` (the paper's z = 0 would stay 0 for ever) and changes by at most ``max_step`` per
    period, so that sources that follow late do not wind it up; without arrivals, u is 1/max_step;
    and no batch is let in beyond the room that the queue has, so that it stays below B under any
    pattern of arrivals.

    Parameters
    ----------
    max_queue
        B, at least 2: with 1 the utilisation would have to be 0.
    period_s
        Seconds between two adjustments.

    Examples
    --------
    A server that serves 100 items per second gets 200 per second; half of them must go:

    >>> throttle = ThrotLoop(max_queue=250, period_s=1.0)
    >>> for second in range(2):
    ...     load = throttle.before(float(second), offered=200)
    ...     throttle.after(passed=round(200 * load))
    ...     throttle.served(items=100, busy_s=1.0)
    >>> round(throttle.before(2.0, offered=200), 3), throttle.queue, throttle.allowed()
    (0.496, 100, 149)
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
        self.period_s = positive("period_s", period_s)
        self.floor = check_between("floor", floor, 0.0, 1.0, open_low=True)
        self.max_step = max_step
        self.load: float = 1.0
        self.queue = 0
        self._lock = threading.Lock()  # the server reports from a thread of its own
        self._started_s: float | None = None
        self._entered = 0.0
        self._served = 0
        self._busy_s = 0.0
        self._service_per_s = 0.0

    def served(self, items: int, busy_s: float) -> None:
        """Record ``items`` served in ``busy_s`` seconds of work, not counting waiting."""
        with self._lock:
            self._served += items
            self._busy_s += busy_s
            self.queue = max(0, self.queue - items)

    def before(self, now_s: float, offered: float) -> float:
        """Return the load; it is adjusted once per period."""
        if self._started_s is None:
            self._started_s = now_s
        elapsed = now_s - self._started_s
        if elapsed >= self.period_s:
            if self._served and self._busy_s > 0:
                self._service_per_s = self._served / self._busy_s
            if self._service_per_s > 0:
                self.step(self._entered / elapsed, self._service_per_s)
            with self._lock:
                self._started_s, self._entered, self._served, self._busy_s = now_s, 0, 0, 0.0
        return self.load

    def allowed(self) -> int:
        """Return the room that the queue has: it stays below B."""
        return max(0, self.max_queue - 1 - self.queue)

    def after(self, passed: float, cut: float = 0.0) -> None:
        """Record what entered the queue; what its limit cut would have entered, too."""
        with self._lock:
            self._entered += passed + cut
            self.queue += math.ceil(passed)

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
