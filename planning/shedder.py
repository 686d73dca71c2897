"""What the shedders of all families share: the plan they follow, what they read and how they count.

A family's ``Shedder`` in ``planning/<family>/shedder.py`` derives from :class:`BaseShedder`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from planning import batches
from planning.arrays import BoolArray, FloatArray, IntArray
from planning.batches import Batch, Refusal, Schema
from planning.pacing import UNLIMITED

AnyPlan = TypeVar("AnyPlan")
AnySetting = TypeVar("AnySetting")
AnyLoad = TypeVar("AnyLoad")
Draws: TypeAlias = "NDArray[np.uint32] | None"
"""One number per item from the hash of its key, if there is one (:mod:`planning.keys`)."""


class Decision(NamedTuple):
    """What a shedder decided on a batch.

    ``keep`` has one row per item, and one column per part where the family sheds parts. ``units``
    is how much passes, in the family's unit; ``cut`` is how much the plan would have let pass
    beyond the limit. ``weight`` is 1 / (probability of being kept) of every kept item and 0
    elsewhere, if asked for.
    """

    keep: BoolArray
    units: int
    cut: int = 0
    weight: FloatArray | None = None


class Measures(NamedTuple):
    """What a shedder does to each part of its stream, for metrics.

    ``size`` is how much of the stream each part holds; where there are too many, the largest are
    shown. ``values`` are by the names in :mod:`planning.runtime.metrics`, without ``part_``.
    """

    kind: str
    names: Sequence[object]
    size: NDArray[Any]
    values: Mapping[str, NDArray[Any]]


class BaseShedder(ABC, Generic[AnyPlan, AnySetting, AnyLoad]):
    """Follows a plan at a load.

    A family prepares for a plan in ``_install``, takes its setting in ``set_load``, decides in
    ``decide``, and takes over what outlives a plan in ``adopt``.
    """

    UNIT: ClassVar[str] = "items"
    """What loads, capacities and budgets count."""

    WEIGHTED: ClassVar[bool] = False
    """Whether a kept item has a probability of being kept, so that it can carry a weight."""

    EVERYTHING: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Options with which a shedder uses all that the family compiles."""

    _plan: AnyPlan
    _setting: AnySetting
    _load: AnyLoad

    def __init__(self, plan: AnyPlan, load: AnyLoad) -> None:
        self._install(plan)
        self.set_load(load)

    @property
    def plan(self) -> AnyPlan:
        """The plan in force."""
        return self._plan

    @property
    def setting(self) -> AnySetting:
        """The setting in force."""
        return self._setting

    @property
    def load(self) -> AnyLoad:
        """The load being followed."""
        return self._load

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The columns that are read."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts that are shed, the columns of the mask; none where items are."""
        return ()

    @abstractmethod
    def probe(self, rows: int) -> dict[str, Any]:
        """Return made-up columns of ordinary items, to try the plan on before it is in force."""

    @abstractmethod
    def set_load(self, load: AnyLoad) -> None:
        """Follow a new load; credits and counters carry on."""

    @abstractmethod
    def adopt(self, old: Self) -> None:
        """Take over from the shedder of an older plan what outlives it; at a cost of a few arrays.

        This happens on the data path, between two batches.
        """

    @abstractmethod
    def decide(
        self, batch: Batch, *, draws: Draws = None, most: int = UNLIMITED, weighted: bool = False
    ) -> Decision:
        """Decide on a batch that has been read.

        Parameters
        ----------
        draws
            One number per item from the hash of its key (:mod:`planning.keys`): the decision is
            then a pure function of plan, load, item and draw, as far as the family has no state.
        most
            Units that may pass; what is cut beyond it follows the plan's own order.
        weighted
            Whether to return weights.
        """

    def units(self, batch: Batch) -> int:
        """Return how much a batch offers, in the family's unit."""
        return batch.rows

    def offer(self, batch: Any) -> BoolArray:
        """Decide on a batch of any form: True where an item, or a part of it, is kept.

        Never raises because of the data: what cannot be read is dropped and counted.
        """
        try:
            read = batches.read(batch, self.schema)
            if read.rows:
                return self.decide(read).keep
        except Refusal as refusal:
            return self._refused(refusal.rows)
        return self.nothing(0)

    def offer_one(self, item: Any) -> bool | BoolArray:
        """Decide on one item, or on every part of it."""
        keep = self.offer([item])
        kept = keep[0] if len(keep) else self.nothing(1)[0]
        return np.asarray(kept) if self.parts else bool(kept)

    def nothing(self, rows: int) -> BoolArray:
        """Return the mask that keeps nothing of so many items."""
        shape = (rows, len(self.parts)) if self.parts else (rows,)
        return np.zeros(shape, dtype=np.bool_)

    def _refused(self, rows: int) -> BoolArray:
        """Count items that cannot be read, and decide on them."""
        return self.nothing(rows)

    @abstractmethod
    def _install(self, plan: AnyPlan) -> None:
        """Prepare for a plan; ``set_load`` comes next."""


@dataclass(frozen=True, slots=True, eq=False)
class ItemCounters:
    """Items offered and dropped, in as many rows as the family distinguishes.

    >>> ItemCounters(np.array([6, 4]), np.array([5, 0])).passed_fraction
    0.5
    """

    offered: IntArray
    dropped: IntArray

    @property
    def passed_fraction(self) -> float:
        """Fraction of all offered items that were kept; 1 before the first."""
        offered = int(self.offered.sum())
        return 1.0 - int(self.dropped.sum()) / offered if offered else 1.0
