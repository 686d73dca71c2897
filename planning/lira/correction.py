"""Run-time correction: keep what is really sent at z, although f is only a forecast.

A plan meets its budget for the f it was made with. Traffic changes, and regions differ from the
average; so the fraction asked of the plan is divided by how far it was off lately, and what was
sent too much or too little is made up for over the next few periods. What Δmin would have sent
(``due``) is known: every node can run that model beside its own.
"""

from __future__ import annotations

from planning.errors import check_between

HORIZON = 4.0  # periods over which a past excess is made up for


class BudgetCorrection:
    """Turns a wanted throttle fraction into the one to ask the plan for.

    Parameters
    ----------
    throttle_fraction
        z, the wanted fraction.
    floor
        The smallest fraction that the plan can reach; nothing below it is asked for.

    Examples
    --------
    A plan that always sends a tenth too much is asked for less, and the sum comes out right:

    >>> correction = BudgetCorrection(0.5, floor=0.2)
    >>> sent = 0.0
    >>> for _ in range(50):
    ...     kept = 1000 * correction.load * 1.1
    ...     sent += kept
    ...     _ = correction.observe(kept, 1000)
    >>> round(sent / 50_000, 3), round(correction.load, 3)
    (0.5, 0.455)
    """

    def __init__(self, throttle_fraction: float, *, floor: float = 0.0) -> None:
        self.floor = check_between("floor", floor, 0.0, 1.0)
        self._bias = 1.0
        self.aim(throttle_fraction)

    def aim(self, throttle_fraction: float) -> None:
        """Follow another z; what was learned about the plan's bias stays."""
        self.throttle_fraction = check_between("throttle_fraction", throttle_fraction, 0.0, 1.0)
        self._periods = 0
        self._excess = 0.0
        self.load = self._asked(0.0)

    def observe(self, kept: float, due: float, savings: float = 0.0) -> float:
        """Take note of a period: ``kept`` reports sent of ``due``; return the load from now on.

        ``savings`` are reports to stay below the budget, so that chance seldom exceeds it.
        """
        if not due > 0 or self.throttle_fraction >= 1.0:
            return self.load
        if kept > 0 and self.load > 0:
            off = kept / due / self.load
            self._bias = off if self._periods == 0 else (self._bias * off) ** 0.5
            self._bias = min(max(self._bias, 0.5), 2.0)
        self._periods += 1
        self._excess += kept - self.throttle_fraction * due
        # A budget that cannot be met must not be held against better times.
        limit = 0.25 * HORIZON * due
        self._excess = min(max(self._excess, -limit), limit)
        self.load = self._asked((self._excess + savings) / due / HORIZON)
        return self.load

    def _asked(self, repay: float) -> float:
        wanted = (self.throttle_fraction - repay) / self._bias
        if self.throttle_fraction >= 1.0:
            return 1.0
        return min(max(wanted, self.floor), 1.0)
