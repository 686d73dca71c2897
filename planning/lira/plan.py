"""The LIRA plan: regions, their levels of importance, and the exact throttlers for every z.

Regions are leaves of a tree of halvings. Each has a level, the quantised ratio of importance to
update weight, m/(n·s); regions of one level always share one throttler, so the exact path over
levels (:class:`~planning.lira.path.ThrottlerPath`) is the whole plan. ``plan.at(z)`` is a point on
it; mobile nodes that hold the levels follow a new z from a few bytes
(:mod:`planning.lira.codec.messages`).

Where queries ask for a ``max_delta``, the path is what OR-Tools found
(:mod:`planning.lira.program`), and regions that different guarantees are about differ in level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray
from planning.errors import InvalidInput, check_between
from planning.guarantees import Guarantee
from planning.lira import codec
from planning.lira.codec import PlanDocument
from planning.lira.model import ErrorAxis, Frame, ReductionCurve
from planning.lira.partition.regions import Partition
from planning.lira.path import GuaranteedPath, ThrottlerPath

__all__ = ["Levels", "Plan", "PlanDocument", "Setting"]
EXACT = 1e-12  # how near :meth:`Plan.at` comes to the measured budget, and to its load
STEEPNESS = 0.25, 2.0  # of f beyond Δmax: Δ to the power of minus this, at least and at most
FURTHEST = 64.0  # times Δmax
Levels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What nodes need right now.

    Attributes
    ----------
    load
        z, as given.
    throttlers
        Δ_i of every region, metres.
    by_level
        The same per level.
    expenditure
        Fraction of the updates of Δmin that remains, by the measured f.
    """

    load: float
    throttlers: FloatArray
    by_level: FloatArray
    expenditure: float

    @property
    def reached(self) -> bool:
        """Whether the budget can be met; if not, ``expenditure`` says how far it gets."""
        return self.expenditure <= self.load * (1 + 1e-6) + 1e-9


