"""Critical regions: complete, exact, few."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fit import examples
from benchmarks.fit.networks import networks
from planning.fit import Plan, QueryNetwork
from planning.fit.path.regions import RegionLimit, enumerate_regions
from planning.fit.planner import plan_network
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex


def check(network: QueryNetwork, points: int, seed: int = 0) -> Plan:
    """Every random rate vector gets the optimum, and no server is overloaded."""
    rng = np.random.default_rng(seed)
    plan = plan_network(network, method="regions", max_regions=5000)
    rates = network.max_rates * rng.random((points, len(network.inputs))) ** rng.choice([0.5, 1, 4])
    done = network.evaluate_many(rates, plan.at_many(rates))
    program = shedding_program(network)
    dropped = WarmSimplex(program).dropped(rates / program.max_rates)
    best = rates / program.max_rates @ program.full_throughput - dropped @ program.lost_throughput
    np.testing.assert_allclose(done.throughput, best, rtol=1e-9, atol=1e-9)
    assert (done.loads <= network.capacities * (1 + 1e-9)).all()
    return plan


@pytest.mark.parametrize(("inputs", "regions"), [(2, 4), (4, 9), (8, 25)])
def test_the_papers_networks_have_few_regions(inputs: int, regions: int):
    assert check(examples.wide(inputs), 20_000).plan_count == regions


def test_random_networks_are_exact_everywhere():
    for seed, network in enumerate(networks(25, seed=6, most=(5, 4, 14))):
        check(network, 4000, seed)


def test_eight_inputs_on_ten_servers_are_complete():
    plan = check(examples.many_servers(8, 10), 20_000)
    assert plan.plan_count > 50


def test_figure_7_regions_by_hand():
    """Nothing is shed up to 1/8, the branch up to 1/3, then the input too."""
    regions = enumerate_regions(shedding_program(examples.figure_7()))
    borders = {round(-f[0] / f[1], 9) for f in regions.facets}
    assert regions.plan_count == 3
    assert borders == {round(1 / 8, 9), round(1 / 3, 9)}


def test_regions_do_not_overlap():
    program = shedding_program(examples.many_servers(5, 6))
    regions = enumerate_regions(program)
    points = np.random.default_rng(1).random((3000, 5))
    held = np.zeros(len(points))
    for k in range(regions.plan_count):
        facets = regions.facets[regions.starts[k] : regions.starts[k + 1]]
        held += (facets[:, :1] + facets[:, 1:] @ points.T > 1e-9).all(axis=0)
    assert (held == 1).all()


def test_the_limit_refuses_or_falls_back_to_the_simplex():
    network = examples.many_servers(8, 10)
    with pytest.raises(RegionLimit, match="at most 20"):
        plan_network(network, method="regions", max_regions=20)
    plan = plan_network(network, method="exact", max_regions=20)
    assert plan.method == "simplex"
    small = plan_network(network, method="exact", memory_bytes=1000)
    assert small.method == "simplex"
    assert small.nbytes == 0
    rates = network.max_rates * 0.8
    regions = plan_network(network, method="exact")
    assert regions.method == "regions"
    assert small.at(rates) == pytest.approx(regions.at(rates), abs=1e-9)


def test_rates_outside_the_planned_space_are_solved():
    network = examples.figure_1()
    plan = plan_network(network, method="regions")
    done = network.evaluate([7.0, 9.0], plan.at([7.0, 9.0]))
    assert done.throughput == pytest.approx(0.6)
    assert done.feasible


def test_a_search_in_vain_ends_early():
    """Thirty inputs on fifty servers: given up after a part of the regions that are allowed."""
    network = examples.many_servers(30, 50)
    program = shedding_program(network)
    with pytest.raises(RegionLimit, match=r"30 inputs has more after (\d{1,3});") as by_time:
        enumerate_regions(program, 1000)
    assert "in the time" in str(by_time.value)
    with pytest.raises(RegionLimit, match=r"fit in 1,000,000 bytes.* after \d{1,2};"):
        enumerate_regions(program, 5000, 1_000_000)
    assert plan_network(network, memory_bytes=1_000_000).method == "simplex"
