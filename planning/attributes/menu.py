"""The options that a method offers every attribute, with what each costs and loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planning.attributes import profile
from planning.attributes.plan import NEVER, PERIODIC
from planning.attributes.statistics import AttributeProfile

RATE_UNITS = 4096  # measured rates are rounded up to this fraction of a report


@dataclass(frozen=True, slots=True, eq=False)
class Menu:
    """The options every attribute has: a sending period and a dead band each.

    Option 0 is always "sent with every tuple". ``units`` divides the bytes of a report so that
    every option's cost is a whole number.
    """

    period: tuple[int, ...]
    band: tuple[float, ...]
    units: int
    refresh: int = NEVER  # the longest silence that is promised

    def periodic(self) -> range:
        """Return the indices of the options without a dead band."""
        return range(sum(band == PERIODIC for band in self.band))

    def within(self, thinning: int) -> list[int]:
        """Return the options that keep the promised refresh when tuples are thinned.

        Tuples that are thinned beyond it carry everything.
        """
        return [
            o
            for o in self.periodic()
            if o == 0 or not self.refresh or 0 < self.period[o] * thinning <= self.refresh
        ]

    def costs(
        self, attribute: AttributeProfile, size: int, options: Sequence[int]
    ) -> list[int]:
        """Return each option's bytes per sent tuple, in units."""
        first = len(self.periodic())
        costs = []
        for o in options:
            if self.band[o] == PERIODIC:
                rate = self.units // self.period[o] if self.period[o] else 0
            else:
                measured = float(attribute.band_rate[o - first]) * self.units
                rate = min(self.units, math.ceil(measured - 1e-9))
            costs.append(size * rate)
        return costs

    def losses(
        self, attribute: AttributeProfile, options: Sequence[int], thinning: int
    ) -> list[float]:
        """Return each option's error when only every ``thinning``-th tuple is sent."""
        first = len(self.periodic())
        return [
            attribute.hold_error(self.period[o] * thinning)
            if self.band[o] == PERIODIC
            else float(attribute.band_error[o - first])
            for o in options
        ]


def menu_of(parameters: Any) -> Menu:
    """Return the options that a method offers.

    Send on change has the periods as well: below the capacity that its header and CID need in every
    tuple, sending whole cycles more rarely is better.
    """
    refresh = parameters.refresh_reports
    if parameters.method == "paper":
        periods: tuple[int, ...] = (1, NEVER)
    elif parameters.method == "selection":
        periods = (1, refresh) if refresh != 1 else (1,)
    else:
        periods = tuple(k for k in parameters.periods if not refresh or k <= refresh)
    units = math.lcm(*(k for k in periods if k))
    bands = (PERIODIC,) * len(periods)
    if parameters.method == "on_change":
        periods += (refresh,) * len(profile.BANDS)
        bands += profile.BANDS
        units *= -(-RATE_UNITS // units)
    return Menu(periods, bands, units, refresh if parameters.method != "paper" else NEVER)
