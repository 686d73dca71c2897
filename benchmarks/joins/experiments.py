"""The experiments behind the bars and the paper's figures, in the deterministic cost model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.joins import algorithms
from benchmarks.joins.costmodel import Strategy, Trace, run
from benchmarks.joins.ordered import Ordered
from benchmarks.joins.scene import Scene, best_value
from benchmarks.joins.strategies import Fixed, PlannedRate, Untyped
from benchmarks.joins.workload import BURST, FREQUENCIES, Workload
from planning.arrays import FloatArray
from planning.joins import planner
from planning.joins.control import Controller
from planning.joins.engine import Selection
from planning.joins.model import Condition, Windows, concatenate
from planning.joins.statistics import Statistics, assemble, histogram

UNLIMITED = 1e15  # comparisons per second
SKEWS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
TWO_WINDOWS = Windows((20.0, 20.0), 1.0)
ONE_WINDOW = Windows((20.0, 1e-3), 1.0)  # Section 6.3: a window on one of the streams


@dataclass(frozen=True, slots=True)
class Burst:
    """Matches in the three phases of Figure 8's rates: 500, then 300 per second, and overall."""

    name: str
    burst: float
    elevated: float
    overall: float
    trace: Trace


def burst_scene(
    skew: float = 0.6,
    shift_s: float = 25.0,
    seed: int = 5,
    windows: Windows = TWO_WINDOWS,
) -> Scene:
    """Return the setting of Figures 8 to 12: rates 100, 500, 300, 100 per second."""
    workload = Workload(skew=skew, shift_s=shift_s)
    return Scene(workload, windows, rates=BURST, warm_up_s=0.0, seconds=130.0, seed=seed)


def burst_bound(scene: Scene, begin: int = 60, end: int = 75) -> float:
    """Return the linear program's optimum of every second of the burst, in hindsight, summed."""
    left, right = scene.streams
    types = scene.class_utilities.size
    total = 0.0
    for second in range(begin, end):
        hits, made = histogram(
            left, right, scene.windows, scene.condition, types,
            count_from=float(second), count_to=float(second + 1),
        )  # fmt: skip
        total += best_value(hits, made, scene.values, scene.budget)
    return total


def burst_outputs(scene: Scene) -> list[Burst]:
    """Run every method of controlling r through a burst; Algorithm 1 also with the plan's order."""
    plan = scene.plan()
    ways = {
        "random dropping": scene.random(),
        "Algorithm 1": scene.adaptive(),
        "Algorithms 1-3": scene.adaptive(time=True),
        "Algorithms 1-4": scene.adaptive(time=True, direction=True),
        "Algorithm 1 with the plan": PlannedRate(
            scene.windows, plan.order, plan.volumes, plan.oldest
        ),
        "feed-forward with the plan": scene.planned(plan),
        "feed-forward, online": scene.online(),
    }
    bursts = []
    for name, way in ways.items():
        trace = scene.run(way)
        total = partial(trace.total, "matches")
        bursts.append(Burst(name, total(60, 75), total(75, 105), total(), trace))
    return bursts


def utility_scene(
    utilities: FloatArray, frequencies: str, skew: float = 0.6, seed: int = 5
) -> Scene:
    """Return the setting of Figures 16 and 17."""
    workload = Workload(skew=skew, type_frequencies=FREQUENCIES[frequencies](utilities))
    return Scene(workload, utilities=tuple(utilities.tolist()), seed=seed)


def utility_improvement(scene: Scene, seeds: int = 1, seconds: float = 240.0) -> float:
    """Return output utility with utility-based shedding over that without, both from plans."""
    statistics = scene.statistics(seconds)
    aware = planner.plan(statistics, scene.definition())
    blind = planner.plan(untyped(statistics), scene.definition(utilities=(1.0,)))
    without = with_types = 0.0
    for seed in range(seeds):
        here = scene.but(seed=scene.seed + seed)
        without += here.output(Untyped(Controller.of(blind), len(scene.utilities)))
        with_types += here.output(here.planned(aware))
    return with_types / without


