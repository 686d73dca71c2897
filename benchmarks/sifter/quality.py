"""Sifter: loss on fresh tuples over random dropping's, by partitioner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import chi2

from benchmarks.rows import Row, row
from benchmarks.sifter import recorded
from benchmarks.sifter.scene import (
    LABELS,
    PAPER,
    WORKLOADS,
    Scene,
    drawn,
    flown,
    loss_table,
    unit_space,
)
from planning.errors import InvalidInput
from planning.sections import Attribute
from planning.sifter.demo import Settings, Workload

LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
REFERENCE = {  # loss over random dropping at l = 16, z = Delta = 0.5
    ("UNIF", "SKEW"): (0.835, 0.707, 0.747, 0.689),
    ("SKEW", "UNIF"): (0.866, 0.779, 0.753, 0.792),
    ("SKEW", "SKEW"): (0.795, 0.604, 0.649, 0.575),
    ("UNIF", "UNIF"): (0.978, 0.964, 0.967, 0.964),
}


def reproduction(quick: bool) -> list[Row]:
    """Measure the paper's partitioners on seeds 0 to 19; many more seeds tell mean from luck."""
    seeds, many, fresh = (4, 8, 30_000) if quick else (20, 100, 100_000)
    losses = _paper_losses(many, fresh, WORKLOADS)
    rows = []
    for workload, by_seed in losses.items():
        got = by_seed[:seeds].mean(axis=0)
        away = float(np.abs(got - REFERENCE[workload]).max())
        named = " ".join(f"{LABELS[n]} {v:.3f}" for n, v in zip(PAPER, got, strict=True))
        error = float(by_seed.std(axis=0, ddof=1).max()) / np.sqrt(seeds)
        rows.append(
            row(f"reproduction {'/'.join(workload)}, l = 16, z = 0.5, {seeds} seeds",
                f"+- 0.03 of {_listed(REFERENCE[workload])}",
                f"{named}; furthest {away:.3f}, standard error up to {error:.3f}; "
                f"means of {many} seeds {_listed(by_seed.mean(axis=0))}",
                away <= 0.03)
        )  # fmt: skip
    rows.append(_agreement(losses, seeds))
    for border in ("inside", "leave"):
        other = _paper_losses(2 * seeds, fresh, WORKLOADS[:3], border=border)
        shown = "; ".join(f"{'/'.join(w)} {_listed(v.mean(axis=0))}" for w, v in other.items())
        rows.append(row(f"the same with borders read as '{border}', {2 * seeds} seeds", "reported",
                        shown, None))  # fmt: skip
    return rows


def _paper_losses(seeds: int, fresh: int, workloads: Any, **settings: Any) -> dict[Any, Any]:
    """Return losses (seeds, partitioners) of each workload at l = 16, z = 0.5."""
    table = loss_table(PAPER, (16,), (0.5,), range(seeds), workloads, fresh, **settings)
    return {
        (data, query): np.column_stack([table[data, query, 16, name][:, 0] for name in PAPER])
        for data, query in workloads
    }


def _listed(values: Any) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def _agreement(losses: dict[Any, Any], seeds: int) -> Row:
    """Tell whether the stated numbers could be a measurement of ours on as many other seeds.

    Chi-square over the skewed workloads, four correlated numbers each; and how often two such
    measurements of the same generator are within 0.03 of each other in all four numbers.
    """
    rng, statistic, agree = np.random.default_rng(0), 0.0, []
    for workload in WORKLOADS[:3]:
        ours = losses[workload]
        away = ours.mean(axis=0) - REFERENCE[workload]
        covariance = np.cov(ours.T) * (1 / seeds + 1 / len(ours))
        statistic += float(away @ np.linalg.solve(covariance, away))
        one, two = (ours[rng.integers(0, len(ours), (2000, seeds))].mean(axis=1) for _ in "12")
        agree.append(float((np.abs(one - two).max(axis=1) <= 0.03).mean()))
    chance = ", ".join(f"{'/'.join(w)} {a:.0%}" for w, a in zip(WORKLOADS, agree, strict=False))
    return row(f"could the stated numbers be ours on {seeds} other seeds", "reported",
               f"chi-square {statistic:.1f} of 12, p = {chi2.sf(statistic, 12):.2f}; two sets of "
               f"{seeds} seeds agree within 0.03: {chance}", None)  # fmt: skip


def quality(quick: bool) -> list[Row]:
    """Compare the cost tree with the best of the paper's four, workload by workload."""
    table = loss_table((*PAPER, "cost_tree"), (16, 100), LOADS, range(4 if quick else 20),
                       fresh=30_000 if quick else 100_000)  # fmt: skip
    mean = {key: losses.mean(axis=0) for key, losses in table.items()}
    return [*_best_partitioner(mean, 16), *_best_partitioner(mean, 100)]


def _best_partitioner(mean: dict[Any, Any], regions: int) -> list[Row]:
    ratio = {}
    for data, query in WORKLOADS:
        best = np.min([mean[data, query, regions, name] for name in PAPER], axis=0)
        ratio[data, query] = mean[data, query, regions, "cost_tree"] / best
    skewed = float(np.mean([ratio[w][2] for w in WORKLOADS[:3]]))
    worst = max(float(r[:4].max()) for r in ratio.values())
    late = ", ".join(f"{d}/{q} {ratio[d, q][4]:.2f}" for d, q in WORKLOADS)
    both = float(ratio["SKEW", "SKEW"][2])
    return [
        row(f"cost tree over the paper's best, z = 0.5, three skewed workloads, l = {regions}",
            "<= 0.85", f"{skewed:.3f}", skewed <= 0.85),
        row(f"cost tree over the paper's best, SKEW/SKEW, z = 0.5, l = {regions}", "<= 0.70",
            f"{both:.3f}", both <= 0.70),
        row(f"worst cell of z = 0.1, 0.3, 0.5, 0.7 x workload, l = {regions}", "<= 1.03",
            f"{worst:.3f}", worst <= 1.03),
        row(f"z = 0.9, l = {regions}", "reported", late, None),
    ]  # fmt: skip


