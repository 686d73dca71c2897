"""The join plan: all items by value per comparison, cut where the load says.

``plan.at(r)`` is the setting that spends the fraction r of all comparisons best; the controller
cuts the same list by volumes measured at run time. Densities and frequencies are kept in single
precision so that the JSON and the binary form are the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray, frozen, frozen_ints, sorted_sum
from planning.errors import InvalidInput, check_between
from planning.guarantees import Guarantee
from planning.joins import codec, path
from planning.joins.codec import PlanDocument
from planning.joins.layout import Layout
from planning.joins.model import Combine, Condition, Windows

__all__ = ["Guaranteed", "Plan", "PlanDocument", "Setting"]

TINY = 1e-6  # of an item


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Which comparisons are made right now."""

    load: float  # r
    take: FloatArray  # r_{i,j,z} as [window, type, basic window]
    oldest: BoolArray  # where a part is taken from the old end
    fractions: FloatArray  # r_{i,z}, share of window i that a tuple of type z is compared with
    order: IntArray  # s_i^j per window and type, 0-based


@dataclass(frozen=True, slots=True, eq=False)
class Guaranteed:
    """What keeps guarantees: settings at the loads between which they may be mixed."""

    loads: FloatArray  # (b,), from 0 to 1
    levels: FloatArray  # (b, items), what each setting takes
    quality: FloatArray  # (b,), the share of all utility that is found
    kept: FloatArray  # (b, guarantees), the share that each one keeps
    guarantees: tuple[Guarantee, ...]
    error: float  # of quality, at most, between the loads