@dataclass(frozen=True, eq=False)
class Plan:
    """Shedding regions and update throttlers for every throttle fraction.

    Attributes
    ----------
    frame
        Space, grid and thresholds.
    partition
        The shedding regions A_i.
    level
        Level of every region.
    ratio, weight, inside
        Per level: importance per update weight; share of the update weight n·s; share of the
        queries' results (0 everywhere without queries).
    reduction, errors
        Measured f and mean position error, per threshold.
    departure
        Cost of leaving Δmin at all (:mod:`planning.lira.model`).
    reports_per_position
        Updates that Δmin causes per recorded position, from the samples.
    guaranteed
        The throttlers of every level, if there are guarantees.

    Examples
    --------
    Two halves with equally many cars; the left one matters a quarter as much:

    >>> plan = Plan.from_document({
    ...     "format": 1, "bounds": [0, 0, 2000, 2000], "side": 2, "tree": "XLL", "level": [0, 1],
    ...     "lowest_threshold": 5, "highest_threshold": 105, "segments": 2, "ratio": [0.5, 2.0],
    ...     "weight": [100, 100], "inside": [0.2, 0.8], "reduction": [1, 0.5, 0.25],
    ...     "errors": [0, 9, 18], "departure": 0, "fairness_threshold": 100,
    ...     "throttle_fraction": 0.5, "reports_per_position": 0.2,
    ... })
    >>> [plan.at(z).throttlers.round(1).tolist() for z in (1.0, 0.75, 0.5)]
    [[5.0, 5.0], [55.0, 5.0], [105.0, 30.0]]
    """

    frame: Frame
    partition: Partition
    level: Levels
    ratio: FloatArray
    weight: FloatArray
    inside: FloatArray
    reduction: FloatArray
    errors: FloatArray
    departure: float
    fairness_threshold: float
    throttle_fraction: float
    reports_per_position: float
    guaranteed: GuaranteedPath | None = None

    def __post_init__(self) -> None:
        sizes = {self.ratio.size, self.weight.size, self.inside.size}
        if self.guaranteed is not None:
            sizes.add(self.guaranteed.places.shape[1])
        points = {self.reduction.size, self.errors.size}
        if len(sizes) != 1 or points != {self.frame.segments + 1}:
            raise InvalidInput(
                f"a plan must have one number per level and {self.frame.segments + 1} per curve, "
                f"got {sorted(sizes)} and {sorted(points)}"
            )
        if not 0.0 <= self.reports_per_position <= 1.0:
            raise InvalidInput(
                f"reports per position must lie in [0, 1], got {self.reports_per_position:g}"
            )
        if self.level.size != self.regions or (self.level >= self.ratio.size).any():
            raise InvalidInput(
                f"a plan must have one level below {self.ratio.size} for each of {self.regions} "
                f"regions, got {self.level.size}"
            )

    @property
    def regions(self) -> int:
        """Number of shedding regions l."""
        return self.partition.regions

    @cached_property
    def curve(self) -> ReductionCurve:
        """The update-reduction function, measured and convexified."""
        return ReductionCurve.of(self.frame.thresholds, self.reduction)

    @cached_property
    def axis(self) -> ErrorAxis:
        """The axis on which throttlers are chosen."""
        return ErrorAxis.of(self.curve, self.departure)

    @cached_property
    def path(self) -> ThrottlerPath | GuaranteedPath:
        """The throttlers of every level, on the axis, as a function of z."""
        if self.guaranteed is not None:
            return self.guaranteed
        with np.errstate(over="ignore"):
            importance = self.weight * self.ratio
        return ThrottlerPath.of(importance, self.weight, self.axis.curve, self.fairness_threshold)

    @cached_property
    def raster(self) -> NDArray[np.uint8]:
        """The level of every cell, ``[iy, ix]``."""
        painted: NDArray[np.uint8] = self.partition.paint(self.level).astype(np.uint8)
        return painted

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What is guaranteed, the most important first."""
        return () if self.guaranteed is None else self.guaranteed.guarantees

    def kept(self, load: float) -> tuple[float, ...]:
        """Return the largest throttler at a load where each guaranteed query looks, metres."""
        if self.guaranteed is None:
            return ()
        by_level = self.at(load).by_level
        return tuple(float(by_level[some].max(initial=0.0)) for some in self.guaranteed.looks)

    def ceilings(self, load: float) -> FloatArray | float:
        """Return what the run-time correction may not raise throttlers above, per level.

        Whatever the traffic, a guarantee that holds at a load is kept; of others, the throttlers
        that the plan has there are.
        """
        if self.guaranteed is None:
            return math.inf
        return np.maximum(self.guaranteed.most, self._by_level(load))

    @property
    def floor(self) -> float:
        """The smallest throttle fraction that Δmax can reach."""
        return self.curve.floor

    def at(self, load: float) -> Setting:
        """Return the optimal setting at throttle fraction ``load``.

        The path is exact for the convexified f; where the measured f lies above it, the point is
        moved down the path to where the measured budget is met. As f may rise by chance, the most
        that it reaches from a threshold on is what counts: so no throttler rises with the load.
        """
        z = check_between("load", load, 0.0, 1.0, remedy="pass a fraction, not a percentage")
        return self._setting(z, self._affordable(z))

    def near(self, load: float) -> Setting:
        """Return the optimal setting by the convexified f alone, for a load that is in [0, 1].

        It takes a fraction of the time, and is good enough where what is sent is measured anyway.
        """
        return self._setting(load, load)

    def _setting(self, load: float, on_path: float) -> Setting:
        by_level = self._by_level(on_path)
        by_level.flags.writeable = False
        throttlers = by_level[self.level]
        throttlers.flags.writeable = False
        return Setting(load, throttlers, by_level, self._spent(by_level, self.curve.raw))

    def _affordable(self, z: float) -> float:
        """Return the highest load whose throttlers spend at most z, by secants and bisection."""

        def over(load: float) -> float:
            return self.measured(self._by_level(load)) - z

        high, above = z, over(z)
        if above <= EXACT:
            return z
        low, below = z, above
        while below > 0.0 and low > 0.0:
            high, above = low, below
            low = max(z - 2.0 * (z - high + above), 0.0)
            below = over(low)
        halve = False
        while below < -EXACT and high - low > EXACT:
            middle = low + (0.5 if halve else below / (below - above)) * (high - low)
            here = over(middle)
            halve = not halve and max(middle - low, high - middle) > 0.5 * (high - low)
            if here <= 0.0:
                low, below = middle, here
            else:
                high, above = middle, here
        return low

    def _by_level(self, z: float) -> FloatArray:
        """Return Δ per level; a level without weight follows the one below it."""
        return self.axis.thresholds(self.path.throttlers(z))[self._follows]

    @cached_property
    def _follows(self) -> NDArray[np.int64]:
        used = np.flatnonzero(self.weight > 0)
        if self.guaranteed is not None or not used.size:
            return np.arange(self.weight.size)
        before = np.searchsorted(used, np.arange(self.weight.size), side="right") - 1
        return used[np.maximum(before, 0)]

    @cached_property
    def _falling(self) -> FloatArray:
        """The most that the measured f reaches from each threshold on."""
        return np.ascontiguousarray(np.maximum.accumulate(self.curve.raw[::-1])[::-1])

    def measured(self, by_level: FloatArray) -> float:
        """Return the part of the updates that throttlers leave, as budgets count it."""
        return self._spent(by_level, self._falling)

    def _spent(self, by_level: FloatArray, values: FloatArray) -> float:
        total = float(self.weight.sum())
        each = np.interp(by_level, self.curve.thresholds, values)
        return float(self.weight @ each) / total if total > 0 else 0.0

    def passed_fraction(self, load: float) -> float:
        """Return the expected share of all positions that is reported at throttle fraction z.

        The ledger lets z of the reports due be sent, also where throttlers cannot reach it; first
        reports come on top.
        """
        z = check_between("load", load, 0.0, 1.0, remedy="pass a fraction, not a percentage")
        return z * self.reports_per_position

    @property
    def not_nested(self) -> tuple[int, ...]:
        """Regions whose throttler may rise with z: none."""
        return ()

    def beyond(self, load: float) -> float:
        """Return how far beyond Δmax throttlers must go at a load: as a multiple, 1 if not at all.

        There f is taken to fall on as it does over the last half of its thresholds.
        """
        if load >= self.floor or not self.floor > 0.0:
            return 1.0
        half = float(self.curve(0.5 * self.frame.high))
        steepness = min(max(math.log2(half / self.floor), STEEPNESS[0]), STEEPNESS[1])
        return float(min((self.floor / max(load, 1e-9)) ** (1.0 / steepness), FURTHEST))

    def predicted_error(self, load: float) -> float:
        """Return the predicted mean position error E_P of query results, metres."""
        by_level = self.at(load).by_level
        each = np.interp(by_level, self.frame.thresholds, self.errors)
        return float(self.inside @ each) * self.beyond(load)

    def predicted_quality(self, load: float) -> float:
        """Return 1 − E_P/Δmax as predicted, at least 0: 1 means nothing lost."""
        return float(np.clip(1.0 - self.predicted_error(load) / self.frame.high, 0.0, 1.0))

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know at a glance."""
        setting = self.at(self.throttle_fraction)
        return {
            "regions": self.regions,
            "cells": self.frame.side,
            "levels": int(np.unique(self.level).size),
            "fairness_threshold": self.fairness_threshold,
            "throttle_fraction": self.throttle_fraction,
            "lowest_reachable_fraction": round(self.floor, 6),
            "lowest_throttler": round(float(setting.throttlers.min()), 3),
            "highest_throttler": round(float(setting.throttlers.max()), 3),
            "departure": round(self.departure, 3),
            "predicted_error_m": round(self.predicted_error(self.throttle_fraction), 4),
            "predicted_quality": round(self.predicted_quality(self.throttle_fraction), 6),
            "not_nested": len(self.not_nested),
            **({"within": self.guaranteed.error} if self.guaranteed is not None else {}),
        }

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form, as :class:`PlanDocument` describes it."""
        return codec.to_document(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Plan:
        """Read the JSON form back; refuse what does not fit together."""
        return codec.from_document(cls, document)

    def to_bytes(self) -> bytes:
        """Return the compact binary form; it decodes to an equal plan."""
        return codec.to_bytes(self)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Plan:
        """Read the compact binary form back."""
        return codec.from_bytes(cls, payload)
