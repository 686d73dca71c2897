"""A throttle for plans over rate vectors: it measures and predicts the rate of every input."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from planning.errors import InvalidInput, check_between
from planning.runtime.throttle import Throttle, positive

SHORTEST = 0.02
"""Memory of an estimate, in periods, at least."""
ENOUGH = 20
"""Items of an input that its estimate rests on, unless its memory is at a bound."""


class RateMonitor(Throttle):
    """Rates by input, predicted with head room, as FIT's plans want them.

    A rate is an exponential mean of what has arrived, the batch at hand included, over about
    twenty items, but at least a fiftieth of a period: what passes within a period then fits its
    rates, although they change from one to the next. Added are ``head_room`` times the root of the
    mean square by which the last periods differed from what was believed while they lasted. Time
    counts between batches that hold something of an input, so batches of any length, from many in a
    period to one for several, lead to the same rates. A count that exceeds a period's is believed
    at once.

    Parameters
    ----------
    period_s
        Seconds over which servers must be able to do what they are sent.
    periods
        Memory for deviations, and the longest time that one batch may stand for, in periods.
    head_room
        Standard deviations above the prediction; 0 plans for the mean.
    uniform_share
        What passes before the first plan, of whatever arrives: without a plan nobody knows what
        the servers can take.

    Examples
    --------
    An input that doubles after four seconds, and one that stays at 50:

    >>> monitor = RateMonitor(period_s=1.0, head_room=0.0)
    >>> for tenth in range(80):
    ...     rates = monitor.before(tenth / 10, {"i1": 10 if tenth < 40 else 20, "i2": 5})
    >>> {name: round(rate, 3) for name, rate in rates.items()}
    {'i1': 200.0, 'i2': 50.0}
    """

    per_input = True

    def __init__(
        self,
        *,
        period_s: float = 1.0,
        periods: int = 10,
        head_room: float = 1.0,
        uniform_share: float = 1.0,
    ) -> None:
        if periods < 3:
            raise InvalidInput(f"periods must be at least 3, got {periods}")
        self.period_s = positive("period_s", period_s)
        self.periods = periods
        self.head_room = check_between("head_room", head_room, 0.0, 100.0)
        self.uniform_share = check_between("uniform_share", uniform_share, 0.0, 1.0)
        self.load: Mapping[str, float] = {}
        self._began_s: float | None = None  # of the step
        self._last_s = 0.0
        self._age_s = 0.0
        self._next_s = SHORTEST * self.period_s
        self._counts: dict[str, float] = {}  # of the step
        self._rates: dict[str, float] = {}
        self._passed_s = 0.0  # of the period
        self._missed: dict[str, float] = {}  # items of the period that were not predicted
        self._squares: dict[str, deque[float]] = {}
        self._room: dict[str, float] = {}

    def before(self, now_s: float, offered: Any) -> Mapping[str, float]:
        """Return the rates for a batch of ``offered`` items by input."""
        if not any(offered.values()):
            return self.load
        if self._began_s is None:  # nobody knows how long it took to come
            self._began_s = self._last_s = now_s
            self.load = {name: count / self.period_s for name, count in offered.items()}
            return self.load
        for name, count in offered.items():
            self._counts[name] = self._counts.get(name, 0.0) + count
        elapsed_s = now_s - self._began_s
        if elapsed_s >= self._next_s * (1.0 - 1e-9):
            self._step(min(elapsed_s, self.periods * self.period_s))
            self._began_s = now_s
        else:
            seen = {name: count / self.period_s for name, count in self._counts.items()}
            if any(rate > self.load.get(name, -1.0) for name, rate in seen.items()):
                self.load = {**self.load, **{n: max(self.load.get(n, 0.0), seen[n]) for n in seen}}
        self._compare(now_s - self._last_s, offered)
        self._last_s = now_s
        return self.load

    def _compare(self, elapsed_s: float, offered: Mapping[str, float]) -> None:
        """Learn by how much what came in a period differs from what was believed meanwhile."""
        for name, count in offered.items():
            believed = self._rates.get(name, 0.0) * elapsed_s
            self._missed[name] = self._missed.get(name, 0.0) + count - believed
        self._passed_s += elapsed_s
        if self._passed_s < self.period_s * (1.0 - 1e-9):
            return
        for name, missed in self._missed.items():
            squares = self._squares.setdefault(name, deque(maxlen=self.periods))
            squares.append((missed / self._passed_s) ** 2)
            self._room[name] = self.head_room * math.sqrt(math.fsum(squares) / len(squares))
        self._missed, self._passed_s = {}, 0.0

    def _step(self, elapsed_s: float) -> None:
        """Take what has arrived into the estimates."""
        self._age_s += elapsed_s
        self._next_s = self.period_s / 20.0
        for name, count in self._counts.items():
            rate = self._rates.setdefault(name, count / elapsed_s)
            memory = min(max(ENOUGH / max(rate * self.period_s, 1e-9), SHORTEST), self.periods)
            memory_s = memory * self.period_s
            weight = math.expm1(-elapsed_s / memory_s) / math.expm1(-self._age_s / memory_s)
            self._rates[name] = rate + weight * (count / elapsed_s - rate)
            self._next_s = min(self._next_s, memory_s / 2.0)
        self._counts = dict.fromkeys(self._counts, 0.0)
        self.load = {name: rate + self._room.get(name, 0.0) for name, rate in self._rates.items()}
