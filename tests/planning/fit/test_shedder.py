"""The drop operators at run time: fractions are kept, windows stay whole, nothing raises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fit import examples
from planning.errors import InvalidInput
from planning.fit import QueryNetwork
from planning.fit.planner import plan_network
from planning.fit.shedder import Shedder


def test_fractions_are_kept_to_a_tuple():
    plan = plan_network(examples.figure_1())
    shedder = Shedder(plan, [1.0, 1.0])
    assert shedder.setting == pytest.approx({"i1->a1": 0.8, "i2->a2": 0.6})
    keep = shedder.offer({"arc": ["i1->a1", "i2->a2"] * 5000})
    assert abs(keep[0::2].sum() - 1000) <= 1
    assert abs(keep[1::2].sum() - 2000) <= 1
    counters = shedder.counters
    assert counters.offered.sum() == 10_000
    assert counters.dropped.sum() == 10_000 - keep.sum()
    assert counters.passed_fraction == pytest.approx(0.3, abs=0.001)


def test_an_unknown_server_is_named():
    plan = plan_network(examples.figure_1())
    with pytest.raises(InvalidInput, match=r"server must be one of .*, got egde"):
        Shedder(plan, server="egde")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=20), st.integers(1, 39))
def test_counts_pass_as_single_tuples_would(counts: list[int], tenths: int):
    plan = plan_network(examples.figure_1())
    one, many = Shedder(plan, [tenths / 10, 1.0]), Shedder(plan, [tenths / 10, 1.0])
    for count in counts:
        kept = int(one.offer(["i2->a2"] * count).sum())
        assert many.pass_counts({"i2->a2": count}) == {"i2->a2": kept}


def test_streams_drop_only_what_all_their_arcs_drop():
    plan = plan_network(examples.figure_7())
    shedder = Shedder(plan, [0.2])
    assert shedder.offer({"stream": ["common"] * 100}).all()  # the upper branch keeps everything
    assert Shedder(plan, [0.5]).offer({"stream": ["i"] * 900}).sum() == pytest.approx(600, abs=1)


def test_loads_and_plans_change_between_items():
    plan = plan_network(examples.figure_1())
    shedder = Shedder(plan)
    assert shedder.offer(["i1->a1"] * 50).all()
    shedder.set_load(0.5)
    assert shedder.setting == plan.at(0.5)
    shedder.set_load({"i1": 0.0, "i2": 10.0})
    assert shedder.setting == pytest.approx({"i2->a2": 0.95})
    larger = examples.figure_1().to_document()
    for node in larger["nodes"]:
        node["capacity"] *= 10.0
    shedder.swap(plan_network(QueryNetwork.from_document(larger)))
    assert shedder.setting == pytest.approx({"i2->a2": 0.5})
    assert shedder.counters.offered.sum() == 0


def test_a_server_applies_only_its_own_drops():
    network = examples.web()
    plan = plan_network(network)
    rates = network.max_rates * 0.9
    pages = Shedder(plan, rates, server="pages")
    edge = Shedder(plan, rates, server="edge_pages")
    assert set(pages.setting) | set(edge.setting) <= set(plan.at(rates))
    assert "shuttle->parse_shuttle" not in pages.setting
    assert all(arc.split("->")[0] in ("shuttle", "history", "parse_shuttle", "parse_history")
               for arc in edge.setting)  # fmt: skip


def test_unknown_items_pass_and_nothing_raises():
    shedder = Shedder(plan_network(examples.figure_1()), 0.3)
    assert shedder.offer({"arc": ["nowhere", None, 5]}).all()
    assert shedder.offer({"price": [1, 2]}).tolist() == [True, True]
    assert shedder.offer([]).shape == (0,)
    assert shedder.offer_one({"arc": "nowhere"})
    assert isinstance(shedder.offer_one("i1->a1"), bool)


@pytest.mark.parametrize("batch", [1, 5, 20])
def test_whole_windows_survive_and_the_rest_is_dropped(windowed: Any, batch: int):
    """Kept windows are complete, as many as planned, and cost 1 + (w/d - 1)/B tuples each."""
    network = windowed(batch)
    plan = plan_network(network)
    shedder = Shedder(plan, [25.0])
    drop = shedder.setting["x->m"]
    total = 10 * batch * 400
    keep = shedder.offer(["x->m"] * total)
    starts = np.arange(0, total - 40, 10)
    complete = np.array([keep[s : s + 40].all() for s in starts])
    planned = (1 - drop) * len(starts)
    assert complete.sum() >= planned - 4 * batch
    share = network.evaluate([25.0], plan.at([25.0])).loads["A"] / 25.0
    assert keep.mean() <= share + 0.01
