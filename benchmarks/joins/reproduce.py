"""The paper's evaluation (Section 6) and ours, reproduced: ``make reproduce FAMILY=joins``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.joins import analysis, beyond, experiments
from benchmarks.joins import reproduce_rates as rates
from benchmarks.joins.page import JoinsPage
from benchmarks.joins.scene import ALL, Scene, outputs
from benchmarks.joins.workload import Workload
from planning.errors import PlanningError
from planning.joins import figures
from planning.joins.model import Condition, Windows

Progress = Callable[[str], None]
SKEWS = experiments.SKEWS


def reproduce(folder: Path, quick: bool, progress: Progress) -> None:
    """Write every table and figure into ``folder``."""
    page = JoinsPage(Path(folder), quick)
    parts: list[tuple[str, Callable[[JoinsPage], None]]] = [
        ("Figure 5, basic window size", _figure_5),
        ("Figure 6, match probabilities", _figure_6),
        ("Figure 7, drop rates", rates.figure_7),
        ("Figures 8 and 9, rate adaptation", rates.figures_8_9),
        ("Figure 10, rate adaptation over skew", rates.figure_10),
        ("Figures 11 and 12, selective processing", rates.figures_11_12),
        ("Figure 13, selective processing over skew", _figure_13),
        ("Figure 14, basic window size", _figure_14),
        ("Figure 15, indexed joins", _figure_15),
        ("Figure 16, utility", _figure_16),
        ("Figure 17, type domain", _figure_17),
        ("Both directions valuable", beyond.directions),
        ("Stale plans", beyond.stale),
        ("Types cut by set size", beyond.sizes),
        ("Real streams", beyond.real),
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


def _figure_5(page: JoinsPage) -> None:
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
    phi: dict[tuple[Any, Any], list[Any]] = {(row[0], row[1]): row[2:] for row in rows}
    broad, narrow, fine = phi["broad", 0.25], phi["narrow", 0.25], phi["narrow", 0.025]
    good = broad[0] < broad[2] and narrow[0] < broad[0] < fine[0]
    page.states(
        "5",
        "φ falls with fewer resources and with more skew; smaller basic windows are better",
        f"b/w = 0.25: φ = {broad[0]:.2f} at r' = 0.05 and {broad[2]:.2f} at 0.6; narrow peak "
        f"{narrow[0]:.2f}, with b/w = 0.025 {fine[0]:.2f}",
        "" if good else "not in this order",
    )


def _figure_6(page: JoinsPage) -> None:
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
    peaks = {name: (ages[int(np.argmax(curve))], max(curve)) for name, curve in curves.items()}
    low, high = peaks["κ = 0.6, window 2"], peaks["κ = 0.8, window 2"]
    page.states(
        "6",
        "f₁ has one peak, steeper at κ = 0.8 than at 0.6, when stream 2 is delayed by τ = 5/8 ς",
        f"one peak at {low[0]:g} s, {low[1]:.1f} times the mean at κ = 0.6 and {high[1]:.1f} times "
        "at κ = 0.8",
        "the same curve is that of window 2: with a cycle of 40 s, a delay of 25 s is a lead of 15",
    )
    plan = Scene(Workload(skew=0.8)).plan(60.0)
    page.plot("plan", lambda figure: figures.draw(plan, figure.subplots()), width=8.0)


def _over_skew(
    page: JoinsPage, name: str, scene: Scene, skews: tuple[float, ...]
) -> dict[str, list[float]]:
    curves: dict[str, list[float]] = {}
    for skew in skews:
        here = scene.but(workload=replace(scene.workload, skew=skew))
        for label, value in outputs(here, ALL).items():
            curves.setdefault(label, []).append(value)
    page.curves(name, skews, curves, xlabel="skew κ", ylabel="matches per second")
    return curves


def _figure_13(page: JoinsPage) -> None:
    page.section(
        "Figure 13: selective processing over skew, overlap of at least 4",
        "500 tuples/s, τ = 5/8 ς. Rate adaptation alone looks at the wrong end of the window.",
    )
    scene = Scene(condition=Condition("overlap", 4), seconds=40.0 if page.quick else 100.0)
    skews = (0.2, 0.6, 0.8) if page.quick else SKEWS
    curves = _over_skew(page, "figure-13", scene, skews)
    low, high = skews.index(0.2), skews.index(0.8)
    rate, four = curves["rate"], curves["rate + time + direction"]
    gains = [four[k] / curves["random dropping"][k] for k in (low, high)]
    page.states(
        "13",
        "the gain of time correlation and direction rises with skew; rate adaptation alone gains "
        "nothing from skew",
        f"Algorithms 1-4 over random dropping: {gains[0]:.1f} at κ = 0.2, {gains[1]:.1f} at 0.8; "
        f"Algorithm 1 alone: {rate[low]:.0f} and {rate[high]:.0f} matches/s",
        "" if gains[1] > gains[0] and rate[high] < 1.2 * rate[low] else "not in this order",
    )


def _figure_14(page: JoinsPage) -> None:
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
    output: dict[tuple[Any, Any], Any] = {(row[0], row[1]): row[3] for row in rows}
    small, large = (1.0, 50.0) if not page.quick else (5.0, 20.0)
    time, ident = "index, time_sorted", "index, id_sorted"
    peak = max(output[time, b] for kind, b in output if kind == time and b != "none")
    losses = [1 - output[ident, b] / output[time, b] for b in (small, large)]
    page.states(
        "14",
        "small basic windows give more output; with an index very small ones give less; identifier "
        "order gives much less, above all with large basic windows",
        f"no index: {output['no index', 1.0]:.0f}/s at b = 1 s, {output['no index', 10.0]:.0f} at "
        "10 s; "
        f"index: {output[time, small] / peak:.2f} of the best at b = {small:g} s; identifier order "
        f"loses {losses[0]:.0%} at b = {small:g} s, {losses[1]:.0%} at {large:g} s, "
        f"{1 - output[ident, 'none'] / output[time, 'none']:.0%} without basic windows",
        "a posting costs 0.075 comparisons here (Figure 7), so reading a basic window to its end, "
        "as identifier order must, is cheap" if losses[1] < 0.2 else "",
    )


def _figure_15(page: JoinsPage) -> None:
    page.section(
        "Figure 15: improvement over random dropping, with and without indexes",
        "Overlap of at least 3 (κ = 0.6) and equality of single values; w = 20 s without, 200 s "
        "with an index. With a hash index a probe costs the same whatever is compared, so nothing "
        "is shed and nothing gained.",
    )
    rows = []
    single = Workload().single_valued()
    wide = Workload(cycle_s=400.0, shift_s=250.0)
    for rate in (100.0, 300.0) if page.quick else (100.0, 200.0, 300.0, 400.0, 500.0):
        small = Scene(rates=rate, seconds=40.0)
        steep = Scene(Workload(skew=0.8), rates=rate, seconds=40.0)
        large = Scene(
            wide, Windows((200.0, 200.0), 5.0), rates=rate, warm_up_s=220.0, seconds=30.0,
            method="time_sorted",
        )  # fmt: skip
        scenes = [
            (small, small.plan()),
            (steep, steep.plan()),
            (large, large.plan(420.0, 100.0)),
            *((s, s.plan(120.0, 200.0)) for s in _equi(single, rate)),
        ]
        gains = [s.output(s.planned(p)) / max(s.output(s.random()), 1e-9) for s, p in scenes]
        rows.append([rate, *gains])
    page.table(
        "figure-15",
        ["tuples/s", "overlap, κ = 0.6", "overlap, κ = 0.8", "overlap, inverted index", "equality",
         "equality, hash index"],
        rows,
    )  # fmt: skip
    last = rows[-1]
    started = [row[0] for row in rows if row[3] > 1.02]
    page.states(
        "15",
        "up to 500 % more than random dropping without an index, more for overlap than for "
        "equality; with an inverted index none up to 300/s, up to about 100 % at 500/s; none with "
        "a hash index",
        f"at {last[0]:g}/s: overlap {last[1] - 1:.0%} (κ = 0.8: {last[2] - 1:.0%}), equality "
        f"{last[4] - 1:.0%}; inverted index {last[3] - 1:.0%}, "
        + (f"from {started[0]:g}/s on" if started else "not yet")
        + f"; hash index {last[5] - 1:.0%}",
        "with an index the gain is smaller on this processor, on which shedding begins later; it "
        "grows with the rate, as the paper expects",
    )


def _equi(single: Workload, rate: float) -> list[Scene]:
    scan = Scene(single, condition=Condition("equality"), rates=rate, seconds=40.0)
    return [scan, scan.but(method="hash")]


def _figure_16(page: JoinsPage) -> None:
    page.section(
        "Figure 16: utility-based shedding over the skew of utilities",
        "Output utility with utility-based shedding over that without; three types with utilities "
        "1, 2^-k, 3^-k. *Plan*: both by feed-forward plans. *Algorithms*: Algorithm 5 over 4.",
    )
    skews = (0.0, 2.0, 4.0) if page.quick else (0.0, 1.0, 2.0, 3.0, 4.0)
    curves: dict[str, list[float]] = {}
    models = ("uniform", "inverse", "direct")
    for model in models:
        for k in skews:
            utilities = np.array([1.0, 2.0**-k, 3.0**-k])
            scene = experiments.utility_scene(utilities, model)
            gain = experiments.utility_improvement(scene, 2 if page.quick else 6)
            curves.setdefault(f"plan, {model}", []).append(gain)
            if not page.quick:
                paper = experiments.adaptive_utility_improvement(scene)
                curves.setdefault(f"algorithms, {model}", []).append(paper)
    page.curves("figure-16", skews, curves, xlabel="skew k", ylabel="utility, with / without")
    ends = {model: (curves[f"plan, {model}"][0], curves[f"plan, {model}"][-1]) for model in models}
    good = ends["inverse"][1] > ends["uniform"][1] > 1.05 and abs(ends["direct"][1] - 1) < 0.1
    page.states(
        "16",
        "utility gained rises with k for uniform and inverse frequencies, is almost stable for "
        "direct ones, and is best for inverse ones",
        "k = 0 and 4: " + ", ".join(f"{m} {a:.2f} and {b:.2f}" for m, (a, b) in ends.items()),
        "" if good else "not in this order",
    )


def _figure_17(page: JoinsPage) -> None:
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
            scene = experiments.utility_scene(utilities, "inverse")
            gain = experiments.utility_improvement(scene, 1 if page.quick else 3)
            curves.setdefault(f"x = {x:g}", []).append(gain)
    page.curves("figure-17", domains, curves, xlabel="types", ylabel="utility, with / without")
    steep = curves["x = 20"]
    good = steep[0] > steep[1] and steep[-2] - steep[-1] < steep[0] - steep[1]
    page.states(
        "17",
        "the gain first falls with the number of types and then stabilises",
        "x = 20: " + ", ".join(f"{g:.2f} at {d}" for d, g in zip(domains, steep, strict=True)),
        "" if good else "not in this order",
    )
