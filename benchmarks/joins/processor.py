"""Output under a share of the processor: the plan on the real engine beside random dropping.

Both run the same engine. Random dropping takes its best form: tuples are dropped before they are
inserted, at no cost. Its output per second is that of two runs, one a little shorter and one a
little longer than the plan's. The runs take turns, and ratios are medians over repeats.

The bound follows from the cost model T = a · tuples + c · comparisons + e · matches, fitted to the
same runs: the linear program knows the streams and spends what tuples leave over on the best
comparisons, and random dropping keeps the share s of the tuples with a · s + (c + e) · s² = T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy.optimize import bisect, nnls

from benchmarks.joins.scene import Scene, best_value
from benchmarks.joins.workload import Workload
from benchmarks.rows import Row, row
from planning import sampling
from planning.joins.model import Tuples, types_in_range
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


class Run(NamedTuple):
    """What a run took and found, after the windows were full."""

    seconds: float
    matches: int
    compared: int
    tuples: int


@dataclass(frozen=True)
class Gain:
    """Output over that of random dropping in the same time: measured, and bounds on it."""

    share: float  # of the processor time, as taken
    kept: float  # share of the complete output
    dropped: float  # the same of random dropping
    bound: float  # by the cost model
    free: float  # if only comparisons cost anything
    costs: tuple[float, ...]  # of tuples, comparisons and matches, shares of the complete join's

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

    def run(self, streams: Streams, load: float = 1.0) -> Run:
        """Join at a fixed load."""
        return _joined(Shedder(self.plan, load, adapt=False), streams)

    def planned(self, seconds: float) -> Run:
        """Join within a budget of processor time."""
        share = min(seconds / self.scene.seconds, 1.0)
        return _joined(Shedder(self.plan, cpu_share=share), self.streams)

    def random(self, kept: float) -> Run:
        """Join what random dropping leaves: this share of each stream."""
        left, right = (thinned(part, kept**2) for part in self.streams)
        return self.run((left, right))

    @cached_property
    def possible(self) -> float:
        """Comparisons of the complete join."""
        return float(self.scene.full[1].sum())

    def best(self, comparisons: float) -> float:
        """Return the linear program's share of the complete output within so many comparisons."""
        hits, made = self.scene.full
        return best_value(hits, made, self.scene.values, comparisons) / float(hits.sum())

    def best_within(self, time: float, comparison: float, match: float) -> float:
        """Return the same within a time, at costs of all comparisons and of all matches."""

        def missing(share: float) -> float:
            return comparison * share + match * self.best(share * self.possible) - time

        if missing(1.0) <= 0.0:
            return 1.0
        return 0.0 if time <= 0.0 else self.best(float(bisect(missing, 0.0, 1.0)) * self.possible)


def _joined(shedder: Shedder, streams: Streams) -> Run:
    """Fill the windows, then measure."""
    cuts = [int(np.searchsorted(part.time, WARM_UP_S)) for part in streams]
    shedder.push_pair(*(part.slice(0, cut) for part, cut in zip(streams, cuts, strict=True)))
    before = shedder.counters
    rest = [part.slice(cut, len(part)) for part, cut in zip(streams, cuts, strict=True)]
    matches = len(shedder.push_pair(*rest))
    after = shedder.counters
    return Run(
        after.busy_s - before.busy_s, matches, after.compared - before.compared,
        after.offered - before.offered,
    )  # fmt: skip


def kept_for(time: float, per_tuple: float) -> float:
    """Share s of tuples that random dropping can keep: a · s + (1 − a) · s² = time.

    Times are shares of the complete join's.

    >>> round(kept_for(0.36, 0.0), 6), kept_for(1.0, 0.3), round(kept_for(0.3, 0.5), 6)
    (0.6, 1.0, 0.421954)
    """
    root = float(np.sqrt(per_tuple**2 + 4.0 * (1.0 - per_tuple) * time))
    return 2.0 * time / (per_tuple + root)


def costs_of(runs: list[Run], full: Run) -> tuple[float, ...]:
    """Costs of tuples, comparisons and matches by non-negative least squares, in shares."""
    table = np.array(
        [
            [one.tuples / full.tuples, one.compared / full.compared, one.matches / full.matches]
            for one in runs
        ]
    )
    found, _ = nnls(table, np.array([one.seconds / full.seconds for one in runs]))
    return tuple(found.tolist())


def gain(trial: Trial, share: float, full: Run, idle: Run) -> Gain:
    """Give the plan and random dropping the same processor time."""
    ours = trial.planned(share * full.seconds)
    time = ours.seconds / full.seconds
    start = kept_for(time, min(idle.seconds / full.seconds, 1.0))
    below, above = (trial.random(min(1.0, start * factor)) for factor in (0.94, 1.06))
    per_second = (below.matches + above.matches) / (below.seconds + above.seconds)
    dropped = per_second * ours.seconds
    a, c, e = costs_of([full, idle, ours, below, above], full)
    best = trial.best_within(time - a, c, e)
    kept = kept_for(time / (a + c + e), a / (a + c + e))
    free = trial.best(time * trial.possible) / time
    matched = ours.matches / full.matches
    return Gain(time, matched, dropped / full.matches, best / kept**2, free, (a, c, e))


def gains(setting: Setting, quick: bool) -> list[list[Gain]]:
    """Measure every share in turn, several times over; one list per share."""
    trial = Trial(setting, setting.seconds / 4 if quick else setting.seconds)
    rounds = []
    for _ in range(1 if quick else 3):
        full = trial.run(trial.streams)
        idle = trial.run(trial.streams, 0.0)
        rounds.append([gain(trial, share, full, idle) for share in SHARES])
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
    a, c, e = (middle(lambda one, k=k: one.costs[k]) for k in range(3))  # type: ignore[misc]
    text = (
        f"{ratio:.2f} × ({min(one.ratio for one in measured):.2f} to "
        f"{max(one.ratio for one in measured):.2f}): {middle(lambda one: one.kept):.2f} of the "
        f"output in {middle(lambda one: one.share):.2f} of the time, random dropping "
        f"{middle(lambda one: one.dropped):.2f}; the measured cost model allows "
        f"{middle(lambda one: one.bound):.2f} × (tuples {a:.2f}, comparisons {c:.2f}, matches "
        f"{e:.2f} of the time), and {middle(lambda one: one.free):.2f} × if only comparisons cost"
    )
    bar = f"output over random dropping's at {share:g} of the processor time: {setting.name}"
    return row(bar, f"≥ {AIM}", text, ratio >= AIM)


def thinned(part: Tuples, load: float) -> Tuples:
    """Keep each tuple with probability sqrt(load), by a hash of its row."""
    kind = types_in_range(part.kind, 1 << 30, 0)
    keys = sampling.stable_keys([part.time, kind, np.arange(len(part))])
    return part.take(sampling.in_holdout(keys, float(np.sqrt(load))))
