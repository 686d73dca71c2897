"""The runtime: nodes that report by dead reckoning under the plan's throttlers.

An item is a position: ``object_id``, ``time`` (seconds), ``x``, ``y``. It is kept (the node reports
it, with the velocity of its last step) iff the position that the server predicts from the node's
last report is off by more than the throttler of the region the node is in. A node's first position
is always kept. Alongside its own model every node runs that of Δmin, so the shedder knows how many
reports were due.

The load z is a promise: from the start to any moment at most z times the reports due are sent. A
ledger in whole numbers earns z for every report due and pays one for every report sent; a report
that it cannot yet pay for waits, and is sent from wherever the node is then. Where the throttler is
high, nobody looks: reports wait there first, and what is left is for the others. The run-time
correction moves the throttlers so that a little is saved and reports seldom wait. Savings stop at
about one report per node, so any stretch of time sends at most z times its due and that much more.

Nothing raises into the data path: positions that are not finite are dropped and counted, as are
those that are not newer than the node's last; a move faster than ``highest_speed`` is a jump, which
is reported without a velocity; positions outside the space use the nearest region.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, for_reading
from planning.errors import check_between
from planning.lira import kernels
from planning.lira.kernels import DUE, FIELDS, INVALID, KEPT, REPORT, WANTED
from planning.lira.plan import Plan, Setting
from planning.shedder import BaseShedder, batch_size

COLUMNS = ("object_id", "time", "x", "y")
PERIOD = 200  # reports due between two corrections, at least
HORIZON = 4.0  # periods over which a past excess is made up for
# Both in units of the root of the reports in a period, which is how far chance moves that number.
SAVED = 3.0  # reports that the correction keeps in the ledger
RESERVED = 2.0  # reports that nodes at Δmax leave to others; in between, in proportion


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened since the start.

    ``due`` and ``sent`` leave out first reports; ``sent/due`` never exceeds a constant load.
    ``waiting`` reports are beyond their throttler and are sent as soon as the budget allows.
    """

    offered: int
    dropped: int
    due: int
    sent: int
    waiting: int
    objects: int
    invalid: int
    late: int
    jumps: int

    @property
    def passed_fraction(self) -> float:
        """Reports sent, relative to those that Δmin would have caused; 1 before the first."""
        return self.sent / self.due if self.due else 1.0


