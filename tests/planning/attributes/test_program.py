"""The integer program agrees with the frontier, and its relaxation bounds it from below."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.attributes.workload import stream
from planning.attributes import planner, program
from planning.attributes.statistics import build
from planning.errors import InfeasiblePlan, InvalidInput
from planning.streams import StreamDefinition, parse

LOADS = (0.3, 0.45, 0.6, 0.8, 0.99)
KEYS = ["a", "b", "c", "d", "e", "f"]


def samples(seed: int = 1) -> dict[str, Any]:
    columns = stream(np.random.default_rng(seed), 80, (6,), (0.99, 0.9, 0.5, 0.0))
    columns["key0"] = np.array(KEYS)[np.arange(len(columns["key0"])) % 6]
    return columns


def channel() -> dict[str, Any]:
    """Two streams on one channel: what creeps, and what jumps."""
    i, rng = np.arange(960), np.random.default_rng(2)
    kind = np.array(["air", "sea"])[i // 6 % 2]
    return {
        "kind": kind, "key0": np.array(KEYS)[i % 6],
        "wind": np.where(kind == "air", rng.normal(size=960), np.nan),
        "gust": np.where(kind == "air", np.round(rng.normal(size=960)), np.nan),
        "wave": np.where(kind == "sea", np.cumsum(rng.normal(size=960)), np.nan),
    }  # fmt: skip


def definition(columns: dict[str, Any], **parameters: Any) -> StreamDefinition:
    categories = {"key0": KEYS, "kind": ["air", "sea"]}
    attributes = [
        {"name": name, "type": "category", "values": categories[name]}
        if name in categories
        else {"name": name, "domain": [-1e6, 1e6]}
        for name in columns
    ]
    document = {"stream": "s", "family": "attributes", "attributes": attributes}
    parameters = {"frontier_points": 4096, **parameters}
    return parse({**document, "parameters": parameters}, "s.yaml")


def agree(columns: dict[str, Any], stream: StreamDefinition, loads: tuple[float, ...]) -> None:
    statistics = build(columns, stream)
    plan = planner.plan(statistics, stream)
    assert planner.solver_status(plan, stream) == "exact"
    for load in (float(plan.ratio[0]) + 1e-6, *loads):
        best = program.solve(statistics, stream, load)
        bound = program.solve(statistics, stream, load, relaxed=True)
        assert best.loss == pytest.approx(1.0 - plan.predicted_quality(load), abs=1e-7)
        assert best.ratio <= load + 1e-9
        assert bound.loss <= best.loss + 1e-9


@pytest.mark.parametrize("method", ["selection", "periods", "on_change"])
def test_the_program_finds_the_frontier_at_every_load(method: str) -> None:
    columns = samples()
    agree(columns, definition(columns, method=method), LOADS)


def test_weights_sizes_and_kept_attributes_count() -> None:
    columns = samples(2)
    options = {
        "weights": {"value0": 3.0, "value3": 0.0}, "sizes": {"value1": 2}, "must_keep": ["value2"],
    }  # fmt: skip
    agree(columns, definition(columns, method="periods", **options), LOADS)


@pytest.mark.parametrize("sharing", ["pooled", "proportional"])
def test_streams_share_a_channel(sharing: str) -> None:
    columns = channel()
    stream = definition(columns, method="periods", stream_attribute="kind", inter_stream=sharing)
    agree(columns, stream, (0.5, 0.9))


def test_the_papers_ranking_is_never_better_than_the_program() -> None:
    columns = samples()
    stream = definition(columns, method="paper")
    statistics = build(columns, stream)
    plan = planner.plan(statistics, stream)
    losses = [program.solve(statistics, stream, load).loss for load in (0.3, 0.5, 0.8)]
    ranked = [1.0 - plan.predicted_quality(load) for load in (0.3, 0.5, 0.8)]
    assert all(best <= loss + 1e-9 for best, loss in zip(losses, ranked, strict=True))


def test_a_load_below_every_thinning_is_infeasible() -> None:
    columns = samples()
    stream = definition(columns)
    statistics = build(columns, stream)
    with pytest.raises(InfeasiblePlan, match="load must leave room"):
        program.solve(statistics, stream, 0.001)
    with pytest.raises(InvalidInput, match="load must lie in"):
        program.solve(statistics, stream, 1.5)
