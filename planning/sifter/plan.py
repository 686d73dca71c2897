"""The sifter plan: regions, f, A and B, from which the setting for any z follows exactly.

``plan.at(z)`` returns the optimal drop thresholds, for the plan's fairness threshold or another.
Frequencies and region QoS are kept in single precision so that the JSON and the compact form are
the same plan. Where queries have guarantees, QoS lines or tenants, the optimum is no longer one
sort: then the plan has thresholds at some loads, and between them the mixture of its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, IntArray, frozen, frozen_ints
from planning.errors import Mistake, check_between
from planning.guarantees import Guarantee
from planning.pacing import ONE
from planning.sifter import codec
from planning.sifter.codec import PlanDocument
from planning.sifter.model import Partition, Pins, Space
from planning.sifter.path import Path

__all__ = ["Plan", "PlanDocument", "Setting", "Traced"]


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What a shedder needs right now: one drop threshold per region."""

    load: float  # z
    drop_thresholds: FloatArray

    @property
    def steps(self) -> NDArray[np.uint64]:
        """Thresholds in units of 2**-32, and last the one of tuples without region, 1 - z.

        A tuple is dropped iff the draw from its key is less than the step of its region.
        """
        thresholds = np.append(self.drop_thresholds, 1.0 - self.load)
        return np.asarray(np.ceil(thresholds * ONE), dtype=np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """Thresholds at the loads between which they may be mixed, and what they come to there."""

    loads: FloatArray  # (b,), from 0 to 1
    drop_thresholds: FloatArray  # (b, regions), single precision
    quality: FloatArray  # (b,)
    kept: FloatArray  # (b, guarantees), in the unit of each
    guarantees: tuple[Guarantee, ...]
    error: float
    """Quality and shortfalls are at most this far from the best, at every load."""

    def at(self, load: float) -> FloatArray:
        """Return the thresholds at a load.

        >>> halves = Traced(frozen([0, 0.5, 1]), frozen([[1, 1], [1, 0], [0, 0]]),
        ...                 frozen([0, 1, 1]), frozen([[], [], []]), (), 0.0)
        >>> halves.at(0.25).tolist(), halves.at(0.8).round(12).tolist()
        ([1.0, 0.5], [0.4, 0.0])
        """
        right = min(max(int(np.searchsorted(self.loads, load)), 1), len(self.loads) - 1)
        low, high = self.loads[right - 1 : right + 1]
        below, above = self.drop_thresholds[right - 1 : right + 1]
        mixed = below + (load - low) / (high - low) * (above - below)
        # Rounding must not make a threshold rise with the load that does not.
        return np.asarray(np.clip(mixed, np.minimum(below, above), np.maximum(below, above)))


@dataclass(frozen=True, eq=False)
class Plan:
    """An NR sifter for every throttle fraction.

    Examples
    --------
    >>> from planning.examples import demo_plan
    >>> plan = demo_plan("sifter")
    >>> plan.at(0.5).drop_thresholds.shape, round(plan.passed_fraction(0.5), 6)
    ((16,), 0.5)
    >>> plan.predicted_quality(0.3) < plan.predicted_quality(0.5) > 0.5  # random dropping: 0.5
    True
    >>> Plan.from_bytes(plan.to_bytes()).to_document() == plan.to_document()
    True
    """

    space: Space
    partition: Partition
    frequency: FloatArray
    region_qos: FloatArray
    queried: BoolArray
    base_qos: float
    fairness_threshold: float
    throttle_fraction: float
    pins: Pins
    pinned_fraction: float = 0.0
    min_keep: float = 0.0
    budget_tolerance: float = codec.TOLERANCE
    traced: Traced | None = None  # in place of the path

    @cached_property
    def path(self) -> Path:
        """The optimal thresholds as a function of z."""
        return Path.of(self.frequency, self.region_qos, self.queried, self.min_keep)

    @property
    def regions(self) -> int:
        """Return l."""
        return self.partition.regions

    def at(self, load: float, fairness_threshold: float | None = None) -> Setting:
        """Return the optimal setting at throttle fraction ``load``."""
        z = check_between("load", load, 0.0, 1.0, remedy="pass a fraction, not a percentage")
        delta = self.fairness_threshold if fairness_threshold is None else fairness_threshold
        delta = check_between("fairness_threshold", delta, 0.0, 1.0)
        if self.traced is None:
            return Setting(z, frozen(self.path.thresholds(z, delta)))
        if delta != self.fairness_threshold:
            allowed = f"{self.fairness_threshold:g}, for which the plan was solved with its terms"
            raise Mistake("fairness_threshold", allowed, f"{delta:g}", "make another plan")
        return Setting(z, frozen(self.traced.at(z)))

    def predicted_quality(self, load: float, fairness_threshold: float | None = None) -> float:
        """Return V*(Q) = B + sum of (1 - d_i) A_i (Equation 9, with (1 - d) once).

        With QoS lines it is exact at the loads of ``traced``; between them, at least this.
        """
        setting = self.at(load, fairness_threshold)
        if self.traced is not None:
            return float(np.interp(load, self.traced.loads, self.traced.quality))
        return float(self.base_qos + np.dot(1.0 - setting.drop_thresholds, self.region_qos))

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees, the most important first."""
        return self.traced.guarantees if self.traced else ()

    def kept(self, load: float) -> tuple[float, ...]:
        """Return the completeness or loss that each guarantee has at a load; of a gap, at most."""
        if self.traced is None:
            return ()
        return tuple(float(np.interp(load, self.traced.loads, k)) for k in self.traced.kept.T)

    @property
    def turns(self) -> FloatArray:
        """The loads at which the setting turns."""
        if self.traced is not None:
            return self.traced.loads
        return self.path.breakpoints(self.fairness_threshold)

    @property
    def items(self) -> tuple[IntArray, FloatArray, BoolArray, FloatArray, FloatArray]:
        """The path, and what was traced, as the compiled functions take them."""
        path, traced = self.path, self.traced
        return (
            frozen_ints(path.order), frozen(path.frequency), np.array(path.queried),
            frozen(traced.loads if traced else []),
            frozen(traced.drop_thresholds if traced else [[]]),
        )  # fmt: skip

    @cached_property
    def order(self) -> IntArray:
        """The regions with queries, those that are dropped first, first."""
        order = self.path.order[self.path.order >= 0]
        if self.traced is None:
            return order
        dropped = np.diff(self.traced.loads) @ (
            self.traced.drop_thresholds[1:] + self.traced.drop_thresholds[:-1]
        )
        return frozen_ints(order[np.argsort(-dropped[order], kind="stable")])

    def passed_fraction(self, load: float) -> float:
        """Return the fraction of the stream that the setting at ``load`` is expected to pass."""
        passed = np.dot(1.0 - self.at(load).drop_thresholds, self.frequency)
        return float(passed) + self.pinned_fraction

    def regions_without_estimate(self, load: float) -> tuple[int, ...]:
        """Return the regions of which nothing is kept at ``load``: no weight makes up for them."""
        return tuple(np.flatnonzero(self.at(load).steps[:-1] >= ONE).tolist())

    @property
    def not_nested(self) -> tuple[int, ...]:
        """Regions that keep less at some higher load: none, unless guarantees want it.

        See :mod:`planning.sifter.path`.
        """
        if self.traced is None:
            return ()
        rises = (np.diff(self.traced.drop_thresholds, axis=0) > 0.0).any(axis=0)
        return tuple(np.flatnonzero(rises).tolist())

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know at a glance."""
        return {
            "regions": self.regions,
            "regions_without_queries": int((~self.queried).sum()),
            "fairness_threshold": self.fairness_threshold,
            "throttle_fraction": self.throttle_fraction,
            "min_keep": self.min_keep,
            "regions_without_estimate": len(self.regions_without_estimate(self.throttle_fraction)),
            "not_nested": list(self.not_nested),
            "pinned_fraction": round(self.pinned_fraction, 6),
            "breakpoints": len(self.turns),
            "predicted_quality": round(self.predicted_quality(self.throttle_fraction), 6),
        } | ({"guarantees": [str(one) for one in self.guarantees]} if self.guarantees else {})

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form, as :class:`PlanDocument` describes it."""
        return codec.to_document(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Plan:
        """Read the JSON form back; refuse what does not fit together."""
        return cls(**codec.from_document(document))

    def to_bytes(self) -> bytes:
        """Return the compact binary form; it decodes to an equal plan."""
        return codec.to_bytes(self)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Plan:
        """Read the compact binary form back."""
        return cls(**codec.from_bytes(payload))
