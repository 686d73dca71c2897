"""The paper's evaluation (Section 6) and ours, made anew: ``headgate reproduce joins``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from planning.errors import PlanningError
from planning.joins import analysis, comparisons, figures, real, simulate
from planning.joins.experiments import ALL, Scene, outputs
from planning.joins.generator import BURST, Workload
from planning.joins.model import Condition, Windows
from planning.joins.page import Page

Progress = Callable[[str], None]
PENTIUM = 156_250.0  # comparisons per second at which Figure 7's text holds
SKEWS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SIZES = (3, 4, 5, 6)


def reproduce(folder: Path, quick: bool, progress: Progress) -> None:
    """Write every table and figure into ``folder``."""
    page = Page(Path(folder), quick)
    parts: list[tuple[str, Callable[[Page], None]]] = [
        ("Figure 5, basic window size", _figure_5),
        ("Figure 6, match probabilities", _figure_6),
        ("Figure 7, drop rates", _figure_7),
        ("Figures 8 and 9, rate adaptation", _figures_8_9),
        ("Figure 10, rate adaptation over skew", _figure_10),
        ("Figures 11 and 12, selective processing", _figures_11_12),
        ("Figure 13, selective processing over skew", _figure_13),
        ("Figure 14, basic window size", _figure_14),
        ("Figure 15, indexed joins", _figure_15),
        ("Figure 16, utility", _figure_16),
        ("Figure 17, type domain", _figure_17),
        ("Both directions valuable", _directions),
        ("Stale plans", _stale),
        ("Types cut by set size", _sizes),
        ("Real streams", _real),
    ]
    for title, make in parts:
        progress(title)
        try:
            make(page)
        except PlanningError as error:
            page.section(title, f"Left out: {error}.")
    page.write()


def _gaussian(width: float) -> Callable[[Any], Any]:
    def density(age: Any) -> Any:
        return np.exp(-(((age - 12.0) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))

    return density


def _figure_5(page: Page) -> None:
    page.section(
        "Figure 5: optimality over basic window size and load",
        "φ (Section 5.1.1) for a broad and a narrow match probability over a window of 20 s. "
        "Small loads and narrow peaks want small basic windows.",
    )
    rows = []
    for name, width in (("broad", 4.0), ("narrow", 1.0)):
        for b in (0.5, 1.0, 2.0, 5.0, 10.0):
            shares = [analysis.optimality(_gaussian(width), 20.0, b, r) for r in (0.05, 0.2, 0.6)]
            rows.append([name, b / 20.0, *shares])
    header = ["match probability", "b / w", "φ at r' = 0.05", "r' = 0.2", "r' = 0.6"]
    page.table("figure-5", header, rows)


def _figure_6(page: Page) -> None:
    page.section(
        "Figure 6: match density over age",
        "Matches per comparison relative to the mean, τ = 5/8 ς. With the generator as described "
        "the peak lies in the window over the shifted stream, at an age of ς − τ = 15 s.",
    )
    curves = {}
    for skew in (0.6, 0.8):
        plan = Scene(Workload(skew=skew)).plan(60.0 if page.quick else 240.0)
        density = plan.hits[:, 0] / np.maximum(plan.comparisons[:, 0], 1)
        mean = plan.hits.sum() / plan.comparisons.sum()
        for i in range(2):
            curves[f"κ = {skew}, window {i + 1}"] = (density[i] / mean).tolist()
    ages = (np.arange(21) - 0.5).tolist()
    page.curves("figure-6", ages, curves, xlabel="age, s", ylabel="relative match density")
    plan = Scene(Workload(skew=0.8)).plan(60.0)
    page.plot("plan", lambda figure: figures.draw(plan, figure.subplots()), width=8.0)


def _figure_7(page: Page) -> None:
    page.section(
        "Figure 7: dropped tuples per second, unshed join",
        f"Both streams together, on a processor of {PENTIUM:,.0f} comparisons per second: the "
        "speed at which half of 50 tuples/s are dropped at w = 125 s without an index, as the "
        "paper says. Visiting a posting then costs 0.075 comparisons for the index to drop about "
        "a quarter at 100 tuples/s and w = 625 s.",
    )
    spans = (5.0, 25.0, 125.0) if page.quick else (5.0, 25.0, 125.0, 625.0)
    curves: dict[str, list[float]] = {}
    for method, label in (("scan", "no index"), ("time_sorted", "inverted index")):
        for rate in (50.0, 100.0):
            for window in spans:
                scene = Scene(
                    Workload(cycle_s=2 * window, shift_s=1.25 * window),
                    Windows((window, window), max(1.0, window / 20)), rates=rate, budget=PENTIUM,
                    warm_up_s=1.2 * window, seconds=0.3 * window + 10, method=method,
                )  # fmt: skip
                dropped = scene.run(scene.random()).total("dropped", scene.warm_up_s)
                curves.setdefault(f"{label}, {rate:g}/s", []).append(dropped / scene.seconds)
    page.curves("figure-7", spans, curves, xlabel="window, s", ylabel="dropped tuples/s")


def _figures_8_9(page: Page) -> None:
    page.section(
        "Figures 8 and 9: a burst, streams aligned in time (τ = 0)",
        "Rates 100, 500 (from 60 s), 300 (from 75 s), 100 tuples/s (from 105 s). Algorithm 1 "
        "reacts every 5 s and overshoots both ways; feed-forward control cuts within a quarter of "
        "a second.",
    )
    _burst(page, "figure-9", comparisons.burst_scene(0.6, 0.0))


def _figures_11_12(page: Page) -> None:
    page.section(
        "Figures 11 and 12: the same burst with a time shift (τ = 5/8 ς)",
        "Time correlation and direction adaptation find the productive part of the window.",
    )
    _burst(page, "figure-12", comparisons.burst_scene(0.6, 25.0))


def _burst(page: Page, name: str, scene: Scene) -> None:
    found = comparisons.burst_outputs(scene)
    page.table(
        name,
        ["operator", "matches, 500/s", "matches, 300/s", "matches, all"],
        [[b.name, b.burst, b.elevated, b.overall] for b in found],
    )
    shown = ("random dropping", "Algorithms 1-4", "feed-forward with the plan")

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for b in found:
            if b.name in shown:
                per_second = b.trace.matches.reshape(-1, 4)[:125].sum(axis=1)
                left.plot(np.arange(per_second.size), per_second, label=b.name, linewidth=1)
                right.plot(b.trace.time, b.trace.fractions[:, 1], label=b.name, linewidth=1)
        for start, rate in BURST[1:]:
            left.axvline(start, color="0.7", linewidth=0.8)
            right.text(start, 1.02, f"{rate:g}/s", fontsize=7)
        left.set(xlabel="time, s", ylabel="matches per second")
        right.set(xlabel="time, s", ylabel="share of window 2 compared, r₂")
        left.legend(fontsize=7)

    page.plot(name, draw, width=9.0)


def _over_skew(page: Page, name: str, scene: Scene, skews: tuple[float, ...]) -> None:
    curves: dict[str, list[float]] = {}
    for skew in skews:
        here = scene.but(workload=replace(scene.workload, skew=skew))
        for label, value in outputs(here, ALL).items():
            curves.setdefault(label, []).append(value)
    page.curves(name, skews, curves, xlabel="skew κ", ylabel="matches per second")


def _figure_10(page: Page) -> None:
    page.section(
        "Figure 10: rate adaptation over skew and window size (τ = 0)",
        "Average output over the rates of Figure 8. Partial processing takes the newest part of "
        "the window, which is where aligned streams match.",
    )
    rows = []
    for window in (10.0, 20.0, 40.0):
        for skew in (0.2, 0.6, 0.8) if page.quick else SKEWS[1:]:
            scene = Scene(
                Workload(skew=skew, shift_s=0.0, cycle_s=2 * window),
                Windows((window, window), 1.0), rates=BURST, warm_up_s=0.0, seconds=125.0,
            )  # fmt: skip
            values = [scene.output(w) for w in (scene.random(), scene.adaptive(), scene.planned())]
            rows.append([window, skew, *values, values[1] / values[0], values[2] / values[0]])
    page.table(
        "figure-10",
        ["window, s", "κ", "random", "Algorithm 1", "plan", "Alg. 1 / random", "plan / random"],
        rows,
    )


def _figure_13(page: Page) -> None:
    page.section(
        "Figure 13: selective processing over skew, overlap of at least 4",
        "500 tuples/s, τ = 5/8 ς. Rate adaptation alone looks at the wrong end of the window.",
    )
    scene = Scene(condition=Condition("overlap", 4), seconds=40.0 if page.quick else 100.0)
    _over_skew(page, "figure-13", scene, (0.2, 0.6, 0.8) if page.quick else SKEWS)


def _figure_14(page: Page) -> None:
    page.section(
        "Figure 14: basic window size",
        "Matches per second at 500 tuples/s, κ = 0.6; without an index w = 20 s, with one w = 200 "
        "s. Time-ordered lists can stop inside a basic window, identifier-ordered ones cannot and "
        "cost more to keep; very small basic windows cost look-ups.",
    )
    rows = []
    for b in (0.5, 1.0, 2.0, 5.0, 10.0):
        scene = Scene(windows=Windows((20.0, 20.0), b), seconds=40.0)
        made = scene.output(scene.planned())
        rows.append(["no index", b, made / scene.bound(), made])
    rate = 250.0 if page.quick else 500.0
    for method in ("time_sorted", "id_sorted"):
        for b in (5.0, 20.0) if page.quick else (1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
            scene = Scene(
                Workload(cycle_s=400.0, shift_s=250.0), Windows((200.0, 200.0), b), rates=rate,
                warm_up_s=220.0, seconds=30.0, method=method,
            )  # fmt: skip
            plan = scene.plan(420.0, 100.0)
            rows.append([f"index, {method}", b, "", scene.output(scene.planned(plan))])
        none = scene.but(windows=Windows((200.0, 200.0), 200.0))
        rows.append([f"index, {method}", "none", "", none.output(none.adaptive())])
    page.table("figure-14", ["join", "b, s", "share of the bound", "matches per second"], rows)


def _figure_15(page: Page) -> None:
    page.section(
        "Figure 15: improvement over random dropping, with and without indexes",
        "Overlap of at least 3 (κ = 0.6) and equality of single values; w = 20 s without, 200 s "
        "with an index. With a hash index a probe costs the same whatever is compared, so nothing "
        "is shed and nothing gained.",
    )
    rows = []
    single = Workload().single_valued()
    wide = {"cycle_s": 400.0, "shift_s": 250.0}
    for rate in (100.0, 300.0) if page.quick else (100.0, 200.0, 300.0, 400.0, 500.0):
        small = Scene(rates=rate, seconds=40.0)
        large = Scene(
            Workload(**wide), Windows((200.0, 200.0), 5.0), rates=rate, warm_up_s=220.0,  # type: ignore[arg-type]
            seconds=30.0, method="time_sorted",
        )  # fmt: skip
        scenes = [
            (small, small.plan()),
            (large, large.plan(420.0, 100.0)),
            *((s, s.plan(120.0, 200.0)) for s in _equi(single, rate)),
        ]
        gains = [s.output(s.planned(p)) / max(s.output(s.random()), 1e-9) for s, p in scenes]
        rows.append([rate, *gains])
    page.table(
        "figure-15",
        ["tuples/s", "overlap", "overlap, inverted index", "equality", "equality, hash index"],
        rows,
    )


def _equi(single: Workload, rate: float) -> list[Scene]:
    scan = Scene(single, condition=Condition("equality"), rates=rate, seconds=40.0)
    return [scan, scan.but(method="hash")]


def _figure_16(page: Page) -> None:
    page.section(
        "Figure 16: utility-based shedding over the skew of utilities",
        "Output utility with utility-based shedding over that without; three types with utilities "
        "1, 2^-k, 3^-k. *Plan*: both by feed-forward plans. *Algorithms*: Algorithm 5 over 4.",
    )
    skews = (0.0, 2.0, 4.0) if page.quick else (0.0, 1.0, 2.0, 3.0, 4.0)
    curves: dict[str, list[float]] = {}
    for model in ("uniform", "inverse", "direct"):
        for k in skews:
            utilities = np.array([1.0, 2.0**-k, 3.0**-k])
            scene = comparisons.utility_scene(utilities, model)
            gain = comparisons.utility_improvement(scene, 2 if page.quick else 6)
            curves.setdefault(f"plan, {model}", []).append(gain)
            if not page.quick:
                paper = comparisons.adaptive_utility_improvement(scene)
                curves.setdefault(f"algorithms, {model}", []).append(paper)
    page.curves("figure-16", skews, curves, xlabel="skew k", ylabel="utility, with / without")


def _figure_17(page: Page) -> None:
    page.section(
        "Figure 17: utility-based shedding over the number of types",
        "Utilities follow a Zipf law from 1 down to 1/x; frequencies inversely proportional.",
    )
    domains = (2, 5, 10) if page.quick else (2, 3, 5, 10, 20)
    curves: dict[str, list[float]] = {}
    for x in (5.0, 20.0) if page.quick else (5.0, 20.0, 100.0):
        for types in domains:
            power = np.log(x) / np.log(types)
            utilities = np.arange(1, types + 1) ** -power
            scene = comparisons.utility_scene(utilities, "inverse")
            gain = comparisons.utility_improvement(scene, 1 if page.quick else 3)
            curves.setdefault(f"x = {x:g}", []).append(gain)
    page.curves("figure-17", domains, curves, xlabel="types", ylabel="utility, with / without")


def _directions(page: Page) -> None:
    page.section(
        "Both directions valuable: Algorithm 5 against Algorithm 4",
        "κ = 0.8, cycle = w, shift = w/2, so that both windows have a peak in the middle; output "
        "as a share of the complete join. The printed Algorithm 5 never processes everything.",
    )
    rows = comparisons.directions((0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0))
    page.table(
        "directions", ["r", "Algorithm 4", "Algorithm 5", "5 / 4", "Algorithm 5 as printed"], rows
    )


def _stale(page: Page) -> None:
    page.section(
        "Stale plans",
        "The time correlation moves at 60 s; output from then on, over random dropping. A change "
        "needs 15 s to reach the productive part of the window.",
    )
    moves = (0.0, 2.0) if page.quick else (0.0, 1.0, 2.0, 4.0)
    rows = []
    for skew in (0.8,) if page.quick else (0.6, 0.8, 1.0):
        for moved in moves:
            s = comparisons.stale(moved, skew)
            noticed = "no" if s.noticed_s is None else f"{s.noticed_s:.0f} s"
            rows.append([skew, moved, s.kept, s.watched, s.fresh, noticed])
    header = ["κ", "moved, s", "stale plan", "watched", "new plan", "noticed after"]
    page.table("stale", header, rows)


def _sizes(page: Page) -> None:
    page.section(
        "Types cut by set size",
        "Beyond the paper: a set of seven items matches far more often than one of three, and its "
        "size is known before any comparison. Output over random dropping at 500 tuples/s.",
    )
    rows = []
    for skew in (0.0, 0.6) if page.quick else SKEWS:
        scene = Scene(Workload(skew=skew), seconds=60.0)
        base = scene.output(scene.random())
        cut = scene.but(sizes=SIZES)
        rows.append(
            [skew, scene.output(scene.planned()) / base, cut.output(cut.planned()) / base]
        )
    page.table("sizes", ["κ", "plan / random", "with classes up to 3, 4, 5, 6, more items"], rows)


def _real(page: Page) -> None:
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("HEADGATE_DATA") or beside)
    if not (folder / "joins").is_dir():
        raise PlanningError(f"no real data in {folder}; set HEADGATE_DATA to their folder")
    page.section(
        "Real streams",
        "Share of the complete join's output that is kept, planned on the first half of the "
        "recording and tried on the second. Flights: departures and arrivals of one aircraft "
        "within 12 h. Wikipedia: edits of articles and other pages with a common title word, or by "
        "the same user, within 2 h.",
    )
    rows = []
    for make in (real.flights, real.wiki_keywords, real.wiki_users):
        pair = make(folder)
        if page.quick and len(pair.left) > 50_000:
            pair = pair.shortened(0.25)
        for sizes in ((), (0, 1, 2, 3)) if pair.condition.kind == "overlap" else ((),):
            early, late = pair.halves()
            plan = pair.plan(early, sizes)
            for o in simulate.measure(plan, late[0], late[1], (0.1, 0.2, 0.3, 0.5)):
                label = f"{pair.name}, by set size" if sizes else pair.name
                rows.append([label, o.load, o.quality, o.random_quality, o.passed_fraction])
    page.table("real", ["streams", "r", "plan", "random dropping", "comparisons made"], rows)


