"""What the shedders of all families share: the plan they follow, and how they count.

A family's ``Shedder`` in ``planning/<family>/shedder.py`` derives from :class:`BaseShedder`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from planning.arrays import IntArray

AnyPlan = TypeVar("AnyPlan")
AnySetting = TypeVar("AnySetting")
AnyLoad = TypeVar("AnyLoad")


class BaseShedder(ABC, Generic[AnyPlan, AnySetting, AnyLoad]):
    """Follows a plan at a load.

    A family prepares for a plan in ``_install``, takes its setting in ``set_load``, and adds
    ``offer``, ``offer_one`` and ``counters``.
    """

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

    @abstractmethod
    def set_load(self, load: AnyLoad) -> None:
        """Follow a new load; the counters carry on."""

    def swap(self, plan: AnyPlan) -> None:
        """Follow a new plan at the same load."""
        self._install(plan)
        self.set_load(self._load)

    @abstractmethod
    def _install(self, plan: AnyPlan) -> None:
        """Prepare for a plan; ``set_load`` comes next."""


@dataclass(frozen=True, slots=True, eq=False)
class ItemCounters:
    """Items offered and dropped, in as many rows as the family distinguishes.

    >>> import numpy as np
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


def batch_size(batch: Any) -> int:
    """Return the number of items in a batch: columns by name, an array of rows, or a sequence.

    >>> import numpy as np
    >>> batch_size({"x": [1.0, 2.0], "y": [3.0, 4.0]}), batch_size(np.zeros((3, 2)))
    (2, 3)
    """
    if isinstance(batch, Mapping):
        return max((len(column) for column in batch.values()), default=0)
    return len(batch)