def untyped(statistics: Statistics) -> Statistics:
    """Return the match histogram with all types taken together."""
    return assemble(
        statistics.windows,
        ("any",),
        statistics.hits.sum(axis=(2, 3), keepdims=True),
        statistics.comparisons.sum(axis=2, keepdims=True),
        statistics.type_counts.sum(axis=1, keepdims=True),
        statistics.span_s,
    )


def adaptive_utility_improvement(scene: Scene) -> float:
    """Return the same for the paper's adaptive operator: Algorithm 5 over Algorithm 4."""
    with_utility = scene.output(scene.adaptive(time=True, utility=True))
    return with_utility / scene.output(scene.adaptive(time=True, direction=True))


def directions(loads: tuple[float, ...], skew: float = 0.8, seed: int = 5) -> list[list[float]]:
    """Compare Algorithms 4 and 5 where both directions are valuable: cycle = w, shift = w / 2.

    Both know the time correlation and make the fraction r of all comparisons. Rows of r, output
    share of Algorithm 4, of Algorithm 5, their ratio, and that of the printed Algorithm 5.
    """
    scene = Scene(
        Workload(skew=skew, cycle_s=20.0, shift_s=10.0), budget=UNLIMITED, seconds=60.0, seed=seed
    )
    statistics = scene.statistics()
    density = statistics.hits.sum(axis=(2, 3)) / np.maximum(statistics.comparisons[:, :, 0], 1)
    order = np.argsort(-density, axis=1, kind="stable")[:, None, :]
    volumes = scene.windows.extents_s[:, None, :]
    complete = float(scene.full[0].sum()) / scene.seconds
    means = (float(density[0].mean()), float(density[1].mean()))
    rows = []
    for r in loads:
        shares = algorithms.direction_adapt(r, scene.windows, means)
        fourth = Ordered.of(order, np.array(shares)[:, None])
        fifth = Selection.of_fractions(
            algorithms.value_join_adapt(r, density[:, None, :], volumes)
        )
        printed = algorithms.printed_value_join_adapt(
            r, scene.windows, (500.0, 500.0), np.ones((2, 1)), np.ones((2, 1)), density
        )
        ways = (fourth, fifth, Ordered.of(order, printed))
        a, b, c = (scene.output(Fixed(way)) / complete for way in ways)
        rows.append([r, a, b, b / a, c])
    return rows


@dataclass(frozen=True, slots=True)
class Beside:
    """Output of plan and online estimate over random dropping's, seed by seed, in one setting."""

    name: str
    flat: bool  # nothing tells one comparison from another
    planned: FloatArray
    online: FloatArray
    matches: float  # of random dropping, per seed

    @property
    def lowest(self) -> float:
        """The smaller of the two mean ratios."""
        return float(min(self.planned.mean(), self.online.mean()))

    def error(self, clustering: float) -> float:
        """Return the standard error of a mean ratio: of Poisson counts, times the clustering."""
        return clustering * float(np.sqrt(2.0 / max(self.matches * self.planned.size, 1.0)))


def clustering(settings: Sequence[Beside]) -> float:
    """How much more than Poisson counts the ratios vary between seeds, pooled over settings.

    Matches come in clusters: a large set matches often, and stays in its window for long.
    """
    variances = [
        float(ratios.var(ddof=1)) * b.matches / 2.0
        for b in settings
        for ratios in (b.planned, b.online)
        if ratios.size > 2
    ]
    return max(1.0, float(np.sqrt(np.mean(variances)))) if variances else 2.0


def settings_of_the_paper(quick: bool = False) -> Iterator[tuple[str, Scene]]:
    """Yield name and scene over the ranges of Section 6.

    Skew times rate, window, shift and threshold; and the joins of Sections 6.3 to 6.5: one window,
    an inverted index, single values, types with utilities.
    """
    seconds = 40.0 if quick else 60.0
    points = [(500.0, 20.0, 25.0, 3), (500.0, 20.0, 20.0, 3), (500.0, 20.0, 25.0, 4)]
    if not quick:
        points += [
            (300.0, 20.0, 25.0, 3),
            (200.0, 20.0, 25.0, 3),
            (500.0, 20.0, 0.0, 3),
            (500.0, 20.0, 10.0, 3),
            (500.0, 20.0, 30.0, 3),
            (500.0, 10.0, 12.5, 3),
            (200.0, 40.0, 50.0, 3),
        ]
    for skew in (0.0, 0.2, 0.6) if quick else SKEWS:
        for rate, window, shift, threshold in points:
            workload = Workload(skew=skew, cycle_s=2 * window, shift_s=shift)
            scene = Scene(
                workload, Windows((window, window), 1.0), Condition("overlap", threshold),
                rates=rate, warm_up_s=2 * window, seconds=seconds,
            )  # fmt: skip
            yield f"κ={skew:g} {rate:g}/s w={window:g} τ={shift:g} θ={threshold}", scene
        yield from _other_joins(skew, seconds)


