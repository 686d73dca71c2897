"""Which basic windows a tuple is granted, for a join elsewhere: as the operator would compare.

The operator's controller cuts the plan's order at the same ticks, by the same populations of basic
windows, which are counted here from the tuples that pass by. So what another join makes of the
masks is the same share of all comparisons, spent on the same basic windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.joins.control.account import Account, Ticks
from planning.joins.control.controller import Controller, View
from planning.joins.plan import Plan
from planning.pacing import ONE, ONE_BITS

NOTHING = np.zeros(0, dtype=np.int64)
CUSHION = 1.0  # ticks' worth of comparisons: there is no hard limit that could bite
RUNNING = (
    "_held", "_epoch", "_now", "_ticks", "_account", "_granted", "_allowed", "_stored",
    "_tick_at",
)  # fmt: skip


class Table(NamedTuple):
    """What tuples are granted, one row per window and class; those of neither stream: the last."""

    whole: BoolArray  # [2 Z + 1, n]
    partial: list[tuple[int, int, float]]  # row, basic window, share of the tuples


class Grants:
    """Grants basic windows to tuples within a load."""

    def __init__(self, plan: Plan, load: float) -> None:
        windows = plan.windows
        self.plan = plan
        self.controller = Controller.of(
            plan, tick_s=windows.basic_window_s / 4, standing_s=0.0, watch=False
        )
        self._present = np.broadcast_to((windows.extents_s > 0)[:, None, :], plan.density.shape)
        self.credit = np.zeros((2 * len(plan.types) + 1, windows.most), dtype=np.int64)
        self._held = np.zeros((2, windows.most))  # tuples of every epoch, newest first
        self._arrived = np.zeros((2, len(plan.types)))
        self._epoch, self._now = 0, -np.inf
        self._granted = np.zeros((2, windows.most), dtype=np.int64)
        self._allowed = np.zeros(2)  # tuples times loads, by the window that they probe
        self._stored = np.zeros((2, windows.most))  # populations at the last tick
        self._tick_at: float | None = None
        self._ticks, self._account = Ticks(self.controller.tick_s, windows), Account(CUSHION)
        self._volumes: FloatArray = plan.volumes
        self.follow(load)

    def follow(self, load: float) -> None:
        """Follow another load; credits and the account of comparisons go on."""
        self.load = load
        self._pure: Table | None = None
        self._table = self._cut(self._account.corrected(load))

    def adopt(self, old: Grants) -> None:
        """Go on where the grants of an older plan stop, if the windows are the same."""
        types, before = self.plan.types, old.plan.types
        if old.plan.windows != self.plan.windows:
            return
        for name in RUNNING:
            setattr(self, name, getattr(old, name))
        for z, name in enumerate(types):
            if name in before:
                rows, source = [z, len(types) + z], before.index(name)
                self.credit[rows] = old.credit[[source, len(before) + source]]
        if types == before:
            self._arrived, self._volumes = old._arrived, old._volumes
            self.controller.adopt(old.controller)
            self.follow(self.load)

    def keyed(self, row: IntArray, draws: NDArray[np.uint32]) -> BoolArray:
        """Grant by draws and the plan's own volumes alone: a pure function of tuple and load."""
        if self._pure is None:
            self._pure = self._tabled(self.plan.at(self.load).take)
        keep = self._pure.whole[row]
        for which, j, take in self._pure.partial:
            tuples = np.flatnonzero(row == which)
            keep[tuples, j] = draws[tuples] >= np.ceil((1.0 - take) * ONE)
        return keep

    def paced(self, time: FloatArray, stream: IntArray, row: IntArray) -> BoolArray:
        """Grant by credits: of a share of a basic window, every so many tuples get it."""
        keep = np.empty((row.size, self.credit.shape[1]), dtype=np.bool_)
        clock, ends = self._ticks.cut(time)
        begin = 0
        for end, tick in ends:
            if end > begin:
                keep[begin:end] = self._grant(row[begin:end])
                self._count(clock[begin:end], stream[begin:end], row[begin:end], keep[begin:end])
                begin = end
            if tick:
                self._decide()
        return keep

    def _grant(self, row: IntArray) -> BoolArray:
        keep = self._table.whole[row]
        for which, j, take in self._table.partial:
            tuples = np.flatnonzero(row == which)
            if tuples.size:
                step = int(take * ONE)
                credits = self.credit[which, j] + step * np.arange(1, tuples.size + 1)
                self.credit[which, j] = credits[-1] % ONE
                keep[tuples, j] = (credits >> ONE_BITS) > ((credits - step) >> ONE_BITS)
        return keep

    def _count(self, clock: FloatArray, stream: IntArray, row: IntArray, keep: BoolArray) -> None:
        """Count a run of tuples: what it was granted, and where it is stored."""
        windows, now = self.plan.windows, float(clock[-1])
        if not np.isfinite(now):
            return
        if now < self._now - max(windows.window_s):  # the clock has been set back
            self._held[:], self._tick_at = 0.0, None
        known = (stream >= 0) & np.isfinite(clock)
        stream, row, keep, clock = stream[known], row[known], keep[known], clock[known]
        epochs = np.floor((clock - windows.origin_s) / windows.basic_window_s).astype(np.int64)
        epoch = int(np.floor((now - windows.origin_s) / windows.basic_window_s))
        if epoch > self._epoch:
            kept = max(windows.most - (epoch - self._epoch), 0)
            self._held[:, windows.most - kept :] = self._held[:, :kept].copy()
            self._held[:, : windows.most - kept] = 0.0
        self._epoch, self._now = epoch, now
        recent = epoch - epochs < windows.most
        np.add.at(self._held, (stream[recent], epoch - epochs[recent]), 1.0)
        np.add.at(self._arrived, (stream, row % len(self.plan.types)), 1.0)
        first = stream == 0
        ones = int(np.count_nonzero(first))
        self._allowed += int(self.load * ONE) * np.array([len(first) - ones, ones])
        self._granted[1] += keep[first].sum(axis=0)
        self._granted[0] += keep[~first].sum(axis=0)

    def _populations(self) -> FloatArray:
        """Return how many tuples every basic window holds; the last one is expiring."""
        windows, table = self.plan.windows, self._held.copy()
        if np.isfinite(self._now):
            filled = (self._now - windows.origin_s) / windows.basic_window_s - self._epoch
            for i, n in enumerate(windows.counts):
                left = windows.window_s[i] / windows.basic_window_s - (filled + n - 2)
                table[i, n - 1 :] = 0.0
                table[i, n - 1] = self._held[i, n - 1] * min(max(left, 0.0), 1.0)
        return table

    def _decide(self) -> None:
        """Cut the plan's order by what the windows hold now, and by what was made so far."""
        if not np.isfinite(self._now):
            return
        stored = self._populations()
        if self._tick_at is not None and self._now > self._tick_at:
            seen, probing = 0.5 * (self._stored + stored), self._arrived.sum(axis=1)[::-1]
            held, made = seen.sum(axis=1), float((self._granted * seen).sum())
            allowed, possible = float(self._allowed @ held) / ONE, float(probing @ held)
            view = View(
                self._now, self._now - self._tick_at, self._arrived, self._arrived, stored, NOTHING,
                NOTHING, np.inf,
            )  # fmt: skip
            self._volumes = self.controller.mixture(view)
            self._table = self._cut(self._account.share(self.load, allowed, made, possible))
        self._stored, self._tick_at = stored, self._now
        self._granted[:], self._allowed[:] = 0, 0.0
        self._arrived = np.zeros_like(self._arrived)

    def _cut(self, share: float) -> Table:
        if self._volumes is self.plan.volumes or share == 1.0:
            return self._tabled(self.plan.at(share).take)
        total = float(self._volumes.sum())
        return self._tabled(self.plan.fill(self._volumes, share * total))

    def _tabled(self, take: FloatArray) -> Table:
        shares = (take * self._present).reshape(-1, self.credit.shape[1])
        whole = np.zeros(self.credit.shape, dtype=np.bool_)
        whole[:-1] = shares >= 1.0
        partly = np.nonzero((shares > 0.0) & (shares < 1.0))
        return Table(
            whole, list(zip(*(p.tolist() for p in partly), shares[partly].tolist(), strict=True))
        )
