"""The match histogram equals a count over all pairs, and blocks of it add up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.joins.reference import matches, sets_of
from planning.errors import InvalidInput, StatisticsError
from planning.joins import demo, statistics
from planning.joins.layout import Layout
from planning.joins.model import Condition, Tuples, Windows
from planning.joins.statistics import Statistics, histogram


def by_pairs(
    left: Tuples, right: Tuples, windows: Windows, condition: Condition, types: int
) -> tuple[np.ndarray, np.ndarray]:
    """Count hits and comparisons pair by pair, straight from the definitions."""
    hits = np.zeros((2, windows.most, types, types), dtype=int)
    made = np.zeros((2, windows.most, types), dtype=int)
    b, origin = windows.basic_window_s, windows.origin_s
    left_sets, right_sets = sets_of(left), sets_of(right)
    for a in range(len(left)):
        for c in range(len(right)):
            first = left.time[a] <= right.time[c]  # at equal times stream 0 comes first
            i = 0 if first else 1
            stored, probing = (left, a), (right, c)
            if not first:
                stored, probing = probing, stored
            early, late = stored[0].time[stored[1]], probing[0].time[probing[1]]
            if late - early > windows.window_s[i]:
                continue
            j = math.floor((late - origin) / b) - math.floor((early - origin) / b)
            z, y = probing[0].kind[probing[1]], stored[0].kind[stored[1]]
            made[i, j, z] += 1
            hits[i, j, z, y] += matches(condition, left_sets[a], right_sets[c])
    return hits, made


@pytest.mark.parametrize("seed", range(6))
def test_the_histogram_equals_a_count_over_pairs(
    seed: int, stream_of: Callable[..., Tuples]
) -> None:
    rng = np.random.default_rng(seed)
    left, right = (stream_of(rng, 120, 6, 4, 20, seed % 2 == 0) for _ in range(2))
    windows = Windows((3.5, 6.0), 1.0, 0.3)
    for condition in (Condition("overlap", 2), Condition("equality")):
        hits, made = histogram(left, right, windows, condition, 3)
        wanted_hits, wanted_made = by_pairs(left, right, windows, condition, 3)
        np.testing.assert_array_equal(made, wanted_made)
        np.testing.assert_array_equal(hits, wanted_hits)


def test_blocks_with_context_add_up(stream_of: Callable[..., Tuples]) -> None:
    rng = np.random.default_rng(2)
    left, right = (stream_of(rng, 400, 8, 4, 50, True) for _ in range(2))
    windows, condition = Windows((3.0, 5.0), 1.0), Condition("overlap", 2)
    whole = histogram(left, right, windows, condition, 3)
    total = [np.zeros_like(part) for part in whole]
    for begin in range(0, 60, 7):
        near = [
            part.take((part.time >= begin - 5.0) & (part.time < begin + 7))
            for part in (left, right)
        ]
        block = histogram(
            near[0], near[1], windows, condition, 3, count_from=begin, count_to=begin + 7
        )
        total = [a + b for a, b in zip(total, block, strict=True)]
    np.testing.assert_array_equal(total[0], whole[0])
    np.testing.assert_array_equal(total[1], whole[1])


def test_thinning_leaves_the_densities_alone(news: Callable[..., Any]) -> None:
    definition = news(type=None, utilities=())
    columns = {k: np.asarray(v) for k, v in demo.rows(0, definition).items()}
    columns = {k: v[np.isfinite(columns["time_s"])] for k, v in columns.items()}
    whole = statistics.build(columns, definition)
    keep = np.random.default_rng(0).random(len(columns["time_s"])) < 0.5
    half = statistics.build({k: v[keep] for k, v in columns.items()}, definition)
    assert half.comparisons.sum() / whole.comparisons.sum() == pytest.approx(0.25, rel=0.03)
    ratio = half.hits.sum() / half.comparisons.sum() * whole.comparisons.sum() / whole.hits.sum()
    assert ratio == pytest.approx(1.0, abs=0.1)


def test_statistics_survive_json(news: Callable[..., Any]) -> None:
    definition = news()
    columns = {k: np.asarray(v) for k, v in demo.rows(1, definition).items()}
    made = statistics.build(columns, definition)
    document = json.loads(json.dumps(made.to_document()))
    assert Statistics.from_document(document).to_document() == document


def test_rows_become_tuples(news: Callable[..., Any]) -> None:
    layout = Layout.of(news())
    rows: dict[str, Any] = {name: np.full(3, -1.0) for name in layout.items}
    rows |= {
        "agency": np.array(["second", "first", "third"]),
        "time_s": np.array([2.0, 1.0, 3.0]),
        "urgency": np.array(["report", "flash", "odd"]),
    }
    rows["keyword_3"] = np.array([5.0, np.nan, 9.0])
    rows["keyword_0"] = np.array([8.0, -1.0, 9.0])
    stream, batch = layout.read(rows)
    assert stream.tolist() == [1, 0, -1]
    assert batch.kind.tolist() == [2, 0, -1]
    assert sets_of(batch) == [{5: 1.0, 8: 1.0}, {}, {9: 1.0}]
    with pytest.raises(InvalidInput, match="columns keyword_3"):
        layout.read({k: v for k, v in rows.items() if k != "keyword_3"})


def test_one_silent_stream_gives_no_statistics(news: Callable[..., Any]) -> None:
    definition = news()
    columns = {k: np.asarray(v) for k, v in demo.rows(0, definition).items()}
    columns["agency"][:] = "first"
    with pytest.raises(StatisticsError, match="tuples of both streams, got 11996 and 0"):
        statistics.build(columns, definition)