@dataclass(frozen=True, eq=False)
class Plan:
    """One order of (window, type, basic window) for every load.

    Examples
    --------
    >>> from planning.examples import demo_plan
    >>> demo_plan("joins").at(0.1).take.shape  # share of 21 basic windows, for each of 3 types
    (2, 3, 21)
    >>> plan = demo_plan("joins")
    >>> plan.predicted_quality(0.1) > 0.4  # with a tenth of the comparisons
    True
    >>> Plan.from_bytes(plan.to_bytes()).to_document() == plan.to_document()
    True
    """

    windows: Windows
    condition: Condition
    vocabulary: int | None
    single_valued: bool
    types: tuple[str, ...]
    utilities: FloatArray  # V(z)
    combine: Combine
    type_frequency: FloatArray  # omega_{i,z}
    rates_per_s: tuple[float, float]  # lambda_i in the samples
    hits: IntArray  # [2, Z, n]
    comparisons: IntArray  # [2, Z, n]
    density: FloatArray  # [2, Z, n] utility per comparison
    sample_size: int  # tuples
    span_s: float
    unit_cost_s: float | None  # seconds per comparison, if known
    valid_for_s: float | None
    monitor_fraction: float  # share of the budget spent on comparing with whole windows
    load: float  # the operating point r
    layout: Layout
    lasting: tuple[float, ...] = ()  # share of the gain over random dropping that lasts, by load
    guaranteed: Guaranteed | None = None  # in place of the order, where there are guarantees

    @cached_property
    def order(self) -> IntArray:
        """The sorted items: flat indices into [window, type, basic window]."""
        return frozen_ints(path.rank(self.density))

    @cached_property
    def volumes(self) -> FloatArray:
        """Share of all comparisons that each item accounts for; sums to 1."""
        spread = self.comparisons.astype(np.float64)
        total = float(spread.sum())
        if total == 0:
            spread = self.windows.extents_s[:, None, :] * self.type_frequency[::-1, :, None]
            total = sorted_sum(spread)
        if not (0 < total < np.inf and spread.min() >= 0):
            raise InvalidInput(
                "comparisons, or else type_frequency, must be shares of a positive total, got "
                f"numbers from {spread.min():g} that add up to {total:g}"
            )
        return frozen(spread / total)

    @cached_property
    def pairs(self) -> FloatArray:
        """Pairs of a tuple and an existing basic window per second: what a shedder grants."""
        arrivals = self.type_frequency * np.asarray(self.rates_per_s)[:, None]
        present = self.windows.extents_s[:, None, :] > 0
        return frozen((arrivals if arrivals.any() else arrivals + 1.0)[::-1, :, None] * present)

    @cached_property
    def ranks(self) -> IntArray:
        """Basic windows of each window and type by falling density."""
        return frozen_ints(np.argsort(-self.density, axis=2, kind="stable"))

    @cached_property
    def oldest(self) -> BoolArray:
        """From which end each basic window is taken in part."""
        return path.denser_side(self.density)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees, the most important first."""
        return self.guaranteed.guarantees if self.guaranteed else ()

    def kept(self, load: float) -> tuple[float, ...]:
        """Return the share of its matches' utility that each guarantee keeps at a load."""
        some = self.guaranteed
        return tuple(float(np.interp(load, some.loads, k)) for k in some.kept.T) if some else ()

    @cached_property
    def turns(self) -> IntArray:
        """The items as they come in with rising load: which ones a tighter limit keeps."""
        if self.guaranteed is None:
            return self.order
        taken = np.asarray(np.trapezoid(self.guaranteed.levels, self.guaranteed.loads, axis=0))
        return frozen_ints(self.order[np.argsort(-taken[self.order], kind="stable")])

    @cached_property
    def _in_turn(self) -> tuple[FloatArray, FloatArray]:
        """Volumes of the sorted items, and the sum before each."""
        volumes = self.volumes.ravel()[self.order]
        return volumes, np.concatenate(([0.0], np.cumsum(volumes)[:-1]))

    def cut(self, load: float) -> FloatArray:
        """Return what to take of the items, as one list, at a load."""
        if self.guaranteed is not None:
            return path.blend(self.guaranteed.levels, self.guaranteed.loads, load)
        taken = np.zeros(self.order.size)
        whole, shares = path.cut(*self._in_turn, load)
        if load == 1.0:  # rounding must not leave the last item a hair short
            whole, shares = self.order.size, np.empty(0)
        taken[self.order[:whole]] = 1.0
        taken[self.order[whole : whole + shares.size]] = shares
        return taken

    def fill(self, volumes: FloatArray, budget: float) -> FloatArray:
        """Return what to take of every item within a budget, given comparisons by item."""
        if self.guaranteed is None:
            return path.fill(self.order, volumes, budget)
        levels = self.guaranteed.levels
        return path.blend(levels, levels @ volumes.ravel(), budget).reshape(volumes.shape)

    def at(self, load: float) -> Setting:
        """Return the best setting that makes the fraction ``load`` of all comparisons."""
        r = check_between("load", load, 0.0, 1.0, remedy="pass a fraction, not a percentage")
        take, extents = self.cut(r).reshape(self.density.shape), self.windows.extents_s[:, None, :]
        fractions = (take * extents).sum(axis=2) / extents.sum(axis=2)
        return Setting(r, frozen(take), self.oldest, frozen(fractions), self.ranks)

    def predicted_quality(self, load: float) -> float:
        """Return the share of the utility of the full join that is kept at ``load``.

        What the samples promise beyond random dropping counts as far as it has lasted in them.
        """
        value = self.density * self.volumes
        total = sorted_sum(value)
        if total <= 0:
            return float(load)
        if self.guaranteed is None:
            promised = min(1.0, sorted_sum(value * self.at(load).take) / total)
        else:
            promised = float(np.interp(load, self.guaranteed.loads, self.guaranteed.quality))
        if not self.lasting:
            return promised
        lasts = float(np.interp(load, path.LOADS, self.lasting))
        return min(max(load + lasts * (promised - load), 0.0), 1.0)

    def passed_fraction(self, load: float) -> float:
        """Return the share of all pairs of a tuple and a basic window that is granted at ``load``.

        The load is a share of comparisons; basic windows hold more tuples, or fewer.
        """
        return sorted_sum(self.pairs * self.at(load).take) / sorted_sum(self.pairs)

    @property
    def not_nested(self) -> tuple[str, ...]:
        """Items that are taken less as the load rises: none, unless guarantees want it."""
        if self.guaranteed is None:
            return ()
        less = (np.diff(self.guaranteed.levels, axis=0) < -TINY).any(axis=0)
        streams, items = self.layout.streams, np.argwhere(less.reshape(self.density.shape))
        return tuple(f"{self.types[z]} with {streams[i]} {j}" for i, z, j in items)

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know at a glance."""
        made = int(self.comparisons.sum())
        kept = {"guarantees": [str(one) for one in self.guarantees]} if self.guarantees else {}
        return {
            "windows_s": list(self.windows.window_s),
            "basic_window_s": self.windows.basic_window_s,
            "condition": self.condition.kind,
            "types": len(self.types),
            "items": int(self.density.size),
            "matches_per_comparison": round(int(self.hits.sum()) / made, 8) if made else 0.0,
            "not_nested": list(self.not_nested),
            "load": self.load,
            "predicted_quality": round(self.predicted_quality(self.load), 6),
        } | kept

    # Both encodings are written and read by the codec.
    to_document = codec.to_document
    to_bytes = codec.to_bytes
    from_document = classmethod(codec.from_document)
    from_bytes = classmethod(codec.from_bytes)
