"""The sifter plan: regions, f, A and B, from which the setting for any z follows exactly.

``plan.at(z)`` gives the optimal drop thresholds, for the plan's fairness threshold or another one.
Frequencies and region QoS are kept in single precision so that the JSON and the compact form hold
the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from planning.arrays import BoolArray, FloatArray, frozen
from planning.errors import ArtifactError, check_between
from planning.sifter.partition import Partition
from planning.sifter.path import Path
from planning.sifter.space import Axis, Space

FORMAT = 1


class AxisDocument(msgspec.Struct, forbid_unknown_fields=True):
    """An attribute: kind, bounds [low, high) and, for a category, its values in code order."""

    name: str
    kind: str
    low: float
    high: float
    values: list[str] = []


class PartitionDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A cut tree in preorder: ``dimension`` is -1 at a region; ``cut`` lists inner nodes only."""

    dimension: list[int]
    cut: list[float]
    orders: list[list[int]] = []


class PinsDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Boxes [low, high) whose tuples are never dropped."""

    low: list[list[float]] = []
    high: list[list[float]] = []


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A sifter plan as published."""

    format: int
    axes: list[AxisDocument]
    partition: PartitionDocument
    frequency: list[float]
    region_qos: list[float]
    queried: list[bool]
    base_qos: float
    fairness_threshold: float
    throttle_fraction: float
    pinned_fraction: float = 0.0
    pins: PinsDocument = msgspec.field(default_factory=PinsDocument)


@dataclass(frozen=True, slots=True, eq=False)
class Pins:
    """Boxes [low, high) whose tuples are never dropped; row b is box b."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, low: Any, high: Any, dimensions: int) -> Pins:
        """Return pins from lists or arrays of corners; empty ones have the right width too."""
        shape = (-1, dimensions)
        return cls(frozen(np.reshape(low, shape)), frozen(np.reshape(high, shape)))


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What a shedder needs right now: one drop threshold per region."""

    load: float  # z
    drop_thresholds: FloatArray

    @property
    def unplaced(self) -> float:
        """Drop threshold of tuples that lie in no region (NaN): that of random dropping."""
        return 1.0 - self.load


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

    @cached_property
    def path(self) -> Path:
        """The optimal thresholds as a function of z."""
        return Path.of(self.frequency, self.region_qos, self.queried)

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

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know at a glance."""
        return {
            "regions": self.regions,
            "regions_without_queries": int((~self.queried).sum()),
            "fairness_threshold": self.fairness_threshold,
            "throttle_fraction": self.throttle_fraction,
            "pinned_fraction": round(self.pinned_fraction, 6),
            "breakpoints": len(self.path.breakpoints(self.fairness_threshold)),
            "predicted_quality": round(self.predicted_quality(self.throttle_fraction), 6),
        }

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form, as :class:`PlanDocument` describes it."""
        return {
            "format": FORMAT,
            "axes": [
                {"name": a.name, "kind": a.kind, "low": a.low, "high": a.high,
                 "values": list(a.values)}
                for a in self.space.axes
            ],
            "partition": self.partition.to_document(),
            "frequency": self.frequency.tolist(),
            "region_qos": self.region_qos.tolist(),
            "queried": self.queried.tolist(),
            "base_qos": self.base_qos,
            "fairness_threshold": self.fairness_threshold,
            "throttle_fraction": self.throttle_fraction,
            "pinned_fraction": self.pinned_fraction,
            "pins": {"low": self.pins.low.tolist(), "high": self.pins.high.tolist()},
        }  # fmt: skip

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Plan:
        """Read the JSON form back; refuse what does not fit together."""
        try:
            read = msgspec.convert(document, PlanDocument)
        except msgspec.ValidationError as error:
            raise ArtifactError(f"sifter plan must fit its schema, got: {error}") from None
        axes, cut_tree = len(read.axes), read.partition
        if max(cut_tree.dimension, default=0) >= axes or len(cut_tree.orders) not in (0, axes):
            raise ArtifactError(
                f"partition of a sifter plan must cut its {axes} axes, got axis "
                f"{max(cut_tree.dimension, default=0)} and orders of {len(cut_tree.orders)}; take "
                "the plan from its store again"
            )
        plan = cls(
            space=Space(tuple(
                Axis(a.name, a.kind, a.low, a.high, tuple(a.values)) for a in read.axes
            )),
            partition=Partition.from_document(msgspec.to_builtins(read.partition)),
            frequency=frozen(read.frequency),
            region_qos=frozen(read.region_qos),
            queried=np.array(read.queried, dtype=np.bool_),
            base_qos=read.base_qos,
            fairness_threshold=read.fairness_threshold,
            throttle_fraction=read.throttle_fraction,
            pins=Pins.of(read.pins.low, read.pins.high, len(read.axes)),
            pinned_fraction=read.pinned_fraction,
        )  # fmt: skip
        sizes = {len(plan.frequency), len(plan.region_qos), len(plan.queried)}
        if read.format != FORMAT or sizes != {plan.regions}:
            raise ArtifactError(
                f"sifter plan must have format {FORMAT} and {plan.regions} values per region, got "
                f"format {read.format} and {sorted(sizes)}; take it from the store again"
            )
        return plan

    def to_bytes(self) -> bytes:
        """Return the compact binary form; it decodes to an equal plan."""
        from planning.sifter import compact

        return compact.encode_plan(self)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Plan:
        """Read the compact binary form back."""
        from planning.sifter import compact

        return compact.decode_plan(payload)
