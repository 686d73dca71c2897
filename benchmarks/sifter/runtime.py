"""Sifter: decisions per second, bytes per region, and whether the budget holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks.rows import Row, best_of, row
from benchmarks.sifter.scene import Scene, drawn
from planning.arrays import FloatArray
from planning.rehearsal import Rehearsal
from planning.sifter import codec
from planning.sifter.demo import Settings
from planning.sifter.plan import Plan
from planning.sifter.shedder import Shedder


@njit
def read_columns(columns: Any) -> float:
    """Add up all columns, four sums at a time so that reading is what takes the time."""
    total = 0.0
    for column in columns:
        a = b = c = d = 0.0
        for i in range(0, column.size - 3, 4):
            a += column[i]
            b += column[i + 1]
            c += column[i + 2]
            d += column[i + 3]
        total += a + b + c + d
    return total


def speed(quick: bool) -> list[Row]:
    """Measure batches in two and four dimensions, then single items."""
    count = 2_000_000 if quick else 10_000_000
    rows = []
    for dimensions, regions in ((2, 16), (2, 100), (2, 1000), (4, 16), (4, 100)):
        settings = Settings("SKEW", "SKEW", dimensions=dimensions)
        scene = drawn(settings, 1, samples=1000 if regions < 1000 else 20_000, fresh=100_000)
        plan = scene.plan("cost_tree", regions)
        rows += batches(plan, scene.fresh, count, regions)
        if (dimensions, regions) == (2, 16):
            rows += single(plan, scene)
    return rows


def batches(plan: Plan, fresh: FloatArray, count: int, asked_regions: int) -> list[Row]:
    """Time one batch of ``count`` tuples: against tree descent, against merely reading it."""
    dimensions = fresh.shape[1]
    name = f"{dimensions}-D, l = {plan.regions}"
    columns = {f"x{k}": np.tile(fresh[:, k], count // len(fresh)) for k in range(dimensions)}
    shedder = Shedder(plan, 0.5)
    taken = best_of(5, lambda: shedder.offer(columns)).cpu
    rows = []
    if asked_regions >= 100:
        ratio = descent_time(plan, columns, count) / taken
        bar = dimensions == 2
        rows.append(row(f"batch against k-d descent, {name}", ">= 5x" if bar else "reported",
                        f"{ratio:.1f}x", ratio >= 5 if bar else None))  # fmt: skip
    if dimensions == 2 and asked_regions <= 100:
        arrays = tuple(columns.values())
        share = best_of(5, lambda: read_columns(arrays)).cpu / taken
        rows.append(row(f"batch against reading the columns, {name}", ">= 8 %",
                        f"{100 * share:.0f} %", share >= 0.08))  # fmt: skip
    rate = count / taken / 1e6
    goal = {(2, 16): 100, (4, 16): 40}.get((dimensions, asked_regions))
    rows.append(row(f"batch decisions, {name}", f"about {goal} M/s" if goal else "reported",
                    f"{rate:.0f} M/s", rate >= goal if goal else None))  # fmt: skip
    return rows


def descent_time(plan: Plan, columns: dict[str, FloatArray], count: int) -> float:
    """Return the time of the same shedder without its tables: it descends the cut tree."""
    slow = Shedder(plan, 0.5)
    tables = slow._tables
    slow._tables = tables._replace(cells=tables.cells[:0], bitmaps=tables.bitmaps[:0])
    part = {name: column[: count // 10] for name, column in columns.items()}
    return 10 * best_of(3, lambda: slow.offer(part)).cpu


def single(plan: Plan, scene: Scene) -> list[Row]:
    """Time one call per tuple, and compare its decisions with a batch's."""
    shedder, node = Shedder(plan, 0.5), Rehearsal(plan, "sifter", 0.5).path
    items = [tuple(point) for point in scene.fresh[:20_000].tolist()]
    mappings = [dict(zip(plan.space.names, item, strict=True)) for item in items]

    def seconds(offer_one: Callable[[Any], Any], given: list[Any]) -> float:
        def one_by_one() -> None:
            for item in given:
                offer_one(item)

        return best_of(10, one_by_one).cpu

    taken = seconds(shedder.offer_one, items)
    rate = len(items) / taken / 1e6
    ratio = seconds(shedder.offer_one, mappings) / taken
    node_ratio = seconds(node.offer_one, mappings) / seconds(node.offer_one, items)
    batch = Shedder(plan, 0.5).offer(scene.fresh[:20_000])
    other = Shedder(plan, 0.5)
    same = [other.offer_one(item) for item in items] == batch.tolist()
    return [
        row("a mapping over a tuple, one call: the shedder, a node", "<= 3x",
            f"{ratio:.2f}x, {node_ratio:.2f}x", max(ratio, node_ratio) <= 3),
        row("single-item call", ">= 1 M/s", f"{rate:.2f} M/s", rate >= 1),
        row("single items and batches decide alike", "bit by bit", str(same), same),
    ]  # fmt: skip


def compactness(quick: bool) -> list[Row]:
    """Measure bytes per region of the binary forms and of JSON."""
    rows = []
    for regions in (16, 100, 1000):
        scene = drawn(Settings("SKEW", "SKEW"), 1, samples=20_000, fresh=1000)
        plan = scene.plan("cost_tree", regions)
        setting = len(codec.setting_to_bytes(plan, 0.5)) / plan.regions
        payload = len(plan.to_bytes())
        axes = len(codec.axes_bytes(plan.space, plan.partition))
        fixed = len(codec.PLAN_MAGIC) + codec.HEADER.size + codec.QOS.size + axes
        whole = (payload - fixed) / plan.regions
        text = len(json.dumps(plan.to_document())) / plan.regions
        rows.append(
            row(f"bytes per region, l = {plan.regions}: one z, whole path, JSON",
                "<= 12, <= 20, reported",
                f"{setting:.1f}, {whole:.1f}, {text:.0f}; {payload} bytes in all, of which "
                f"{fixed} name attributes and parameters",
                setting <= 12 and whole <= 20)
        )  # fmt: skip
    return rows


def budget(quick: bool) -> list[Row]:
    """Measure what passes in every window of 10,000 tuples, from plans made of few samples."""
    worst, least, plain = 0.0, 1.0, 0.0
    for seed in range(3 if quick else 10):
        scene = drawn(Settings("SKEW", "SKEW"), seed, samples=200, fresh=60_000)
        plan = scene.plan("cost_tree", 50)
        for z in (0.1, 0.3, 0.5, 0.7, 0.9):
            for correct in (True, False):
                kept = Shedder(plan, z, correct=correct).offer(scene.fresh)
                total = np.concatenate([[0], np.cumsum(kept)])
                passed = (total[10_000:] - total[:-10_000]) / 10_000 / z
                if correct:
                    worst, least = max(worst, passed.max()), min(least, passed.min())
                else:
                    plain = max(plain, passed.max())
    return [
        row("passed over z, any window of 10,000, plan from 200 samples", "<= 1.01",
            f"{worst:.4f} at most, {least:.4f} at least; uncorrected {plain:.2f}", worst <= 1.01)
    ]  # fmt: skip
