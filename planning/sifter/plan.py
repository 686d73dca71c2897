"""The sifter plan: regions, f, A and B, from which the setting for any z follows exactly.

``plan.at(z)`` returns the optimal drop thresholds, for the plan's fairness threshold or another.
Frequencies and region QoS are kept in single precision so that the JSON and the compact form are
the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, frozen
from planning.errors import check_between
from planning.pacing import ONE
from planning.sifter import codec
from planning.sifter.codec import PlanDocument
from planning.sifter.model import Partition, Pins, Space
from planning.sifter.path import Path

__all__ = ["Plan", "PlanDocument", "Setting"]


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
        return Setting(z, frozen(self.path.thresholds(z, delta)))

    def predicted_quality(self, load: float, fairness_threshold: float | None = None) -> float:
        """Return V*(Q) = B + sum of (1 - d_i) A_i (Equation 9, with (1 - d) once)."""
        thresholds = self.at(load, fairness_threshold).drop_thresholds
        return float(self.base_qos + np.dot(1.0 - thresholds, self.region_qos))

    def passed_fraction(self, load: float) -> float:
        """Return the fraction of the stream that the setting at ``load`` is expected to pass."""
        passed = np.dot(1.0 - self.at(load).drop_thresholds, self.frequency)
        return float(passed) + self.pinned_fraction

    def regions_without_estimate(self, load: float) -> tuple[int, ...]:
        """Return the regions of which nothing is kept at ``load``: no weight makes up for them."""
        return tuple(np.flatnonzero(self.at(load).steps[:-1] >= ONE).tolist())

    @property
    def not_nested(self) -> tuple[int, ...]:
        """Regions that keep less at some higher load: none, see :mod:`planning.sifter.path`."""
        return ()

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
            "breakpoints": len(self.path.breakpoints(self.fairness_threshold)),
            "predicted_quality": round(self.predicted_quality(self.throttle_fraction), 6),
        }

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