class Shedder(BaseShedder[Plan, Setting, float]):
    """Decides which positions are reported.

    Parameters
    ----------
    load
        Throttle fraction z; 1 means Δmin everywhere and no budget.
    correct
        Keep the budget at run time, however far off the plan's forecast is; otherwise the plan's
        throttlers apply as they are.
    highest_speed
        Metres per second beyond which a move is a jump.

    Examples
    --------
    One region with Δ from 5 to 105 m; at load 1 the node reports when it is 5 m off:

    >>> plan = Plan.from_document({
    ...     "format": 1, "bounds": [0, 0, 2000, 2000], "side": 1, "tree": "L", "level": [0],
    ...     "lowest_threshold": 5, "highest_threshold": 105, "segments": 1, "ratio": [1.0],
    ...     "weight": [1.0], "inside": [1.0], "reduction": [1.0, 0.25], "errors": [0.0, 18.0],
    ...     "departure": 0.0, "fairness_threshold": 100, "throttle_fraction": 0.5,
    ...     "reports_per_position": 0.2,
    ... })
    >>> node = {"object_id": [7] * 3, "time": [0, 1, 2], "x": [100, 104, 130], "y": [500] * 3}
    >>> Shedder(plan, 1.0).offer(node).tolist(), Shedder(plan, 0.5).offer(node).tolist()
    ([True, False, True], [True, False, False])
    """

    def __init__(
        self,
        plan: Plan,
        load: float = 1.0,
        *,
        correct: bool = True,
        highest_speed: float = 100.0,
    ) -> None:
        self.correct = correct
        self.highest_speed = highest_speed
        self._slots: dict[Any, int] = {}
        self._nodes = np.full((1024, FIELDS), np.nan)
        self._counts = np.zeros(7, dtype=np.int64)
        self._offered = 0
        self._dropped = 0
        self._seen = (0, 0)
        super().__init__(plan, load)

    @property
    def counters(self) -> Counters:
        """What happened since the start; a swap keeps it."""
        c = self._counts
        return Counters(
            self._offered, self._dropped, int(c[DUE]), int(c[KEPT]), int(c[WANTED] - c[KEPT]),
            len(self._slots), int(c[INVALID]), int(c[kernels.LATE]), int(c[kernels.JUMPS]),
        )  # fmt: skip

    def set_load(self, load: float) -> None:
        """Follow a new throttle fraction; what the ledger has saved stays."""
        self._load = check_between("load", load, 0.0, 1.0, remedy="pass a fraction")
        self._correction.aim(self._load)
        self._apply(self._correction.load if self.correct else self._load)

    def _install(self, plan: Plan) -> None:
        """Learn the plan's bias anew; nodes keep their last reports."""
        self._plan = plan
        self._correction = BudgetCorrection(1.0, floor=min(plan.floor, 1.0))

    def _apply(self, load: float) -> None:
        self._setting = self._plan.at(load)
        self._raster = self._setting.by_level.astype(np.float32)[self._plan.raster]

    def offer(self, batch: Mapping[str, Any] | Any) -> BoolArray:
        """Decide on a batch in order: True where the position is reported."""
        try:
            ids, (times, xs, ys) = _columns(batch)
        except (KeyError, TypeError, ValueError):
            size = batch_size(batch)
            self._offered += size
            self._dropped += size
            self._counts[INVALID] += size
            return np.zeros(size, dtype=np.bool_)
        keep = np.empty(len(ids), dtype=np.bool_)
        slots = self._find(ids)
        x_low, y_low, _, _ = self._plan.frame.bounds
        width, height = self._plan.frame.cell_size
        kernels.decide(
            slots, times, xs, ys, self._nodes, self._raster, x_low, y_low, 1.0 / width,
            1.0 / height, self._plan.frame.low, self.highest_speed, self._earned(), self._period(),
            self._reserve(), keep, self._counts,
        )  # fmt: skip
        self._offered += len(ids)
        self._dropped += len(ids) - int(np.count_nonzero(keep))
        self._adjust()
        return keep

    def offer_one(self, item: Mapping[str, Any] | Any) -> bool:
        """Decide on one position: a mapping, or (object_id, time, x, y)."""
        if isinstance(item, Mapping):
            return bool(self.offer({name: [item.get(name)] for name in COLUMNS})[0])
        return bool(self.offer({name: [v] for name, v in zip(COLUMNS, item, strict=False)})[0])

    def _find(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return every object's slot; new objects get the next one."""
        known = self._slots
        distinct, inverse = np.unique(ids, return_inverse=True)
        slots = np.empty(distinct.size, dtype=np.int64)
        for i, name in enumerate(distinct.tolist()):
            slot = known.get(name)
            if slot is None:
                slot = known[name] = len(known)
            slots[i] = slot
        if len(known) > len(self._nodes):
            grown = np.full((max(len(known), 2 * len(self._nodes)), FIELDS), np.nan)
            grown[: len(self._nodes)] = self._nodes
            self._nodes = grown
        return slots[inverse]

    def _earned(self) -> int:
        """Return what a report due earns in the ledger, -1 where nothing is to be saved."""
        return int(self._load * REPORT) if self.correct and self._load < 1.0 else -1

    def _period(self) -> int:
        """Return the reports due between two corrections: about one per object, fewer are noise."""
        return max(PERIOD, len(self._slots))

    def _reserve(self) -> float:
        """Return what a report leaves in the ledger per metre that its throttler exceeds Δmin."""
        frame = self._plan.frame
        return RESERVED * REPORT * math.sqrt(self._period()) / (frame.high - frame.low)

    def _adjust(self) -> None:
        if not self.correct:
            return
        due = int(self._counts[DUE]) - self._seen[0]
        if due >= self._period():
            # What waits counts as sent, or the throttlers would not follow.
            wanted = int(self._counts[WANTED]) - self._seen[1]
            self._seen = (int(self._counts[DUE]), int(self._counts[WANTED]))
            savings = SAVED * math.sqrt(self._period())
            self._apply(self._correction.observe(wanted, due, savings))


class BudgetCorrection:
    """Turns a wanted throttle fraction into the one to ask the plan for.

    A plan meets its budget for the f it was made with, but f is only a forecast: traffic changes,
    and regions differ from the average. So the fraction asked of the plan is divided by how far it
    was off recently, and any excess or shortfall of reports is made up for over the next few
    periods. What Δmin would have sent (``due``) is known: every node can run that model alongside
    its own.

    Parameters
    ----------
    throttle_fraction
        z, the wanted fraction.
    floor
        The smallest fraction that the plan can reach; it is never asked for less.

    Examples
    --------
    If a plan always sends a tenth too much, it is asked for less and the sum comes out right:

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
        """Record a period: ``kept`` reports sent of ``due``; return the load from now on.

        ``savings`` is how many reports to stay below the budget, so that chance seldom exceeds it.
        """
        if not due > 0 or self.throttle_fraction >= 1.0:
            return self.load
        if kept > 0 and self.load > 0:
            off = kept / due / self.load
            self._bias = off if self._periods == 0 else (self._bias * off) ** 0.5
            self._bias = min(max(self._bias, 0.5), 2.0)
        self._periods += 1
        self._excess += kept - self.throttle_fraction * due
        # A budget that cannot be met must not be held against later periods.
        limit = 0.25 * HORIZON * due
        self._excess = min(max(self._excess, -limit), limit)
        self.load = self._asked((self._excess + savings) / due / HORIZON)
        return self.load

    def _asked(self, repay: float) -> float:
        wanted = (self.throttle_fraction - repay) / self._bias
        if self.throttle_fraction >= 1.0:
            return 1.0
        return min(max(wanted, self.floor), 1.0)


def _columns(batch: Any) -> tuple[NDArray[Any], list[FloatArray]]:
    ids = np.asarray(batch["object_id"])
    if ids.dtype.kind not in "iufUS":
        ids = ids.astype(str)
    columns = [for_reading(batch[name]) for name in COLUMNS[1:]]
    if ids.ndim != 1 or any(column.shape != ids.shape for column in columns):
        raise ValueError("columns must have one length")
    return ids, columns
