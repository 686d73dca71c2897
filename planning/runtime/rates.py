"""A throttle for plans over rate vectors: it measures and predicts the rate of every input."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from planning.errors import InvalidInput, check_between
from planning.runtime.throttle import Throttle, positive


class RateMonitor(Throttle):
    """Rates by input, predicted one period ahead with head room, as FIT's plans want them.

    Every period the rate of each input is predicted for the next one: the line through the last
    periods, extended by one, plus ``head_room`` standard deviations of what it left unexplained.
    A count that exceeds the prediction before its period is over replaces it at once.

    Parameters
    ----------
    period_s
        Seconds that a prediction holds.
    periods
        Memory, in periods.
    head_room
        Standard deviations above the prediction; 0 plans for the mean.
    uniform_share
        What passes before the first plan, of whatever arrives: without a plan nobody knows what
        the servers can take.

    Examples
    --------
    An input that rises by 10 per second from 100, and one that stays at 50:

    >>> monitor = RateMonitor(period_s=1.0, head_room=0.0)
    >>> for second in range(8):
    ...     rates = monitor.before(float(second), {"i1": 100 + 10 * second, "i2": 50})
    >>> {name: round(rate, 6) for name, rate in rates.items()}
    {'i1': 170.0, 'i2': 50.0}
    """

    per_input = True

    def __init__(
        self,
        *,
        period_s: float = 1.0,
        periods: int = 10,
        head_room: float = 2.0,
        uniform_share: float = 1.0,
    ) -> None:
        if periods < 3:
            raise InvalidInput(f"periods must be at least 3, got {periods}")
        self.period_s = positive("period_s", period_s)
        self.periods = periods
        self.head_room = check_between("head_room", head_room, 0.0, 100.0)
        self.uniform_share = check_between("uniform_share", uniform_share, 0.0, 1.0)
        self.load: Mapping[str, float] = {}
        self._started_s: float | None = None
        self._counts: dict[str, float] = {}
        self._past: dict[str, deque[float]] = {}

    def before(self, now_s: float, offered: Any) -> Mapping[str, float]:
        """Return the rates for a batch of ``offered`` items by input."""
        if self._started_s is None:
            self._started_s = now_s
        elapsed_s = now_s - self._started_s
        if elapsed_s >= self.period_s:
            self._close(elapsed_s)
            self._started_s = now_s
        changed = False
        for name, count in offered.items():
            total = self._counts[name] = self._counts.get(name, 0.0) + count
            if total / self.period_s > self.load.get(name, -1.0):
                changed = True
        if changed:
            self.load = {
                name: max(self.load.get(name, 0.0), total / self.period_s)
                for name, total in self._counts.items()
            }
        return self.load

    def _close(self, elapsed_s: float) -> None:
        """End a period: remember its rates and predict the next."""
        for name, count in self._counts.items():
            past = self._past.setdefault(name, deque(maxlen=self.periods))
            past.append(count / elapsed_s)
        self._counts = dict.fromkeys(self._counts, 0.0)
        self.load = {name: self._predicted(list(past)) for name, past in self._past.items()}

    def _predicted(self, rates: list[float]) -> float:
        """Return next period's rate: a least-squares line, one step on, and the head room."""
        n = len(rates)
        mean = math.fsum(rates) / n
        if n < 3:
            return max(rates) + self.head_room * math.sqrt(max(rates) / self.period_s)
        middle = (n - 1) / 2.0
        spread = math.fsum((k - middle) ** 2 for k in range(n))
        slope = math.fsum((k - middle) * rate for k, rate in enumerate(rates)) / spread
        left = math.fsum((rate - mean - slope * (k - middle)) ** 2 for k, rate in enumerate(rates))
        deviation = math.sqrt(left / (n - 2))
        return max(0.0, mean + slope * (n - middle)) + self.head_room * deviation
