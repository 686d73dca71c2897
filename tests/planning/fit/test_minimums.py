"""Minimums and priorities of outputs: what they mean, by hand, and against HiGHS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.fit.reference import asking, best_by_parts, levels
from planning.errors import ArtifactError, InvalidInput
from planning.fit import Plan, QueryNetwork
from planning.fit.planner import plan_network, warnings
from planning.fit.program import optimum
from planning.guarantees import Guarantee, Guarantees

SOLVERS = ("simplex", "glop", "highs")


def two(capacity: float, *outputs: dict[str, Any], **more: Any) -> QueryNetwork:
    """Return one server with two maps of cost 1, each from an input to an output."""
    return QueryNetwork.from_document(
        {
            "name": "two",
            "nodes": [{"id": "A", "capacity": capacity, "parent": None}],
            "inputs": [{"id": f"i{k}", "max_rate": 1.0} for k in (1, 2)],
            "operators": [
                {"id": f"m{k}", "node": "A", "type": "map", "cost": 1, "selectivity": 1,
                 "inputs": [f"i{k}"]}
                for k in (1, 2)
            ],
            "outputs": [
                {"id": f"o{k}", "stream": f"m{k}", "weight": 1, **output}
                for k, output in enumerate(outputs, 1)
            ],
            **more,
        }
    )  # fmt: skip


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("capacity", "first", "second", "rates", "reached"),
    [
        # 1.2 tuples/s are asked for and 1 can be had: both lack a sixth of what they ask for
        (1, {"minimum": 0.8}, {"minimum": 0.4}, (1, 1), (2 / 3, 1 / 3)),
        (1, {"minimum": 0.8, "weight": 9}, {"minimum": 0.4}, (1, 1), (2 / 3, 1 / 3)),
        # the higher priority lacks nothing
        (1, {"minimum": 0.8}, {"minimum": 0.4, "priority": 1}, (1, 1), (0.6, 0.4)),
        (1, {"minimum": 0.8, "priority": 1}, {"minimum": 0.4}, (1, 1), (0.8, 0.2)),
        # a minimum comes before the throughput of a higher priority
        (1, {"priority": 1}, {"minimum": 0.4}, (1, 1), (0.6, 0.4)),
        # what is left goes to the higher priority, then to the higher weight
        (1.5, {"minimum": 0.8}, {"minimum": 0.4, "weight": 2}, (1, 1), (0.8, 0.7)),
        (1.5, {"minimum": 0.8, "priority": 1}, {"minimum": 0.4, "weight": 2}, (1, 1), (1, 0.5)),
        # an input that brings less than the minimum is not shed, and is not missed
        (1, {"minimum": 0.8}, {"minimum": 0.4, "weight": 2}, (0.2, 1), (0.2, 0.8)),
        # 0.6 of 0.8 and 0.6 of 0.6: the shortfalls are parts of what is asked for
        (0.5, {"minimum": 0.8}, {"minimum": 0.6}, (0.6, 1), (0.6 - 0.4, 0.3)),
    ],
)  # fmt: skip
def test_shortfalls_by_hand(solver, capacity, first, second, rates, reached):
    network = two(capacity, first, second)
    found = optimum(network, rates, solver)
    assert list(found.outputs.values()) == pytest.approx(list(reached), abs=1e-8)
    plan = plan_network(network, method="regions")
    assert list(network.evaluate(rates, plan.at(rates)).outputs.values()) == pytest.approx(
        list(reached), abs=1e-9
    )


def test_a_minimum_that_one_part_cannot_keep_does_not_lower_another():
    """Servers that share nothing are planned on their own."""
    document = two(1, {"minimum": 0.9}, {"minimum": 0.9}).to_document()
    document["nodes"].append({"id": "B", "capacity": 0.3, "parent": None})
    document["nodes"][0]["capacity"] = 0.95
    document["operators"][1]["node"] = "B"
    network = QueryNetwork.from_document(document)
    plan = plan_network(network)
    done = network.evaluate([1, 1], plan.at([1, 1]))
    assert done.outputs == pytest.approx({"o1": 0.95, "o2": 0.3})


@pytest.mark.parametrize("method", ["exact", "simplex"])
def test_random_networks_agree_with_highs(method: str):
    lacking = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        network = asking(rng, inputs=int(rng.integers(1, 5)), nodes=int(rng.integers(1, 4)),
                         operators=int(rng.integers(3, 12)), tree=bool(seed % 2),
                         links=seed % 3 == 0)  # fmt: skip
        plan = plan_network(network, method=method)
        rates = network.max_rates * rng.random((5, len(network.inputs))) ** 0.5
        done = network.evaluate_many(rates, plan.at_many(rates))
        assert done.use(network).max() <= 1.0 + 3e-8
        for k, vector in enumerate(rates):
            reached = dict(zip((o.id for o in network.outputs), done.outputs[k], strict=True))
            for part, shortfalls, throughputs in best_by_parts(network, vector):
                own = vector[[network.input_ids.index(i) for i in part.input_ids]]
                mine = levels(part, own, {o.id: reached[o.id] for o in part.outputs})
                scale = max(sum(throughputs.values()), 1e-6)
                lacking += max(shortfalls.values(), default=0.0) > 1e-3
                for found, best in zip(mine, (shortfalls, throughputs), strict=True):
                    assert set(found) == set(best)
                for priority, least in shortfalls.items():
                    assert mine[0][priority] == pytest.approx(least, abs=1e-6)
                for priority, most in throughputs.items():
                    assert mine[1][priority] == pytest.approx(most, abs=1e-6 * scale)
    assert lacking > 40


def test_the_plan_says_from_which_load_each_minimum_holds():
    """At load z both inputs bring 0.5 / z: 0.6 and 0.4 fill the server at z = 5/6."""
    plan = plan_network(two(1, {"minimum": 0.8}, {"minimum": 0.4}))
    assert isinstance(plan, Guarantees)
    assert plan.holds_from == pytest.approx((5 / 6, 5 / 6), abs=1e-9)
    assert str(plan.guarantees[0]) == "output o1: minimum 0.8 down to load 0.833"
    assert plan.kept(0.5) == pytest.approx([2 / 3, 1 / 3])
    assert plan.kept(1.0) == pytest.approx([0.8, 0.5])  # 0.5 of 0.8: the input brings no more
    assert plan.kept({"i1": 0.1, "i2": 0.0}) == pytest.approx([0.8, 0.4])
    first = plan_network(two(1, {"minimum": 0.8}, {"minimum": 0.4, "priority": 3}))
    assert first.guarantees == (
        Guarantee("output o2", "minimum", 0.4, 3, 0.0),
        Guarantee("output o1", "minimum", 0.8, 0, first.holds_from[1]),
    )
    assert first.holds_from[1] == pytest.approx(5 / 6)
    assert plan_network(two(1, {}, {})).guarantees == ()


@pytest.mark.parametrize("seed", range(12))
def test_minimums_hold_down_to_their_load_and_not_below(seed: int):
    rng = np.random.default_rng([19, seed])
    network = asking(rng, 0.6, inputs=3, nodes=2, operators=7)
    plan = plan_network(network, reference=network.max_rates * rng.uniform(0.2, 0.6, 3))
    for k, guarantee in enumerate(plan.guarantees):
        low = guarantee.holds_from
        assert low <= 1.0
        for load in rng.uniform(max(low, 1e-3), 1.0, 20):
            assert plan.kept(max(load, low))[k] >= guarantee.value * (1.0 - 1e-7)
        if low > 0.0:
            assert plan.kept(low * (1.0 - 1e-4))[k] < guarantee.value * (1.0 - 1e-7)


def test_they_travel_with_the_plan_and_are_absent_without_minimums():
    plan = plan_network(two(1, {"minimum": 0.8}, {"minimum": 0.4, "priority": 3}))
    for again in (Plan.from_bytes(plan.to_bytes()), Plan.from_document(plan.to_document())):
        assert again.guarantees == plan.guarantees
    plain = plan_network(two(1, {}, {"priority": 3}))
    assert plain.holds_from == ()
    assert "holds_from" not in plain.to_document()
    document = plan.to_document()
    for wrong in ([0.5], [0.5, -0.1], [0.5, 1.5], [0.5, float("nan")], [0.5, 0.5, 0.5]):
        with pytest.raises(ArtifactError, match="its 2 minimums hold"):
            Plan.from_document({**document, "holds_from": wrong})
    del document["holds_from"]  # a plan from before they were stated
    assert Plan.from_document(document).guarantees == ()


def test_what_nothing_reaches_is_a_mistake_in_the_definition(define: Any):
    with pytest.raises(InvalidInput, match=r"at most 1 tuples/s.*by 0\.5, or raise max_rate"):
        define(two(3, {"minimum": 1.5}, {}))
    with pytest.raises(InvalidInput, match=r"output o2 .*at most 0\.5.*0\.1, or raise the capac"):
        define(two(0.5, {"minimum": 0.5}, {"minimum": 0.6, "weight": 0}))
    with pytest.raises(InvalidInput, match="method must be exact, regions or simplex"):
        define(two(1, {"minimum": 0.5}, {}), method="c_fit")
    define(two(0.5, {"minimum": 0.5}, {"minimum": 0.5}, min_keep=0.1))  # priorities decide


def test_what_is_lacking_at_the_gates_loads_is_a_warning(define: Any):
    network = two(1, {"minimum": 0.8}, {"minimum": 0.4, "priority": 3})
    found = warnings(plan_network(network), None, define(network))  # type: ignore[arg-type]
    assert found == [
        "output o1: minimum 0.8 down to load 0.833; at load 0.3 it lacks 0.2 of 0.8 tuples/s: "
        "lower it, raise its priority above 0, or give server A more capacity"
    ]
    easy = two(1, {"minimum": 0.5}, {"minimum": 0.4})
    assert warnings(plan_network(easy), None, define(easy)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(15))
def test_drops_that_are_called_nested_shrink_as_the_load_grows(seed: int):
    """With minimums the optimum may bend twice where its drops alone look straight."""
    rng = np.random.default_rng([17, 402] if seed == 0 else [20, seed])
    sizes = {"inputs": 6, "nodes": 5, "operators": 16}
    least = {"inputs": 1, "nodes": 1, "operators": 3}
    drawn = {name: int(rng.integers(least[name], most)) for name, most in sizes.items()}
    network = asking(rng, 0.6, **drawn, links=False)
    mean = network.max_rates * rng.uniform(0.2, 0.6, len(network.inputs))
    plan = plan_network(network, reference=mean)
    drops = plan.at_many(plan.reference / np.linspace(0.02, 1.0, 400)[:, None])
    rises = np.diff(drops, axis=0).max(axis=0)
    rising = {arc.name for arc, rise in zip(network.arcs, rises, strict=True) if rise > 1e-7}
    assert rising <= set(plan.not_nested)
