"""What a batch may be at most: the throttle's load and capacity, and the fleet's budget.

Whatever a throttle answers, the gate does not open: an answer that is no load leaves the last sound
one in force.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from planning.pacing import UNLIMITED
from planning.runtime.counters import Counters
from planning.runtime.marking import SampleMarker
from planning.runtime.throttle import Load, Throttle
from planning.shedder import Decision


class Budget(Protocol):
    """A hard limit that is drawn on before a batch: a ``SharedBudget`` or a ``LeasedBudget``."""

    def take(self, offered: int, wanted: int, z: float) -> int:
        """Return how many of the wanted units may pass."""

    def give_back(self, unused: int) -> None:
        """Return part of what was granted: it did not pass after all."""


class Limits:
    """The load and the limit of every batch, before it is decided on."""

    def __init__(
        self,
        throttle: Throttle,
        budget: Budget | None,
        marker: SampleMarker | None,
        counters: Counters,
    ) -> None:
        self.throttle = throttle
        self.budget = budget
        self.marker = marker
        self.counters = counters
        self.last_error = ""
        self.load: Load = 0.0
        self.load = self._sound(lambda: throttle.load)
        self.counters.load = self.left = self.share
        self._granted = UNLIMITED

    @property
    def share(self) -> float:
        """The scalar load, for what cannot follow rates by input."""
        if isinstance(self.load, Mapping):
            return float(getattr(self.throttle, "uniform_share", 1.0))
        return self.load

    def charge_marks(self, share: float) -> None:
        """Charge marks to the share that may pass; ``left`` is for what is not marked."""
        self.left = share if self.marker is None else self.marker.share(share)

    def before(self, now_s: float, told: Any, units: int) -> int:
        """Take the load for a batch; return how many units of it may pass."""
        self.load = self._sound(lambda: self.throttle.before(now_s, told))
        self.counters.load = share = self.share
        self.charge_marks(share)
        self.counters.offered_units += units
        self._granted = UNLIMITED
        if self.budget is not None:
            # What the plan will want: its share, and room for chance.
            wanted = math.ceil(share * units + 4.0 * math.sqrt(units) + 4.0)
            self._granted = self.budget.take(units, min(units, wanted), share)
        return min(self._allowed(), self._granted)

    def after(self, decision: Decision) -> None:
        """Account for what passed."""
        self.counters.kept_units += decision.units
        self.counters.dropped_by_budget += decision.cut
        if self.budget is not None:
            self.budget.give_back(self._granted - decision.units)
        try:
            self.throttle.after(decision.units, decision.cut)
        except Exception as error:
            self.doubt(error)

    def doubt(self, error: Exception) -> None:
        """Count an answer of the throttle that is of no use."""
        self.counters.throttle_errors += 1
        self.last_error = f"the throttle: {error!r}"

    def _allowed(self) -> int:
        try:
            return min(max(int(self.throttle.allowed()), 0), UNLIMITED)
        except Exception as error:
            self.doubt(error)
            return 0

    def _sound(self, answer: Callable[[], Any]) -> Load:
        """Return the throttle's answer if it is a load, else the last sound one."""
        try:
            load = answer()
            if self.throttle.per_input and isinstance(load, Mapping):
                if all(0.0 <= rate < math.inf for rate in load.values()):
                    return load
            elif not isinstance(load, bool) and 0.0 <= load <= 1.0:
                return float(load)
            raise ValueError(f"a load must be a fraction, got {load!r}")
        except Exception as error:
            self.doubt(error)
            return self.load
