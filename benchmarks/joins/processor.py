"""Output under a share of the processor: the plan on the real engine beside random dropping.

Both run the same engine. Random dropping takes its best form: tuples are dropped before they are
inserted, at no cost. Its output at exactly the time that the plan took is read off two runs, one a
little shorter and one a little longer. The runs take turns, and ratios are medians over repeats.

The bound follows from the cost model T = a · tuples + c · comparisons, measured in the same run:
the linear program knows the streams and spends what tuples leave over on the best comparisons, and
random dropping keeps the share s of the tuples with a · s + c · s² = T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

import numpy as np

from benchmarks.joins.scene import Scene, best_value
from benchmarks.joins.workload import Workload
from benchmarks.rows import Row, row
from planning.joins import simulate
from planning.joins.model import Tuples
from planning.joins.plan import Plan
from planning.joins.shedder import Shedder

AIM = 1.8
SHARES = (0.2, 0.4)  # of the processor time of the complete join
WARM_UP_S = 21.0  # until the windows are full
Streams = tuple[Tuples, Tuples]


@dataclass(frozen=True)
class Setting:
    """One kind of engine at one rate."""

    name: str
    rate: float  # tuples per second and stream
    items: int
    known: bool  # the plan knows the vocabulary: bitmaps instead of an index
    seconds: float  # measured, once the windows are full


SETTINGS = (
    Setting("bitmaps, 1,000/s", 1000.0, 100, True, 40.0),
    Setting("bitmaps, 8,000/s", 8000.0, 100, True, 20.0),
    Setting("inverted index, 1,000/s", 1000.0, 100, False, 10.0),
    Setting("inverted index, 8,000/s", 8000.0, 2000, False, 3.0),
)


@dataclass(frozen=True)
class Gain:
    """Output over that of random dropping in the same time: measured, and bounds on it."""

    share: float  # of the processor time, as taken
    kept: float  # share of the complete output
    dropped: float  # the same of random dropping
    bound: float  # by the cost model
    free: float  # if tuples cost nothing by themselves

    @property
    def ratio(self) -> float:
        """Output over random dropping's."""
        return self.kept / self.dropped


class Trial:
    """One setting: its streams and plan, and runs of the engine over them."""

    def __init__(self, setting: Setting, seconds: float) -> None:
        self.scene = Scene(
            Workload(skew=0.8, vocabulary=setting.items),
            rates=setting.rate,
            warm_up_s=WARM_UP_S,
            seconds=seconds,
        )
        self.streams: Streams = self.scene.streams
        plan = self.scene.plan()
        self.plan: Plan = plan if setting.known else replace(plan, vocabulary=None)
        Shedder(self.plan).push_pair(*(part.slice(0, 10) for part in self.streams))  # compile

    def run(self, streams: Streams, load: float = 1.0) -> tuple[float, int]:
        """Join at a fixed load; return processor seconds and matches."""
        return _joined(Shedder(self.plan, load, adapt=False), streams)

    def planned(self, seconds: float) -> tuple[float, int]:
        """Join within a budget of processor time."""
        share = min(seconds / self.scene.seconds, 1.0)
        return _joined(Shedder(self.plan, cpu_share=share), self.streams)

    def random(self, kept: float) -> tuple[float, int]:
        """Join what random dropping leaves: this share of each stream."""
        left, right = (simulate.thinned(part, kept**2) for part in self.streams)
        return self.run((left, right))

    @cached_property
    def possible(self) -> float:
        """Comparisons of the complete join."""
        return float(self.scene.full[1].sum())

    def best(self, comparisons: float) -> float:
        """Return the linear program's share of the complete output within so many comparisons."""
        hits, made = self.scene.full
        return best_value(hits, made, self.scene.values, comparisons) / float(hits.sum())


def _joined(shedder: Shedder, streams: Streams) -> tuple[float, int]:
    """Fill the windows, then measure."""
    cuts = [int(np.searchsorted(part.time, WARM_UP_S)) for part in streams]
    shedder.push_pair(*(part.slice(0, cut) for part, cut in zip(streams, cuts, strict=True)))
    before = shedder.counters.busy_s
    rest = (part.slice(cut, len(part)) for part, cut in zip(streams, cuts, strict=True))
    matches = len(shedder.push_pair(*rest))
    return shedder.counters.busy_s - before, matches


def kept_for(time: float, per_tuple: float) -> float:
    """Share s of tuples that random dropping can keep: a · s + (1 − a) · s² = time.

    Times are shares of the complete join's.

    >>> round(kept_for(0.36, 0.0), 6), kept_for(1.0, 0.3), round(kept_for(0.3, 0.5), 6)
    (0.6, 1.0, 0.421954)
    """
    rest = 1.0 - per_tuple
    if rest <= 0.0:
        return time
    return (float(np.sqrt(per_tuple**2 + 4.0 * rest * time)) - per_tuple) / (2.0 * rest)


def gain(trial: Trial, share: float, full: tuple[float, int], idle_s: float) -> Gain:
    """Give the plan and random dropping the same processor time."""
    full_s, matches = full
    ours_s, ours = trial.planned(share * full_s)
    time, per_tuple = ours_s / full_s, min(idle_s / full_s, 1.0)
    start = kept_for(time, per_tuple)
    runs = [trial.random(min(1.0, start * factor)) for factor in (0.94, 1.06)]
    (below_s, below), (above_s, above) = runs
    slope = (above - below) / (above_s - below_s) if above_s > below_s else 0.0
    dropped = below + slope * (ours_s - below_s)
    left = max(time - per_tuple, 0.0) / max(1.0 - per_tuple, 1e-9)
    bound = trial.best(left * trial.possible) / start**2
    free = trial.best(time * trial.possible) / time
    return Gain(time, ours / matches, dropped / matches, bound, free)


def gains(setting: Setting, quick: bool) -> list[list[Gain]]:
    """Measure every share in turn, several times over; one list per share."""
    trial = Trial(setting, setting.seconds / 4 if quick else setting.seconds)
    rounds = []
    for _ in range(1 if quick else 3):
        full = trial.run(trial.streams)
        idle_s, _ = trial.run(trial.streams, 0.0)
        rounds.append([gain(trial, share, full, idle_s) for share in SHARES])
    return [list(of_share) for of_share in zip(*rounds, strict=True)]


def shares(quick: bool) -> list[Row]:
    """Measure every setting at every share of the processor."""
    return [
        _row(setting, share, measured)
        for setting in SETTINGS
        for share, measured in zip(SHARES, gains(setting, quick), strict=True)
    ]


def _row(setting: Setting, share: float, measured: list[Gain]) -> Row:
    def middle(what: Callable[[Gain], float]) -> float:
        return median(what(one) for one in measured)

    ratio = middle(lambda one: one.ratio)
    text = (
        f"{ratio:.2f} × ({min(one.ratio for one in measured):.2f} to "
        f"{max(one.ratio for one in measured):.2f}): {middle(lambda one: one.kept):.2f} of the "
        f"output in {middle(lambda one: one.share):.2f} of the time, random dropping "
        f"{middle(lambda one: one.dropped):.2f}; the measured cost model allows "
        f"{middle(lambda one: one.bound):.2f} ×, and {middle(lambda one: one.free):.2f} × if "
        "tuples cost nothing by themselves"
    )
    bar = f"output over random dropping's at {share:g} of the processor time: {setting.name}"
    return row(bar, f"≥ {AIM}", text, ratio >= AIM)