def gains(quick: bool) -> list[Row]:
    """Gains over random dropping on SKEW/UNIF; they depend on the partitioner, so all are shown."""
    fine = {(n, regions): [] for n in PAPER for regions in (16, 100)}
    fair = {(n, delta): [] for n in PAPER for delta in (0.1, 0.9)}
    for seed in range(3 if quick else 10):
        scene = drawn(Settings(), seed, fresh=50_000)
        for (name, regions), by_seed in fine.items():
            by_seed.append(1 - scene.losses(scene.plan(name, regions), (0.1,))[0])
        for (name, delta), by_seed in fair.items():
            plan = scene.plan(name, 16, fairness_threshold=delta)
            by_seed.append(1 - scene.losses(plan, (0.3,))[0])
    by_regions = {n: float(np.mean(fine[n, 100]) / np.mean(fine[n, 16])) for n in PAPER}
    by_delta = {n: float(np.mean(fair[n, 0.9]) / np.mean(fair[n, 0.1])) for n in PAPER}

    def shown(ratios: dict[str, float]) -> str:
        return ", ".join(f"{LABELS[n]} {ratio:.1f}" for n, ratio in ratios.items())

    return [
        row("gain at l = 100 over l = 16, z = 0.1, SKEW/UNIF", "about 2 (DEDP in 1.5 to 2.5)",
            shown(by_regions), 1.5 <= by_regions["data_equi_depth"] <= 2.5),
        row("gain at Delta = 0.9 over 0.1, z = 0.3, SKEW/UNIF", "about 8 (QDPart in 6 to 10)",
            shown(by_delta), 6 <= by_delta["qdpart"] <= 10),
    ]  # fmt: skip


def other_spaces(quick: bool) -> list[Row]:
    """Report losses in three and four dimensions and with a category."""
    scenes: dict[str, Callable[[int], Scene]] = {
        "3-D": partial(_scene, Settings("SKEW", "SKEW", dimensions=3, side=(0.02, 0.05))),
        "4-D": partial(_scene, Settings("SKEW", "SKEW", dimensions=4, side=(0.05, 0.1))),
        "with a category": with_category,
    }
    rows = []
    for name, make in scenes.items():
        losses = {n: [] for n in (*PAPER, "cost_tree")}
        for seed in range(2 if quick else 10):
            scene = make(seed)
            for partitioner, by_seed in losses.items():
                by_seed.append(scene.losses(scene.plan(partitioner, 81), (0.5,))[0])
        values = ", ".join(f"{LABELS[n]} {np.mean(v):.3f}" for n, v in losses.items())
        rows.append(row(f"loss {name}, SKEW/SKEW, l = 81, z = 0.5", "reported", values, None))
    return rows


def _scene(settings: Settings, seed: int) -> Scene:
    return drawn(settings, seed, fresh=50_000)


def with_category(seed: int) -> Scene:
    """Two numeric attributes and twelve categories that data and queries favour differently."""
    workload = Workload(Settings("SKEW", "SKEW"), seed)
    rng = np.random.default_rng([9, seed])
    data_share, query_share = rng.dirichlet(np.full(12, 0.5)), rng.dirichlet(np.full(12, 0.5))
    samples, fresh = workload.tuples(1000), workload.tuples(50_000)
    tuples = [
        np.column_stack([p, rng.choice(12, len(p), p=data_share)]) for p in (samples, fresh)
    ]
    code = rng.choice(12, workload.queries.count, p=query_share).astype(float)
    asked = replace(
        workload.queries,
        low=np.column_stack([workload.queries.low, code]),
        high=np.column_stack([workload.queries.high, code + 1]),
    )
    # Queries with a category match a twelfth of the tuples: make them larger.
    grown = replace(asked, low=asked.low - [0.02, 0.02, 0], high=asked.high + [0.02, 0.02, 0])
    kind = Attribute(name="kind", type="category", values=tuple("abcdefghijkl"))
    return Scene(*tuples, grown, (*unit_space(2), kind))


def real_data(quick: bool) -> list[Row]:
    """Report losses on the flights of 2013."""
    try:
        points = recorded.read()
    except InvalidInput as error:
        return [row("real data: nyc_flights_2013", "reported", f"skipped: {error}", None)]
    rows = []
    for regions in (16, 81):
        losses: dict[str, list[Any]] = {name: [] for name in (*PAPER, "cost_tree")}
        for seed in range(2 if quick else 5):
            scene = flown(seed, points, fresh=50_000)
            for name, by_seed in losses.items():
                by_seed.append(scene.losses(scene.plan(name, regions), (0.3, 0.5, 0.7)))
        values = "; ".join(
            f"{LABELS[n]} " + " ".join(f"{x:.3f}" for x in np.mean(v, axis=0))
            for n, v in losses.items()
        )
        rows.append(row(f"flights, loss over random at z = 0.3 0.5 0.7, l = {regions}",
                        "reported", values, None))  # fmt: skip
    return rows
