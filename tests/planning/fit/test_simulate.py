"""What a plan does to rates it has not seen, compared with the alternatives."""

from __future__ import annotations

import numpy as np
import pytest

from planning.errors import InvalidInput
from planning.fit import demo, simulate, statistics
from planning.fit.planner import plan, plan_network


def test_the_plan_beats_random_dropping_within_its_budget(definition, samples, clean_samples):
    made = plan(statistics.build(samples, definition), definition)
    fresh = clean_samples(definition, 1)
    for outcome in simulate.evaluate(made, fresh, definition, (0.3, 0.5, 0.7)):
        assert outcome.random_quality + 0.02 < outcome.quality <= 1
        assert outcome.passed_fraction <= outcome.load + 0.02
        assert outcome.quality <= outcome.predicted_quality + 0.02
        assert outcome.offered > 1000


def test_local_shedding_is_plan_2_of_table_1():
    network = demo.figure_1()
    rates = np.array([[1.0, 1.0]])
    drops = simulate.local_drops(network, rates)
    assert drops[0, network.arc_index["i1->a1"]] == pytest.approx(0.0)
    assert drops[0, network.arc_index["i2->a2"]] == pytest.approx(1.0)
    assert simulate.measure(network, rates, drops).throughput[0] == pytest.approx(1 / 3)


def test_an_overloaded_server_loses_the_excess_at_its_entrance():
    network = demo.figure_1()
    done = simulate.measure(network, np.array([[1.0, 1.0]]), np.zeros((1, len(network.arcs))))
    # Plan 0: A passes a third of each, B (load 4/3) three quarters of that.
    assert done.loads[0].tolist() == pytest.approx([3.0, 4 / 3])
    assert done.throughput[0] == pytest.approx(1 / 4 + 1 / 4)


def web_like_rates() -> np.ndarray:
    means = np.array([100 * demo.WEB_RATES[i] for i in demo.network().input_ids])
    return demo.rates(3, 60, means)


def test_stale_costs_show_in_the_quality():
    fresh_network = demo.network()
    stale = fresh_network.with_operators({"visits": {"cost": 0.001}})
    rates = web_like_rates()
    scaled = simulate.scale_to(fresh_network, rates, 0.4)
    right = plan_network(fresh_network)
    wrong = plan_network(stale)
    good = simulate.measure(fresh_network, scaled, simulate.shed_by(right, scaled, 10.0))
    bad = simulate.measure(fresh_network, scaled, simulate.shed_by(wrong, scaled, 10.0))
    assert bad.quality < good.quality
    assert bad.loads.max() > 1.2


def test_no_capacity_at_all_is_no_load_to_try():
    with pytest.raises(InvalidInput, match=r"load must lie in \(0, 1\], got 0"):
        simulate.scale_to(demo.network(), web_like_rates(), 0.0)