def _other_joins(skew: float, seconds: float) -> Iterator[tuple[str, Scene]]:
    one = Scene(Workload(skew=skew, shift_s=0.0), ONE_WINDOW, seconds=seconds)
    yield f"κ={skew:g} one window, τ=0", one
    single = Workload(skew=skew).single_valued()
    equal = Scene(single, condition=Condition("equality"), seconds=30.0)
    yield f"κ={skew:g} single values", equal
    utilities = np.array([1.0, 2.0**-4, 3.0**-4])
    yield f"κ={skew:g} three types", utility_scene(utilities, "inverse", skew)
    if skew in (0.0, 0.6):
        indexed = Scene(
            Workload(skew=skew, cycle_s=400.0, shift_s=250.0), Windows((200.0, 200.0), 10.0),
            warm_up_s=220.0, seconds=20.0, method="time_sorted",
        )  # fmt: skip
        yield f"κ={skew:g} inverted index, w=200", indexed


def beside_random(name: str, scene: Scene, most_seeds: int = 6) -> Beside:
    """Compare with random dropping, over more seeds as long as the ratio is close to 1."""
    long = max(scene.windows.window_s) > 60.0
    plan = scene.plan(420.0, 100.0) if long else scene.plan()
    ratios: list[tuple[float, float]] = []
    matches = 0.0
    for seed in range(most_seeds):
        here = scene.but(seed=scene.seed + seed)
        trace = here.run(here.random())
        base = max(trace.total("utility", here.warm_up_s), 1e-9)
        matches += trace.total("matches", here.warm_up_s)
        planned, online = (
            here.output(way) * here.seconds / base for way in (here.planned(plan), here.online())
        )
        ratios.append((planned, online))
        by_plan, by_estimate = np.array(ratios).T
        flat = scene.workload.skew == 0 and len(scene.utilities) == 1
        beside = Beside(name, flat, by_plan, by_estimate, matches / (seed + 1))
        if beside.lowest - 3.0 * beside.error(2.0) > 1.0:
            break
    return beside


@dataclass(frozen=True, slots=True)
class Stale:
    """Output after the time correlation has moved, relative to random dropping."""

    moved_s: float
    kept: float  # the stale plan, not watched
    watched: float  # the operator notices and falls back
    fresh: float  # a plan for the new correlation
    noticed_s: float | None  # seconds from the change until it was noticed


def stale(moved_s: float, skew: float = 0.8, seed: int = 5, at_s: float = 60.0) -> Stale:
    """Shift the time correlation by ``moved_s`` seconds at ``at_s``; output counts from then on."""
    before = Scene(Workload(skew=skew, shift_s=25.0), warm_up_s=at_s, seed=seed)
    after = before.but(workload=Workload(skew=skew, shift_s=25.0 + moved_s))
    streams = [
        concatenate([old.take(old.time < at_s), new.take(new.time >= at_s)])
        for old, new in zip(before.streams, after.streams, strict=True)
    ]

    def output(way: Strategy) -> float:
        trace = run(
            streams[0], streams[1], before.windows, before.condition, way, budget=before.budget
        )
        return trace.total("matches", at_s)

    base = output(before.random())
    watched = before.planned()
    share = output(watched) / base
    noticed = None if watched.stale_since is None else watched.stale_since - at_s
    kept = output(before.planned(watch=False)) / base
    return Stale(moved_s, kept, share, output(after.planned()) / base, noticed)
