"""The runtime: which basic windows a tuple is compared with, or the windowed join itself.

``offer(batch)`` only decides, for an operator elsewhere: row k of its mask says which basic windows
of the other stream's window tuple k is to be compared with, newest first. ``push(stream, batch)``
joins: it is the operator (:mod:`planning.joins.control.governed`). Neither ever raises because of
the data.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from planning import keys
from planning.arrays import BoolArray, FloatArray, IntArray
from planning.batches import Batch, Refusal, Schema
from planning.errors import check_between
from planning.joins.control import Controller, Limits
from planning.joins.control.grants import Grants
from planning.joins.model import Tuples
from planning.joins.plan import Plan, Setting
from planning.pacing import UNLIMITED
from planning.shedder import BaseShedder, Decision, Draws, Measures

if TYPE_CHECKING:
    from planning.joins.control.governed import GovernedJoin
    from planning.joins.engine import Matches, WindowedJoin


@dataclass(frozen=True, slots=True)
class Counters:
    """What the shedder has done since it started."""

    offered: int  # tuples
    dropped: int  # tuples that ``offer`` lets be compared with nothing; operators still store them
    compared: int  # comparisons made, or basic windows granted by ``offer``
    possible: int  # comparisons that the complete join would have made, or basic windows
    matches: int
    rejected: int  # tuples set aside: time not a number, items outside the vocabulary, unreadable
    late: int
    ignored: int  # tuples older than the windows
    clock_resets: int
    unknown_types: int
    unknown_streams: int  # tuples offered of neither stream
    busy_s: float  # processor time spent joining
    stale: bool  # the plan's order has been found wrong; a new plan is wanted

    @property
    def passed_fraction(self) -> float:
        """Share of comparisons made; 1 before the first."""
        return self.compared / self.possible if self.possible else 1.0


@dataclass(slots=True)
class Offered:
    """What ``offer`` has counted; it outlives plans."""

    tuples: int = 0
    dropped: int = 0
    granted: int = 0
    possible: int = 0
    unreadable: int = 0
    unknown_types: int = 0
    unknown_streams: int = 0


class Shedder(BaseShedder[Plan, Setting, float]):
    """Joins two streams within a load, or says what to compare.

    A fraction of a basic window is spread over tuples: of two tuples at r = 0.5 one is compared
    with it. By credits every second one is, with a key those whose draw says so: whatever the
    load, a tuple keeps what it was granted at lower loads. A key fixes what ``offer`` grants, not
    which matches there are: these depend on what the windows hold. No weights are given, because no
    tuple is dropped: each is stored, and each of its matches is found with the chance that its own
    basic window is granted, ``setting.take``.

    Parameters
    ----------
    load
        Fraction r of all comparisons to make, unless a budget decides.
    engine
        Whether ``push`` will be used: the operator is then compiled and built right away instead
        of at the first push. Implied by a budget.
    limits
        ``budget_per_s``, ``cpu_share`` and more for ``push``: :class:`~planning.joins.control.\
Limits`. With a budget the load follows by itself at every tick.

    Examples
    --------
    >>> from planning.examples import demo_plan, demo_samples
    >>> plan = demo_plan("joins")
    >>> rows = {name: column[:6000] for name, column in demo_samples("joins", batch=1).items()}
    >>> shedder = Shedder(plan, load=0.1)
    >>> shedder.offer(rows).shape, shedder.offer_one({name: rows[name][0] for name in rows}).shape
    ((6000, 21), (21,))
    >>> whole, tenth = Shedder(plan), Shedder(plan, load=0.1)
    >>> joined = [shedder.push_pair(*plan.layout.streams_of(rows)) for shedder in (whole, tenth)]
    >>> round(tenth.counters.passed_fraction, 2), len(joined[1].left) > 0.3 * len(joined[0].left)
    (0.1, True)
    """

    EVERYTHING = MappingProxyType({"engine": True})
    UNIT = "basic windows"

    def __init__(
        self, plan: Plan, load: float = 1.0, *, engine: bool = False, **limits: Any
    ) -> None:
        self.limits = Limits(**limits)
        self._governed: GovernedJoin | None = None
        self._counts = Offered()
        super().__init__(plan, load)
        if engine or self.limits.budgeted:
            self._governed = self.governed

    def _install(self, plan: Plan) -> None:
        self._plan = plan
        layout, windows = plan.layout, plan.windows
        self._schema = Schema(tuple(dict.fromkeys(layout.columns)))
        self._parts = windows.names
        self._present = windows.extents_s > 0
        self._cheapest = int(np.argmin(plan.utilities)) // (len(layout.sizes) + 1)
        self._grants = Grants(plan, 1.0)
        if layout.text:
            keys.warm()

    @property
    def schema(self) -> Schema:
        """The columns of the plan's layout."""
        return self._schema

    @property
    def parts(self) -> tuple[str, ...]:
        """The basic windows of the other stream's window, newest first."""
        return self._parts

    @property
    def setting(self) -> Setting:
        """The setting in force."""
        return self._plan.at(self._load)

    @property
    def load(self) -> float:
        """The load being followed; a budget sets it."""
        budgeted = self._governed is not None and self.limits.budgeted
        return self.governed.load if budgeted else self._load

    @property
    def governed(self) -> GovernedJoin:
        """The operator, which ``push`` feeds."""
        if self._governed is None:
            from planning.joins.control.governed import GovernedJoin

            self._governed = GovernedJoin(self._plan, self.setting, self.limits)
        return self._governed

    @property
    def join(self) -> WindowedJoin:
        """The windows and what was found in them."""
        return self.governed.join

    @property
    def controller(self) -> Controller:
        """What decides at every tick how much is compared."""
        return self.governed.controller

    @property
    def replan_wanted(self) -> bool:
        """Whether the plan has been found stale and a new one is wanted."""
        return self._governed is not None and self._governed.controller.replan_wanted

    @property
    def counters(self) -> Counters:
        """What was done so far."""
        counts, join = self._counts, self._governed
        compared, matches, _, late, ignored, resets, possible = (
            (0,) * 7 if join is None else join.total.tolist()
        )
        return Counters(
            offered=counts.tuples + (join.offered if join else 0),
            dropped=counts.dropped,
            compared=compared + counts.granted,
            possible=possible + counts.possible,
            matches=matches,
            rejected=counts.unreadable + (join.rejected if join else 0),
            late=late,
            ignored=ignored,
            clock_resets=resets,
            unknown_types=counts.unknown_types + (join.unknown_types if join else 0),
            unknown_streams=counts.unknown_streams,
            busy_s=join.busy_s if join else 0.0,
            stale=join is not None and join.controller.stale,
        )

    def measures(self) -> Measures:
        """Return the share of comparisons with each basic window that is left out."""
        volumes = self._plan.volumes.sum(axis=1)
        there = volumes > 0
        taken = (self._plan.volumes * self._plan.at(self.load).take).sum(axis=1)
        streams = self._plan.layout.streams
        names = [f"{streams[i]} {j}" for i, j in np.argwhere(there)]
        drops = {"drop_ratio": 1.0 - taken[there] / volumes[there]}
        return Measures("window", names, volumes[there], drops)

    def probe(self, rows: int) -> dict[str, Any]:
        """Return made-up tuples of both streams, of all types and sizes in turn."""
        layout, number = self._plan.layout, np.arange(rows)
        size = number % (len(layout.items) + 1)
        columns: dict[str, Any] = {name: np.ones(rows) for name in layout.weights}
        columns |= {name: np.where(size > k, k, -1) for k, name in enumerate(layout.items)}
        if layout.text:
            columns |= {name: np.where(columns[name] < 0, "", "item") for name in layout.items}
        if layout.type:
            columns[layout.type] = np.array(layout.types)[number // 2 % len(layout.types)]
        columns[layout.stream] = np.array(layout.streams)[number % 2]
        columns[layout.time] = self._plan.windows.origin_s + number / 8.0
        return {name: columns[name] for name in self._schema.columns}

    def set_load(self, load: float) -> None:
        """Follow a new load; windows, credits and counters continue."""
        self._load = check_between(
            "load", load, 0.0, 1.0, remedy="pass a fraction, not a percentage"
        )
        self._grants.follow(self._load)
        if self._governed is not None:
            self._governed.set_load(self.setting)

    def adopt(self, old: Shedder) -> None:
        """Go on where the shedder of an older plan stops.

        Credits go on by class if the windows are the same, and so do the windows of ``push`` if the
        condition and the classes are the same too; counters always do.
        """
        self._counts = old._counts
        self._grants.adopt(old._grants)
        if old._governed is not None:
            self.governed.adopt(old._governed, self.setting)

    def push(self, stream: int, batch: Tuples) -> Matches:
        """Join a batch of one stream, in its order; return the matches it completes."""
        return self.governed.push(stream, batch)

    def push_pair(self, left: Tuples, right: Tuples) -> Matches:
        """Join a stretch of both streams in order of time, deciding anew at every tick."""
        return self.governed.push_pair(left, right)

    def units(self, batch: Batch) -> int:
        """Return how many basic windows a batch would be compared with if nothing were shed."""
        return self._possible(self._plan.layout.streams_in(batch.columns))

    def _possible(self, stream: IntArray) -> int:
        present = self._present.sum(axis=1)
        return int((stream == 0).sum() * present[1] + (stream == 1).sum() * present[0])

    def decide(
        self, batch: Batch, *, draws: Draws = None, most: int = UNLIMITED, weighted: bool = False
    ) -> Decision:
        """Decide which basic windows each tuple is to be compared with.

        What a limit cuts are the basic windows of least value per comparison, evenly over the
        tuples or by their draws. Tuples of neither stream are compared with nothing.
        """
        stream, row = self._rows_of(batch)
        if draws is None:
            keep = self._grants.paced(self._times(batch), stream, row)
        else:
            keep = self._grants.keyed(row, draws)
        wanted = int(np.count_nonzero(keep))
        units = min(wanted, max(most, 0))
        if units < wanted:
            keep = self._within(units, keep, row, draws)
        counts = self._counts
        counts.tuples += batch.rows
        counts.granted += units
        counts.possible += self._possible(stream)
        counts.dropped += batch.rows - int(np.count_nonzero(keep.any(axis=1)))
        return Decision(keep, units, wanted - units)

    def _rows_of(self, batch: Batch) -> tuple[IntArray, IntArray]:
        """Return every tuple's stream, and its row in the tables of windows and classes."""
        layout = self._plan.layout
        stream, kind = layout.streams_in(batch.columns), layout.types_in(batch.columns)
        part = layout.size_classes(batch)
        self._counts.unknown_streams += int((stream < 0).sum())
        self._counts.unknown_types += int((kind < 0).sum())
        kind = np.where(kind < 0, self._cheapest, kind) * (len(layout.sizes) + 1) + part
        return stream, np.where(stream < 0, -1, (1 - stream) * len(self._plan.types) + kind)

    def _times(self, batch: Batch) -> FloatArray:
        """Return the times; a batch whose times cannot be read has none."""
        with suppress(Refusal):
            return batch.numbers(self._plan.layout.time)
        return np.full(batch.rows, np.nan)

    def _within(
        self, most: int, keep: BoolArray, row: IntArray, draws: NDArray[np.uint32] | None
    ) -> BoolArray:
        """Return the mask with the ``most`` basic windows that come first in the plan's order."""
        granted = np.zeros(self._grants.credit.shape, dtype=np.int64)
        for which in np.unique(row).tolist():
            granted[which] = np.count_nonzero(keep[row == which], axis=0)
        ends = np.cumsum(granted[:-1].ravel()[self._plan.turns])
        last = int(np.searchsorted(ends, most, side="right"))  # the item that is cut in part
        open_items = np.zeros(granted.shape, dtype=np.bool_)
        open_items.ravel()[self._plan.turns[:last]] = True
        which, j = divmod(int(self._plan.turns[last]), keep.shape[1])
        tuples = np.flatnonzero((row == which) & keep[:, j])
        room = most - int(ends[last] - tuples.size)
        if draws is None:
            share = np.arange(tuples.size + 1) * room // tuples.size
            chosen = tuples[np.diff(share) > 0]
        else:
            chosen = tuples[np.argsort(draws[tuples], kind="stable")[tuples.size - room :]]
        keep = keep & open_items[row]
        keep[chosen, j] = True
        return keep

    def _refused(self, rows: int) -> BoolArray:
        self._counts.tuples += rows
        self._counts.dropped += rows
        self._counts.unreadable += rows
        return self.nothing(rows)
