"""The runtime: nodes that report by dead reckoning under the plan's throttlers.

An item is a position: ``object_id``, ``time`` (seconds), ``x``, ``y``. It is kept (the node reports
it, with the velocity of its last step) iff the position that the server predicts from the node's
last report is off by more than the throttler of the region the node is in. A node's first position
is always kept. Beside its own model every node runs that of Δmin, so the shedder knows how many
reports were due and, with ``correct``, keeps the fraction sent at the load.

Nothing raises into the data path: positions that are not finite are dropped and counted, so are
those that are not newer than the node's last; a move faster than ``highest_speed`` is a jump, which
is reported without a velocity; positions outside the space use the nearest region.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray
from planning.errors import check_between
from planning.lira.correction import BudgetCorrection
from planning.lira.nodemap import raster_of
from planning.lira.plan import Plan, Setting

COLUMNS = ("object_id", "time", "x", "y")
FIELDS = 13  # last position and time; last report and its velocity and time; the same for Δmin
PERIOD = 200  # reports due between two corrections
INVALID, LATE, JUMPS, DUE, KEPT, FIRST = range(6)


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened since the start.

    ``due`` and ``sent`` leave out first reports; ``sent/due`` is the fraction that the load aims
    at.
    """

    offered: int
    dropped: int
    due: int
    sent: int
    objects: int
    invalid: int
    late: int
    jumps: int

    @property
    def passed_fraction(self) -> float:
        """Reports sent, relative to those that Δmin would have caused; 1 before the first."""
        return self.sent / self.due if self.due else 1.0


class Shedder:
    """Decides which positions are reported.

    Parameters
    ----------
    plan
        The plan to apply.
    load
        Throttle fraction z; 1 means Δmin everywhere.
    correct
        Correct at run time for what the plan's forecast is off.
    highest_speed
        Metres per second beyond which a move is a jump.
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
        self._counts = np.zeros(6, dtype=np.int64)
        self._offered = 0
        self._dropped = 0
        self._seen = (0, 0)
        self._correction = BudgetCorrection(
            check_between("load", load, 0.0, 1.0), floor=min(plan.floor, 1.0)
        )
        self._follow(plan, float(load))

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
        """What happened since the start; a swap keeps it."""
        c = self._counts
        return Counters(
            self._offered, self._dropped, int(c[DUE]), int(c[KEPT]), len(self._slots),
            int(c[INVALID]), int(c[LATE]), int(c[JUMPS]),
        )  # fmt: skip

    def set_load(self, load: float) -> None:
        """Follow a new throttle fraction."""
        self._load = check_between("load", load, 0.0, 1.0, remedy="pass a fraction")
        self._correction.aim(self._load)
        self._apply(self._correction.load if self.correct else self._load)

    def swap(self, plan: Plan) -> None:
        """Follow a new plan at the same load; nodes keep their last reports."""
        self._correction = BudgetCorrection(self._load, floor=min(plan.floor, 1.0))
        self._follow(plan, self._load)

    def _follow(self, plan: Plan, load: float) -> None:
        self._plan = plan
        self.set_load(load)

    def _apply(self, load: float) -> None:
        self._setting = self._plan.at(load)
        self._raster = raster_of(self._setting.by_level, self._plan.raster)

    def offer(self, batch: Mapping[str, Any] | Any) -> BoolArray:
        """Decide on a batch in order: True where the position is reported."""
        try:
            ids, (times, xs, ys) = _columns(batch)
        except (KeyError, TypeError, ValueError):
            size = _length(batch)
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
            1.0 / height, self._plan.frame.low, self.highest_speed, keep, self._counts,
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

    def _adjust(self) -> None:
        if not self.correct:
            return
        due = int(self._counts[DUE]) - self._seen[0]
        if due >= max(PERIOD, len(self._slots)):  # about one per object: less is noise
            kept = int(self._counts[KEPT]) - self._seen[1]
            self._seen = (int(self._counts[DUE]), int(self._counts[KEPT]))
            self._apply(self._correction.observe(kept, due))


def _columns(batch: Any) -> tuple[NDArray[Any], list[FloatArray]]:
    ids = np.asarray(batch["object_id"])
    if ids.dtype.kind not in "iufUS":
        ids = ids.astype(str)
    columns = [np.ascontiguousarray(batch[name], dtype=np.float64) for name in COLUMNS[1:]]
    if ids.ndim != 1 or any(column.shape != ids.shape for column in columns):
        raise ValueError("columns of one length are due")
    return ids, columns


def _length(batch: Any) -> int:
    if isinstance(batch, Mapping):
        return max((len(column) for column in batch.values()), default=0)
    return len(batch)


@njit(cache=True)
def _decide(  # type: ignore[no-untyped-def]
    slots, times, xs, ys, nodes, raster, x_low, y_low, per_x, per_y, lowest, highest_speed, keep,
    counts,
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
            counts[FIRST] += 1
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
        age = t - node[7]
        dx, dy = x - (node[3] + node[5] * age), y - (node[4] + node[6] * age)
        if dx * dx + dy * dy > limit * limit:
            node[3], node[4], node[5], node[6], node[7] = x, y, vx, vy, t
            counts[KEPT] += 1
            keep[i] = True
        age = t - node[12]
        dx, dy = x - (node[8] + node[10] * age), y - (node[9] + node[11] * age)
        if dx * dx + dy * dy > lowest * lowest:
            node[8], node[9], node[10], node[11], node[12] = x, y, vx, vy, t
            counts[DUE] += 1
