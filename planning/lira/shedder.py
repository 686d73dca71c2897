"""The runtime: nodes that report by dead reckoning under the plan's throttlers.

An item is a position: ``object_id``, ``time`` (seconds), ``x``, ``y``. It is kept (the node reports
it, with the velocity of its last step) iff the position that the server predicts from the node's
last report is off by more than the throttler of the region the node is in, or that of the region
it is predicted in, if that is lower: it errs in the results there. A node's first position is
always kept. Alongside its own model every node runs that of Δmin, so the shedder knows how many
reports were due.

The load z is a promise: from the start to any moment at most z times the reports due are sent. A
ledger in whole numbers earns z for every report due and pays one for every report sent; a report
that it cannot yet pay for waits, and is sent from wherever the node is then. Where the throttler is
high, nobody looks: reports wait there first, and what is left is for the others. But nobody waits
for ever: who has waited for as long as it takes to earn one report for every node that moves, or is
off by more than Δmax, is overdue, and the others leave it what it needs.

The run-time correction moves the throttlers so that a little is saved and reports seldom wait. It
acts whenever a period ends, about one report due of every node that moves, wherever in a batch that
is: decisions do not depend on how the stream is cut into batches. Savings stop at a period's
reports, so any stretch of time sends at most z times its due and that much more.

A hard limit on the reports of a batch cuts where throttlers are highest, and evenly over the batch
where it bites. What was cut was not reported: the node goes on from its last report and waits; a
first position that was cut is a first position again.

Guarantees are kept whatever the traffic: the correction raises no throttler above what a guarantee
allows that holds at the load. It is then the others that make room, and reports that wait.

With keys (``draws``) ledger and correction are off and throttlers are exactly ``plan.at(load)``.
The decision on a position then depends on the plan, the loads and the object's own track since its
first position, and is the same wherever the track is seen from the same start; the draw itself is
not used. A key does not fix what a node does that joins a track midway, or after a limit has cut.

Nothing raises into the data path: positions that are not finite or have no name are dropped and
counted, as are those that are not newer than the node's last; a move faster than ``highest_speed``
is a jump, which is reported without a velocity; positions outside the space use the nearest region.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.batches import Batch, Refusal, Schema
from planning.errors import InvalidInput, check_between
from planning.lira import kernels
from planning.lira.kernels import DUE, INVALID, KEPT, REPORT, WANTED
from planning.lira.memory import SHORTEST, BudgetCorrection, Fleet
from planning.lira.plan import FURTHEST, Plan, Setting
from planning.pacing import UNLIMITED
from planning.shedder import BaseShedder, Decision, Draws, Measures

SCHEMA = Schema(("object_id", "time", "x", "y"))
# Both in units of the root of the reports in a period, which is how far chance moves that number.
SAVED = 3.0  # reports that the correction keeps in the ledger
RESERVED = 2.0  # reports that nodes at Δmax leave to others; in between, in proportion
ONCE = 0.63  # of the nodes that move: those that are due in as many reports, by chance
Tracks = tuple[FloatArray, FloatArray, FloatArray]
NOT_PLANNED = np.zeros(0, dtype=np.bool_)
NO_MARKS = np.zeros(0, dtype=np.bool_)


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
    silence_s
        Seconds after which an object that was not heard of may be forgotten.

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

    UNIT = "reports"
    # Whether a position is reported follows from the track before it, not from a probability: an
    # object's last report stands for its whole way since, and a weight would have nothing to count.
    WEIGHTED = False

    _correction: BudgetCorrection
    _ceilings: FloatArray | float
    _limits: FloatArray
    _seen: tuple[int, int]  # reports due and wanted before this period

    def __init__(
        self,
        plan: Plan,
        load: float = 1.0,
        *,
        correct: bool = True,
        highest_speed: float = 100.0,
        silence_s: float = 3600.0,
    ) -> None:
        self.correct = correct
        self.highest_speed = check_between(
            "highest_speed", highest_speed, 0.0, math.inf, open_low=True
        )
        self._fleet = Fleet(check_between("silence_s", silence_s, 0.0, math.inf, open_low=True))
        self._keyed = False
        super().__init__(plan, load)

    @property
    def schema(self) -> Schema:
        """The columns of a position."""
        return SCHEMA

    @property
    def counters(self) -> Counters:
        """What happened since the start; a successor takes it over."""
        c, fleet = self._fleet.counts, self._fleet
        return Counters(
            fleet.offered, fleet.dropped, int(c[DUE]), int(c[KEPT]), int(c[WANTED] - c[KEPT]),
            fleet.objects, int(c[INVALID]), int(c[kernels.LATE]), int(c[kernels.JUMPS]),
        )  # fmt: skip

    def measures(self) -> Measures:
        """Return the throttler of every level; the regions of a level have the same one."""
        ceilings = math.inf if self._plain else self._ceilings
        throttlers = {"throttler_meters": np.minimum(self._setting.by_level, ceilings)}
        return Measures("level", range(len(self._limits)), self._plan.weight, throttlers)

    def probe(self, rows: int) -> dict[str, Any]:
        """Return two positions each of objects that cross the space."""
        objects = (rows + 1) // 2
        x_low, y_low, x_high, y_high = self._plan.frame.bounds
        across = np.arange(rows) / max(rows, 1)
        return {
            "object_id": np.arange(rows) % objects if rows else np.arange(0),
            "time": np.arange(rows, dtype=np.float64) * 60.0,
            "x": x_low + (x_high - x_low) * across,
            "y": y_low + (y_high - y_low) * across,
        }

    def set_load(self, load: float) -> None:
        """Follow a new throttle fraction; what the ledger has saved and what was learned stay."""
        z = check_between("load", load, 0.0, 1.0, remedy="pass a fraction")
        if z != self._load:
            self._ceilings = self._plan.ceilings(z)
            self._follow(z if self._plain else self._correction.asked(z))
            self._correction.aim(z, due=self._due)
            self._load = z

    def adopt(self, old: Shedder) -> None:
        """Take over the nodes' last reports, the ledger and the counters; learn the bias anew."""
        self._fleet = old._fleet
        load = self._load
        self._install(self._plan)
        self.set_load(load)

    def decide(
        self, batch: Batch, *, draws: Draws = None, most: int = UNLIMITED, weighted: bool = False
    ) -> Decision:
        """Decide on positions in their order: True where one is reported.

        With draws, whatever they are, neither ledger nor correction has a say. Weights are not
        given.
        """
        return self.decide_marked(batch, NO_MARKS, draws=draws, most=most)

    def set_marks(self, fraction: float) -> None:
        """Nothing is set aside for marked positions: the ledger pays for each."""

    def decide_marked(
        self,
        batch: Batch,
        marks: BoolArray,
        *,
        ahead: int = UNLIMITED,
        draws: Draws = None,
        most: int = UNLIMITED,
        weighted: bool = False,
    ) -> Decision:
        """Decide; marked positions are reported, as far as the ledger and ``most`` suffice.

        ``marks`` is changed: others lose their mark and are decided on like any position. Late and
        invalid ones keep it, but are not reported.
        """
        columns = batch.numbers("time"), batch.numbers("x"), batch.numbers("y")
        try:
            slots = self._fleet.find(batch.columns["object_id"])
        except Exception as error:
            raise Refusal(f"column object_id must be names: {error!r}", batch.rows) from None
        if self._keyed != (draws is not None):
            self._keyed = draws is not None
            self._begin_period()
            self._follow(self._load if self._plain else self._correction.load)
        keep, kept, wanted = self._decide(slots, columns, max(most, 0), marks)
        self._fleet.offered += batch.rows
        self._fleet.dropped += batch.rows - kept
        return Decision(keep, kept, wanted - kept)

    def _decide(
        self, slots: IntArray, columns: Tracks, most: int, marks: BoolArray
    ) -> tuple[BoolArray, int, int]:
        """Return what is kept, how many positions that is, and how many without the limit."""
        fleet = self._fleet
        marks[np.flatnonzero(marks)[most:]] = False
        before: Any = None
        if most < len(slots):
            learned = copy(self._correction), self._seen, self._setting, self._limits
            before = fleet.nodes[slots], fleet.counts.copy(), fleet.period, learned
        keep, by_level = self._run(slots, columns, marks)
        wanted = int(np.count_nonzero(keep))
        if before is None or wanted <= most:
            return keep, wanted, wanted
        most -= wanted - int(by_level.sum())
        # Nothing was sent yet. Throttlers say in which order reports are worth sending: the lowest
        # first, up to the one where the limit bites.
        fleet.nodes[slots], fleet.counts[:], fleet.period, learned = before
        self._correction, self._seen, self._setting, self._limits = learned
        order = self._limits.argsort(kind="stable")
        edge = float(self._limits[order[by_level[order].cumsum().searchsorted(most, "right")]])
        below = int(by_level[self._limits < edge].sum())
        at_edge = int(by_level[self._limits == edge].sum())
        keep, by_level = self._run(slots, columns, marks, keep, edge, most - below, at_edge)
        return keep, int(np.count_nonzero(keep)), wanted

    def _run(
        self,
        slots: IntArray,
        columns: Tracks,
        marks: BoolArray,
        planned: BoolArray = NOT_PLANNED,
        edge: float = math.inf,
        quota: int = 0,
        wanted: int = 0,
    ) -> tuple[BoolArray, IntArray]:
        """Decide, and correct wherever a period ends; where a limit cuts, only at the end."""
        fleet = self._fleet
        keep = np.empty(len(slots), dtype=np.bool_)
        by_level = np.zeros(len(self._limits), dtype=np.int64)
        earned = int(self._load * REPORT) if not self._plain and self._load < 1.0 else -1
        whole, done = self._plain or planned.size > 0, 0
        while done < len(slots):
            last_due = UNLIMITED if whole else self._seen[0] + fleet.period
            done = kernels.decide(
                done, last_due, slots, *columns, fleet.nodes, self._raster, self._limits,
                *self._place, self.highest_speed, earned, fleet.period, self._reserve(), marks,
                planned, edge, quota, wanted, keep, by_level, fleet.counts,
            )  # fmt: skip
            if not self._plain and self._due >= fleet.period:
                self._adjust()
        return keep, by_level

    def _refused(self, rows: int) -> BoolArray:
        self._fleet.offered += rows
        self._fleet.dropped += rows
        self._fleet.counts[INVALID] += rows
        return self.nothing(rows)

    def _install(self, plan: Plan) -> None:
        self._plan = plan
        self._load = math.nan
        self._raster = plan.raster
        self._correction = BudgetCorrection(1.0)
        frame = plan.frame
        width, height = frame.cell_size
        x_low, y_low, _, _ = frame.bounds
        self._place = (
            float(x_low), float(y_low), 1.0 / width, 1.0 / height, float(frame.low),
            float(frame.high),
        )  # fmt: skip
        self._begin_period()

    @property
    def _plain(self) -> bool:
        """Whether the plan's throttlers apply as they are, without ledger and correction."""
        return self._keyed or not self.correct

    def _follow(self, load: float) -> None:
        """Follow the plan's throttlers at a load, in single precision.

        Where these cannot reach it, the run-time correction raises them all beyond Δmax, in
        proportion: fewer wait, and for less long.
        """
        reached = load if self._plain else max(load, min(self._plan.floor, 1.0))
        setting = self._plan.at(load) if self._plain else self._plan.near(reached)
        beyond = min(reached / max(load, 1e-9), FURTHEST)
        limits = (setting.by_level * beyond).astype(np.float32).astype(np.float64)
        if not self._plain:
            limits = np.minimum(limits, self._ceilings)
        if not (limits >= 0.0).all():
            raise InvalidInput("throttlers must be numbers of at least 0, got NaN")
        self._setting, self._limits = setting, limits

    def _reserve(self) -> float:
        """Return what a report leaves in the ledger per metre that its throttler exceeds Δmin."""
        frame = self._plan.frame
        return RESERVED * REPORT * math.sqrt(self._fleet.period) / (frame.high - frame.low)

    @property
    def _due(self) -> int:
        """Reports due in this period."""
        return int(self._fleet.counts[DUE]) - self._seen[0]

    def _begin_period(self) -> None:
        counts = self._fleet.counts
        self._seen = (int(counts[DUE]), int(counts[WANTED]))
        counts[kernels.PERIOD] += 1
        counts[kernels.MOVING] = counts[kernels.OVERDUE] = 0
        self._correction.begin()

    def _adjust(self) -> None:
        """Correct; a period should see about one report due of every node that moves."""
        fleet = self._fleet
        # What waits counts as sent, or the throttlers would not follow.
        wanted = int(fleet.counts[WANTED]) - self._seen[1]
        load = self._correction.observe(wanted, self._due, SAVED * math.sqrt(fleet.period))
        moving = int(fleet.counts[kernels.MOVING] / ONCE)
        fleet.period = max(SHORTEST, min(moving, 2 * fleet.period))
        self._begin_period()
        self._follow(load)
