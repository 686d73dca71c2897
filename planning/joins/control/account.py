"""When to decide anew, and how much is left: what ``push`` and ``offer`` have in common."""

from __future__ import annotations

from collections import deque

import numpy as np

from planning.arrays import FloatArray
from planning.joins.model import Windows

SMOOTHING = 0.2  # weight of the newest tick in running means
CORRECTION = 0.2  # share of the debt of comparisons that is worked off per tick
CUSHION = 2.0  # ticks' worth of comparisons kept unspent, so that the hard limit seldom bites
CARRIED = 8.0  # ticks' worth of comparisons that are made up for, at most
LEAST = 16  # tuples between two decisions, so that a slow stream costs no more per tuple
LATE_RUN = 100  # tuples in a row behind the windows: the clock has been set back
FARTHEST = 2.0**52  # basic windows from the origin; beyond it there is no time


class Account:
    """Comparisons owed, so that a share of them holds over time.

    >>> account = Account()
    >>> [round(account.share(0.5, made, 1000.0), 3) for made in (800.0, 700.0, 500.0)]
    [0.0, 0.022, 0.095]
    """

    def __init__(self) -> None:
        self.owed = self.pace = 0.0

    def share(self, load: float, made: float, possible: float) -> float:
        """Return the share to make next, given what was made of what was possible."""
        self.pace += SMOOTHING * (possible - self.pace)
        if load in (0.0, 1.0) or self.pace <= 0.0:
            return load
        most = CARRIED * self.pace
        self.owed = min(max(self.owed + load * possible - made, -most), most)
        ahead = self.owed - CUSHION * load * self.pace
        return min(max(load + CORRECTION * ahead / self.pace, 0.0), 1.0)


class PerSecond:
    """What is left of a budget in any second of stream time."""

    SLOT_S = 1.0 / 32
    SLOTS = 33  # that a second may touch

    def __init__(self) -> None:
        self._spent: deque[tuple[int, int]] = deque()
        self._slot, self._saved = -(2**62), np.inf

    def left(self, now: float, budget: float, most: float) -> int:
        """Return how many comparisons may be made before the next tuple must wait; -1: it must.

        ``most`` is what one tuple may make: it must fit in, unless nothing else was spent.
        """
        slot = int(np.floor(now / self.SLOT_S)) if np.isfinite(now) else self._slot
        if slot < self._slot - self.SLOTS:  # the clock has been set back
            self._spent.clear()
        self._saved = min(self._saved + budget * max(slot - self._slot, 0) * self.SLOT_S, budget)
        self._slot = slot
        while self._spent and self._spent[0][0] <= slot - self.SLOTS:
            self._spent.popleft()
        spent = sum(compared for _, compared in self._spent)
        left = min(budget - spent, self._saved)
        if left >= most:
            return int(left - most)
        return 0 if budget > 0 and not spent and self._saved >= budget else -1

    def spend(self, compared: int) -> None:
        """Note what was made since."""
        if compared:
            self._spent.append((self._slot, compared))
            self._saved -= compared


class Ticks:
    """Cuts tuples into runs at the ticks of stream time, whatever batches they come in."""

    def __init__(self, tick_s: float, windows: Windows) -> None:
        self._tick_s, self._windows = tick_s, windows
        self._now, self._tick, self._since, self._behind = -np.inf, -np.inf, 0, 0

    def cut(
        self, time: FloatArray, slot_s: float | None = None
    ) -> tuple[FloatArray, list[tuple[int, bool]]]:
        """Return the clock at every tuple, and the ends of the runs: is there a tick after it?

        >>> ticks = Ticks(1.0, Windows((20, 20), 4))
        >>> ticks.cut(np.arange(40) / 16)[1], ticks.cut(np.arange(40, 50) / 16)[1]
        ([(16, True), (32, True), (40, False)], [(8, True), (10, False)])
        """
        distance = (time - self._windows.origin_s) / self._windows.basic_window_s
        usable = np.abs(distance) < FARTHEST  # False for NaN
        self._set_back(time[usable])
        clock = np.maximum.accumulate(np.where(usable, time, -np.inf), initial=self._now)[1:]
        ends: list[tuple[int, bool]] = []
        with np.errstate(invalid="ignore"):
            ticks = np.floor((clock - self._windows.origin_s) / self._tick_s)
            slots = ticks if slot_s is None else np.floor(clock / slot_s)
            edges = np.flatnonzero((np.diff(ticks, prepend=self._tick) > 0)
                                   | (np.diff(slots, prepend=slots[:1]) > 0))
        begin = 0
        for edge in edges.tolist():
            new = ticks[edge] > self._tick and self._since + edge - begin >= LEAST
            if edge > begin and (new or slot_s is not None):
                ends.append((edge, bool(new)))
                self._since, begin = self._since + edge - begin, edge
            if new:
                self._tick, self._since = float(ticks[edge]), 0
        return clock, ends
