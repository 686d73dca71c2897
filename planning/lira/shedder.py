"""The runtime: nodes that report by dead reckoning under the plan's throttlers.

An item is a position: ``object_id``, ``time`` (seconds), ``x``, ``y``. It is kept (the node reports
it, with the velocity of its last step) iff the position that the server predicts from the node's
last report is off by more than the throttler of the region the node is in. A node's first position
is always kept. Beside its own model every node runs that of Δmin, so the shedder knows how many
reports were due.

The load z is a promise: from the start to any moment at most z times the reports due are sent. A
ledger in whole numbers earns z for every report due and pays one for every report sent; a report
that it cannot pay yet waits, and is sent from wherever the node is by then. Where the throttler is
high, nobody looks: there reports wait first, and what is left is for the others. The run-time
correction moves the throttlers so that a little is saved and reports seldom wait. Savings end at
about one report per node, so any stretch of time sends at most z times its due and that much more.

Nothing raises into the data path: positions that are not finite are dropped and counted, so are
those that are not newer than the node's last; a move faster than ``highest_speed`` is a jump, which
is reported without a velocity; positions outside the space use the nearest region.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, for_reading
from planning.errors import check_between
from planning.lira.correction import BudgetCorrection
from planning.lira.nodemap import raster_of
from planning.lira.plan import Plan, Setting
from planning.pacing import ONE
from planning.shedder import BaseShedder, batch_size

COLUMNS = ("object_id", "time", "x", "y")
# Last position and time; last report, its velocity and time; the same for Δmin; waits to report.
FIELDS = 14
WAITS = 13
PERIOD = 200  # reports due between two corrections, at least
INVALID, LATE, JUMPS, DUE, KEPT, WANTED, CREDIT = range(7)
# Both times the root of the reports in a period, which is how far chance moves their number.
SAVED = 3.0  # reports that the correction keeps in the ledger
RESERVED = 2.0  # reports that nodes at Δmax leave to others; in between, in proportion
REPORT = ONE  # what a report costs in the ledger


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened since the start.

    ``due`` and ``sent`` leave out first reports; ``sent/due`` never exceeds a constant load.
    ``waiting`` reports are beyond their throttler and come as soon as the budget allows.
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
        Keep the budget at run time, whatever the plan's forecast is off; otherwise the plan's
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
            len(self._slots), int(c[INVALID]), int(c[LATE]), int(c[JUMPS]),
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
        self._raster = raster_of(self._setting.by_level, self._plan.raster)

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
        _decide(
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
        """Return the reports due between two corrections: about one per object, less is noise."""
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


def _columns(batch: Any) -> tuple[NDArray[Any], list[FloatArray]]:
    ids = np.asarray(batch["object_id"])
    if ids.dtype.kind not in "iufUS":
        ids = ids.astype(str)
    columns = [for_reading(batch[name]) for name in COLUMNS[1:]]
    if ids.ndim != 1 or any(column.shape != ids.shape for column in columns):
        raise ValueError("columns of one length are due")
    return ids, columns


@njit(cache=True)
def _decide(  # type: ignore[no-untyped-def]
    slots, times, xs, ys, nodes, raster, x_low, y_low, per_x, per_y, lowest, highest_speed, earned,
    savings, reserve, keep, counts,
):  # fmt: skip
    rows, columns = raster.shape
    for i in range(slots.size):
        t, x, y = times[i], xs[i], ys[i]
        keep[i] = False
        if not (np.isfinite(t) and np.isfinite(x) and np.isfinite(y)):
            counts[INVALID] += 1
            continue
        node = nodes[slots[i]]
        if np.isnan(node[2]):
            node[0], node[1], node[2] = x, y, t
            node[3], node[4], node[5], node[6], node[7] = x, y, 0.0, 0.0, t
            node[8], node[9], node[10], node[11], node[12] = x, y, 0.0, 0.0, t
            node[WAITS] = 0.0
            keep[i] = True
            continue
        if not t > node[2]:
            counts[LATE] += 1
            continue
        step = t - node[2]
        vx, vy = (x - node[0]) / step, (y - node[1]) / step
        if vx * vx + vy * vy > highest_speed * highest_speed:
            vx = vy = 0.0
            counts[JUMPS] += 1
        node[0], node[1], node[2] = x, y, t
        column = (x - x_low) * per_x
        row = (y - y_low) * per_y
        column = min(max(column, 0.0), columns - 1.0)
        row = min(max(row, 0.0), rows - 1.0)
        limit = np.float64(raster[int(row), int(column)])
        age = t - node[12]
        dx, dy = x - (node[8] + node[10] * age), y - (node[9] + node[11] * age)
        if dx * dx + dy * dy > lowest * lowest:
            node[8], node[9], node[10], node[11], node[12] = x, y, vx, vy, t
            counts[DUE] += 1
            if earned >= 0:
                counts[CREDIT] = min(counts[CREDIT] + earned, savings * REPORT)
        age = t - node[7]
        dx, dy = x - (node[3] + node[5] * age), y - (node[4] + node[6] * age)
        wants = 1.0 if dx * dx + dy * dy > limit * limit else 0.0
        counts[WANTED] += int(wants - node[WAITS])
        node[WAITS] = wants
        if wants and (earned < 0 or counts[CREDIT] >= REPORT + reserve * (limit - lowest)):
            if earned >= 0:
                counts[CREDIT] -= REPORT
            node[3], node[4], node[5], node[6], node[7] = x, y, vx, vy, t
            node[WAITS] = 0.0
            counts[KEPT] += 1
            keep[i] = True
