"""True errors of whole fleets against the baselines, generated and recorded, and their budgets."""

from __future__ import annotations

import numpy as np

from benchmarks import datasets
from benchmarks.lira.bench import Result
from benchmarks.lira.experiments import all_methods
from benchmarks.lira.greedy import greedy_increment
from benchmarks.lira.recorded import load_tracks
from benchmarks.lira.scene import Scene
from benchmarks.lira.setting import DISTRIBUTIONS, LOADS, QUERIES, REGIONS, scene_of, seeds
from benchmarks.rows import Row, row
from planning.arrays import FloatArray
from planning.lira.path import ThrottlerPath
from planning.lira.printed.gridreduce import grid_reduce

Results = dict[tuple[str, float, str], list[Result]]  # by distribution, z and method; one per seed


def quality(quick: bool) -> list[Row]:
    """Measure true errors in all nine cells, and what else the same fleets show."""
    results: Results = {}
    predicted: list[float] = []
    for seed in seeds(quick):
        scene = scene_of(seed)
        for distribution in DISTRIBUTIONS:
            queries = scene.queries(distribution, QUERIES)
            for z in LOADS:
                for name, result in _cell(scene, queries, z).items():
                    results.setdefault((distribution, z, name), []).append(result)
            predicted.append(_greedy_gap(scene, queries, LOADS[0]))
    gap = f"{min(predicted):.2f}–{max(predicted):.2f}x"
    return [
        *_against_baselines(results),
        *_against_printed(results),
        *_budgets(results),
        row("predicted inaccuracy of the printed greedy over the optimum, F = 50, z = 0.3",
            "reported", gap, None),
        *_reported(scene_of(seeds(quick)[-1])),
    ]  # fmt: skip


def _against_baselines(results: Results) -> list[Row]:
    rows = []
    for z, drop, uniform in ((0.75, 25, 5), (0.5, 15, 1.8)):
        for name, least in (("Random Drop", drop), ("Uniform Δ", uniform)):
            ratio = _ratio(results, "proportional", z, name, "position")
            rows.append(
                row(f"E_P of {name} over ours, Proportional, z = {z}", f">= {least}x",
                    f"{ratio:.1f}x", ratio >= least)
            )  # fmt: skip
    return rows


def _against_printed(results: Results) -> list[Row]:
    """Compare with the paper's LIRA, over an even grid and over GRIDREDUCE's regions."""
    rows = []
    for measure, symbol in (("position", "E_P"), ("containment", "E_C")):
        gains = []
        for distribution in DISTRIBUTIONS:
            for z in LOADS:
                grid = _ratio(results, distribution, z, "Lira-Grid", measure)
                gains.append(1 / _ratio(results, distribution, z, "LIRA printed", measure))
                rows.append(
                    row(f"{symbol} of Lira-Grid (256) over ours, {distribution}, z = {z}",
                        ">= 1x", f"{grid:.2f}x", grid >= 1)
                )  # fmt: skip
        lower = 1 - float(np.mean(gains))
        rows.append(
            row(f"{symbol} below GRIDREDUCE + greedy, mean of nine cells", ">= 20 %",
                f"{lower:.0%}", lower >= 0.2)
        )  # fmt: skip
    return rows


def _cell(scene: Scene, queries: FloatArray, z: float) -> dict[str, Result]:
    plan = scene.plan(queries, z)
    uncorrected = scene.bench.plan(queries, z, plan, correct=False)
    return all_methods(scene, queries, z) | {"LIRA, uncorrected": uncorrected}


def _ratio(results: Results, distribution: str, z: float, name: str, measure: str) -> float:
    """Return the geometric mean over seeds of another method's error over ours."""
    logs = [
        np.log(getattr(other.errors, measure) / getattr(ours.errors, measure))
        for other, ours in zip(
            results[distribution, z, name], results[distribution, z, "LIRA"], strict=True
        )
    ]
    return float(np.exp(np.mean(logs)))


def _budgets(results: Results) -> list[Row]:
    rows = []
    for name, binding in (("LIRA", True), ("LIRA, uncorrected", False)):
        off = [r.updates / z - 1 for (_, z, n), rs in results.items() if n == name for r in rs]
        text = f"{min(off):+.1%} … {max(off):+.1%} over {len(off)} runs"
        correction = "with" if binding else "without"
        rows.append(
            row(f"updates relative to z on the fresh part, {correction} run-time correction",
                "within 2 %" if binding else "reported", text,
                max(map(abs, off)) <= 0.02 if binding else None)
        )  # fmt: skip
    return rows


def _greedy_gap(scene: Scene, queries: FloatArray, z: float) -> float:
    grid = scene.statistics(queries, 128).grid
    nodes = grid.nodes.astype(np.float64)
    partition = grid_reduce(nodes, grid.queries, scene.curve, REGIONS, z)
    m, w = partition.sums(grid.queries), partition.sums(nodes)
    best = ThrottlerPath.of(m, w, scene.curve, 50.0).at(z).inaccuracy
    return float(m @ greedy_increment(m, w, scene.curve, 50.0, z)) / best


def _reported(scene: Scene) -> list[Row]:
    """Report what the speed factor costs, and what many queries leave to gain."""
    queries = scene.queries("proportional", QUERIES)
    plain = scene.bench.plan(queries, 0.5, scene.plan(queries, 0.5)).errors.position
    speed = scene.bench.plan(
        queries, 0.5, scene.plan(queries, 0.5, speed_factor=True)
    ).errors.position
    many = scene.queries("proportional", 10 * QUERIES)
    uniform = scene.bench.uniform(many, 0.5, scene.curve).errors
    ours = scene.bench.plan(many, 0.5, scene.plan(many, 0.5)).errors
    return [
        row("E_P with the speed factor over without, Proportional, z = 0.5", "reported",
            f"{speed / plain:.2f}x", None),
        row("Uniform Δ over ours at m/n = 0.1, z = 0.5 (little to gain)", "reported",
            f"E_P {uniform.position / ours.position:.2f}x, "
            f"E_C {uniform.containment / ours.containment:.2f}x", None),
    ]  # fmt: skip


def real_tracks(quick: bool) -> list[Row]:
    """Errors on recorded tracks, against Random Drop and Uniform Δ."""
    rows = []
    for tracks in load_tracks(datasets.folder()):
        scene = tracks.scene()
        queries = tracks.queries(scene)
        for z in LOADS:
            plan = scene.plan(queries, z)
            ours = scene.bench.plan(queries, z, plan)
            drop = scene.bench.random_drop(queries, z)
            uniform = scene.bench.uniform(queries, z, scene.curve)
            text = ", ".join(
                f"{name} {r.errors.position:.3g} m / {r.errors.containment:.3g}"
                for name, r in (("ours", ours), ("Random Drop", drop), ("Uniform Δ", uniform))
            )
            least = min(drop.errors.position, uniform.errors.position)
            rows.append(
                row(f"{tracks.name}, z = {z}: E_P / E_C", "below both baselines", text,
                    ours.errors.position <= least)
            )  # fmt: skip
    if not rows:
        missing = f"no data in {datasets.folder()}"
        rows.append(row("real tracks", "below both baselines", missing, None))
    return rows
