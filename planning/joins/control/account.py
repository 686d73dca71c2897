"""When to decide anew, and how much is left: what ``push`` and ``offer`` have in common."""

from __future__ import annotations

from collections import deque

import numpy as np

from planning.arrays import BoolArray, FloatArray
from planning.joins.model import Windows

SMOOTHING = 0.2  # weight of the newest tick in running means
CORRECTION = 0.2  # share of the debt of comparisons that is worked off per tick
CUSHION = 2.0  # ticks' worth of comparisons kept unspent, so that the hard limit seldom bites
CARRIED = 4.0  # ticks' worth of comparisons that are caught up on, at most; twice for excess
LEAST = 16  # tuples between two decisions, so that a slow stream costs no more per tuple
LATE_RUN = 100  # tuples in a row behind the windows: the clock has been set back
FARTHEST = 2.0**52  # basic windows from the origin; beyond it there is no time


class Account:
    """Comparisons owed, so that a share of them holds over time.

    >>> account = Account()
    >>> [round(account.share(0.5, 500.0, made, 1000.0), 3) for made in (800.0, 700.0, 500.0)]
    [0.0, 0.022, 0.095]
    """

    def __init__(self, cushion: float = CUSHION) -> None:
        self.owed = self.pace = 0.0
        self._cushion = cushion

    def share(self, load: float, allowed: float, made: float, possible: float) -> float:
        """Return the share to make next, given what was made, and what might have been."""
        self.pace += SMOOTHING * (possible - self.pace)
        most, least = CARRIED * min(self.pace, possible), -2.0 * CARRIED * self.pace
        self.owed = max(min(self.owed + allowed - made, most), least)
        return self.corrected(load)

    def corrected(self, load: float) -> float:
        """Return a load, moved so that an excess or shortfall of comparisons evens out."""
        if load in (0.0, 1.0) or self.pace <= 0.0:
            return load
        ahead = self.owed - self._cushion * load * self.pace
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
        """Return the clock at every tuple, and the ends of runs, each with whether a tick follows.

        With ``slot_s`` a run also ends with its slot of time.

        >>> ticks = Ticks(1.0, Windows((20, 20), 4))
        >>> ticks.cut(np.arange(40) / 16)[1], ticks.cut(np.arange(40, 50) / 16)[1]
        ([(16, True), (32, True), (40, False)], [(8, True), (10, False)])
        """
        origin, basic = self._windows.origin_s, self._windows.basic_window_s
        usable = np.abs((time - origin) / basic) < FARTHEST  # False for NaN
        known = np.where(usable, time, -np.inf)
        clock = np.maximum(np.maximum.accumulate(known), self._now)
        back = self._set_back(usable, known < clock - max(self._windows.window_s))
        if back is not None:
            before, ends = self.cut(time[:back], slot_s)
            self._now, self._tick, self._behind = -np.inf, -np.inf, 0
            after, more = self.cut(time[back:], slot_s)
            return np.concatenate((before, after)), ends + [(back + k, tick) for k, tick in more]
        ticks, ends, first = np.floor((clock - origin) / self._tick_s), [], 0
        while True:
            later = int(np.searchsorted(ticks, self._tick, side="right"))
            end = max(later, first + LEAST - self._since)
            if end >= len(time):
                break
            ends.append((end, True))
            self._tick, self._since, first = float(ticks[end]), 0, end
        self._since += len(time) - first
        if slot_s is not None:
            decided = {end for end, _ in ends}
            edges = (np.flatnonzero(np.diff(np.floor(clock / slot_s))) + 1).tolist()
            ends += [(end, False) for end in edges if end not in decided]
        if len(time):
            self._now = float(clock[-1])
            ends.append((len(time), False))
        return clock, sorted(ends)

    def _set_back(self, usable: BoolArray, behind: BoolArray) -> int | None:
        """Return the tuple at which the clock starts over: the last of many behind the windows."""
        late = behind[usable]
        if not late.any():
            self._behind = 0
            return None
        place = np.arange(late.size)
        in_time = np.maximum.accumulate(np.where(late, -1, place))
        run = place - in_time + np.where(in_time < 0, self._behind, 0)
        if (run >= LATE_RUN).any():
            return int(np.flatnonzero(usable)[np.argmax(run >= LATE_RUN)])
        self._behind = int(run[-1])
        return None
