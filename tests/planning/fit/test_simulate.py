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


def test_rates_are_a_load_too(definition, samples, clean_samples):
    """Rates in the observed direction give what the corresponding fraction gives."""
    made = plan(statistics.build(samples, definition), definition)
    fresh = clean_samples(definition, 1)
    network = statistics.build(fresh, definition).network
    observed = statistics.period_counts(fresh, network) / definition.parameters.period_s
    mean = simulate.scale_to(network, observed, 0.5).mean(axis=0)
    rates = dict(zip(network.input_ids, mean.tolist(), strict=True))
    by_rates, by_fraction, unloaded = simulate.evaluate(
        made, fresh, definition, (rates, 0.5, dict.fromkeys(rates, 0.0))
    )
    assert by_rates.load == pytest.approx(0.5)
    assert by_rates.quality == pytest.approx(by_fraction.quality, abs=1e-3)
    assert by_rates.random_quality == pytest.approx(by_fraction.random_quality)
    assert by_rates.predicted_quality == pytest.approx(by_fraction.predicted_quality, abs=1e-3)
    assert (unloaded.load, unloaded.quality, unloaded.offered) == (1.0, 1.0, 0)


def test_every_input_is_scaled_to_its_rate():
    network = demo.network()
    observed = web_like_rates()
    observed[:, 2] = 0.0
    wanted = {name: 10.0 * (k + 1) for k, name in enumerate(network.input_ids)}
    scaled = simulate.scale_to(network, observed, wanted)
    assert scaled.mean(axis=0) == pytest.approx(list(wanted.values()))
    assert (scaled[:, 2] == wanted[network.input_ids[2]]).all()
    assert scaled[:, 0] / scaled[0, 0] == pytest.approx(observed[:, 0] / observed[0, 0])
    with pytest.raises(InvalidInput, match="missing"):
        simulate.scale_to(network, observed, {network.input_ids[0]: 1.0})


def test_no_capacity_at_all_is_no_load_to_try():
    with pytest.raises(InvalidInput, match=r"load must lie in \(0, 1\], got 0"):
        simulate.scale_to(demo.network(), web_like_rates(), 0.0)
