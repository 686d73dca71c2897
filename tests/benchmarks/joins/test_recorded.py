"""Real streams: the plan keeps more of the output than random dropping."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.joins import recorded
from benchmarks.joins.reference import ScanJoin, sets_of
from planning.joins import simulate
from planning.joins.engine import WindowedJoin
from planning.joins.model import merge


def test_flights(shared_data: Path) -> None:
    pair = recorded.flights(shared_data).shortened(0.1)
    early, late = pair.halves()
    plan = pair.plan(early)
    for outcome in simulate.measure(plan, late[0], late[1], (0.1, 0.3)):
        assert outcome.quality > 1.8 * outcome.random_quality
        assert outcome.passed_fraction == pytest.approx(outcome.load, abs=0.01)


def test_wiki_keywords_by_set_size(shared_data: Path) -> None:
    pair = recorded.wiki_keywords(shared_data)
    early, late = pair.halves()
    plan = pair.plan(early, (0, 1, 2, 3))
    for outcome in simulate.measure(plan, late[0], late[1], (0.1, 0.5)):
        assert outcome.quality > 1.5 * outcome.random_quality


def test_the_inverted_index_joins_real_keyword_sets_completely(shared_data: Path) -> None:
    pair = recorded.wiki_keywords(shared_data)
    left, right = pair.left.slice(0, 1500), pair.right.slice(0, 500)
    stream, rows, batch = merge(left, right)
    join = WindowedJoin(pair.windows, pair.condition)
    assert join.access == "inverted"
    matches = join.push_merged(stream, rows, batch)
    scan = ScanJoin(pair.windows, pair.condition)
    wanted = {
        p
        for s, time, items in zip(stream, batch.time, sets_of(batch), strict=True)
        for p in scan.push(int(s), float(time), items)
    }
    assert set(zip(matches.left.tolist(), matches.right.tolist(), strict=True)) == wanted
    assert np.unique(matches.left).size > 10
