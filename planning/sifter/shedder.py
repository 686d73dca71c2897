"""The runtime sifter: which region a tuple lies in, and whether it is dropped (Section IV-A).

The counter rule drops the m-th tuple of a region iff ceil(d * m) > ceil(d * (m - 1)); no random
numbers. It is kept as a credit per region, in units of 2**-32 tuples: each tuple adds d, and a
carry drops it. That is the same rule exactly, it needs no division, and it goes on smoothly when d
changes. Deviation: the rule as printed drops the first tuple of every region with d > 0, because
its credit starts full; here each region starts at its own phase, so that regions do not drop in
step and a short stream is not shed too much. ``start="full"`` is the printed rule.

A tuple with NaN in an attribute lies in no region; it is shed at the rate of random dropping,
1 - z. A tuple outside the domain belongs to the nearest region. ``offer`` never raises: a batch
that cannot be read is shed like tuples without region.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from planning.arrays import BoolArray, IntArray
from planning.sifter.kernels import decide
from planning.sifter.plan import Plan, Setting

ONE = 1 << 32
GOLDEN = 2654435769  # 2**32 / golden ratio: phases that are spread evenly for any l


@dataclass(frozen=True, slots=True, eq=False)
class Counters:
    """Tuples offered and dropped per region; the last row counts tuples without region."""

    offered: IntArray
    dropped: IntArray

    @property
    def passed_fraction(self) -> float:
        """Fraction of all offered tuples that were kept; 1 before the first."""
        offered = int(self.offered.sum())
        return 1.0 - int(self.dropped.sum()) / offered if offered else 1.0


class Shedder:
    """Sheds with a plan at a load.

    Parameters
    ----------
    plan
        The plan to apply.
    load
        Throttle fraction z; 1 keeps everything, which is the trivial filter F0.
    start
        ``"spread"``, or ``"full"`` for the counter rule as printed.
    """

    def __init__(
        self, plan: Plan, load: float = 1.0, *, start: Literal["spread", "full"] = "spread"
    ) -> None:
        self.start = start
        self._load(plan, load)

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._plan

    @property
    def setting(self) -> Setting:
        """The setting in force."""
        return self._setting

    @property
    def counters(self) -> Counters:
        """Tuples offered and dropped per region since this plan came into force."""
        return Counters(self._offered.copy(), self._dropped.copy())

    def set_load(self, load: float) -> None:
        """Follow a new throttle fraction; counters go on."""
        self._setting = self._plan.at(load)
        thresholds = np.append(self._setting.drop_thresholds, self._setting.unplaced)
        self._step = np.ceil(thresholds * ONE - 1e-6).astype(np.uint64)

    def swap(self, plan: Plan) -> None:
        """Follow a new plan at the same load; its regions count from zero."""
        self._load(plan, self._setting.load)

    def offer(self, batch: Mapping[str, Any] | Any) -> BoolArray:
        """Decide on a batch: True where the tuple is kept."""
        try:
            points = self._plan.partition.arranged(self._plan.space.matrix(batch))
        except (TypeError, ValueError):
            points = np.full((_length(batch), len(self._plan.space.axes)), np.nan)
        keep = np.empty(len(points), dtype=np.bool_)
        tree = self._plan.partition
        decide(
            np.ascontiguousarray(points), tree.dimension, tree.cut, tree.right, tree.leaf,
            self._step, self._credit, self._offered, self._dropped, keep,
        )  # fmt: skip
        return keep

    def offer_one(self, item: Mapping[str, Any] | Any) -> bool:
        """Decide on one tuple, given as a mapping or as a sequence of coordinates."""
        if isinstance(item, Mapping):
            return bool(self.offer({name: [value] for name, value in item.items()})[0])
        return bool(self.offer(np.asarray([item]))[0])

    def _load(self, plan: Plan, load: float) -> None:
        regions = plan.regions + 1
        self._plan = plan
        self._offered = np.zeros(regions, dtype=np.int64)
        self._dropped = np.zeros(regions, dtype=np.int64)
        self._credit = _first_credit(regions, self.start)
        self.set_load(load)


def _first_credit(regions: int, start: str) -> Any:
    if start == "full":
        return np.full(regions, ONE - 1, dtype=np.uint64)
    return (np.arange(regions, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(ONE // 2)) % (
        np.uint64(ONE)
    )


def _length(batch: Any) -> int:
    if isinstance(batch, Mapping):
        return max((len(column) for column in batch.values()), default=0)
    return len(batch)
