"""The drop operators at run time: fractions are kept, windows stay whole, nothing raises."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fit import examples
from planning.errors import ArtifactError, InvalidInput
from planning.fit import Plan, QueryNetwork
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


def test_streams_drop_only_what_all_their_arcs_drop():
    plan = plan_network(examples.figure_7())
    shedder = Shedder(plan, [0.2])
    assert shedder.offer({"stream": ["common"] * 100}).all()  # the upper branch keeps everything
    assert Shedder(plan, [0.5]).offer({"stream": ["i"] * 900}).sum() == pytest.approx(600, abs=1)


def test_loads_change_between_items():
    plan = plan_network(examples.figure_1())
    shedder = Shedder(plan)
    assert shedder.offer(["i1->a1"] * 50).all()
    shedder.set_load(0.5)
    assert shedder.setting == plan.at(0.5)
    shedder.set_load({"i1": 0.0, "i2": 10.0})
    assert shedder.setting == pytest.approx({"i2->a2": 0.95})
    assert shedder.counters.offered.sum() == 50


@pytest.mark.parametrize(
    ("load", "named"),
    [
        ({"i1": 1.0}, "missing: i2"),
        ({"i1": 1.0, "i2": 1.0, "i3": 1.0}, "unknown: i3"),
        ({"i1": 1.0, "i2": -1.0}, "input i2 must be finite and >= 0"),
        ({"i1": float("nan"), "i2": 1.0}, "input i1 must be finite and >= 0"),
        ({"i1": 1.0, "i2": float("inf")}, "input i2 must be finite and >= 0"),
        ({"i1": 1.0, "i2": None}, "rates of i1, i2 must be numbers"),
        ({"i1": 1.0, "i2": "many"}, "rates of i1, i2 must be numbers"),
        ([1.0, 2.0, 3.0], "rates must be 2 numbers"),
        (1.5, "load must lie in"),
        (float("nan"), "load must lie in"),
    ],
)
def test_a_bad_load_is_named_and_changes_nothing(load: Any, named: str):
    shedder = Shedder(plan_network(examples.figure_1()), {"i1": 1.0, "i2": 1.0})
    twin = Shedder(shedder.plan, {"i1": 1.0, "i2": 1.0})
    with pytest.raises(InvalidInput, match=named):
        shedder.set_load(load)
    assert (shedder.load, shedder.setting) == (twin.load, twin.setting)
    items = ["i1->a1", "i2"] * 100
    assert shedder.offer(items).tolist() == twin.offer(items).tolist()


def grown(factor: float, *more: dict[str, Any]) -> QueryNetwork:
    document = examples.figure_1().to_document()
    for node in document["nodes"]:
        node["capacity"] *= factor
    document["operators"] += more
    return QueryNetwork.from_document(document)


def test_a_new_plan_goes_on_where_the_old_one_stopped():
    """Offered in two halves around a change of plan that changes no drop, as in one."""
    items = ["i1->a1", "i2->a2", "i2", "nowhere"] * 333
    plan = plan_network(examples.figure_1())
    whole = Shedder(plan, [1.0, 1.0])
    expected = whole.offer(items)
    extra = {"id": "b3", "node": "B", "type": "map", "cost": 0, "selectivity": 1, "inputs": ["b1"]}
    for other in (plan_network(examples.figure_1()), plan_network(grown(1.0, extra))):
        old, new = Shedder(plan, [1.0, 1.0]), Shedder(other, [1.0, 1.0])
        first = old.offer(items[:501])
        new.offer(new.probe(100))  # what a plan was tried on is forgotten
        new.adopt(old)
        assert np.concatenate([first, new.offer(items[501:])]).tolist() == expected.tolist()
        assert new.counters.offered.sum() == len(items)
        assert new.counters.dropped.sum() == whole.counters.dropped.sum()
        assert new.counters.offered[-1] == 333


def test_counts_of_arcs_survive_plans_without_them():
    extra = {"id": "b3", "node": "B", "type": "map", "cost": 1, "selectivity": 1, "inputs": ["b1"]}
    with_b3, without = plan_network(grown(1.0, extra)), plan_network(examples.figure_1())
    first = Shedder(with_b3, 0.3)
    first.offer(["b1->b3"] * 40 + ["i1"] * 2)
    counted = dict(zip(first.counters.names, first.counters.dropped.tolist(), strict=True))
    second, third = Shedder(without, 0.3), Shedder(with_b3, 0.3)
    second.adopt(first)
    assert second.counters.offered.sum() == 42
    assert second.counters.names[-1] == ""
    third.adopt(second)
    assert third.counters.names == first.counters.names
    assert dict(zip(third.counters.names, third.counters.dropped.tolist(), strict=True)) == counted


def test_half_windows_go_on_under_a_new_plan(windowed: Any):
    plan = plan_network(windowed(5))
    whole, old, new = (Shedder(plan, [25.0]) for _ in range(3))
    expected = whole.offer(["x->m"] * 3000)
    first = old.offer(["x->m"] * 1237)
    new.adopt(old)
    assert np.concatenate([first, new.offer(["x->m"] * 1763)]).tolist() == expected.tolist()


def test_plans_that_contradict_themselves_are_refused():
    sound = plan_network(examples.figure_1()).to_document()
    tables = "must reach the optimum"
    fills = "must exactly fill"
    for where, values, problem in (
        (("network", "nodes", 0), {"capacity": 1e308}, tables),
        (("network", "outputs", 0), {"weight": 9.0}, tables),
        ((), {"reference": [0.0, 0.0]}, fills),
        ((), {"reference": [0.25, float("inf")]}, fills),
        ((), {"reference": [0.5, -0.5]}, fills),
        ((), {"reference": [0.5, 0.5]}, fills),
    ):
        document = copy.deepcopy(sound)
        place = document
        for step in where:
            place = place[step]
        place.update(values)
        with pytest.raises(ArtifactError, match=problem):
            Shedder(Plan.from_document(document), 0.5)


FRACTIONS = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(FRACTIONS, min_size=1, max_size=4),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.permutations(["a->f", "a->g", "a->h", "a"]),
)
def test_drops_of_a_stream_are_nested_over_its_arcs(
    drops: list[list[float]], sizes: list[int], order: list[str]
):
    """Whatever the batches, and although loads change between the arcs of an item.

    The ranks of items are those of a plain loop: an item falls where its rank lies below the drop.
    """
    shedder = Shedder(fan_out(), 1.0)
    kept: dict[str, list[bool]] = {name: [] for name in order}
    turn = 0
    fractions: dict[str, list[float]] = {name: [] for name in order}
    for size in sizes:
        for name in order:
            now = drops[turn % len(drops)]
            vars(shedder.plan)["fractions"] = lambda load, now=now: np.array([0.0, *now, 0, 0, 0])
            shedder.set_load(0.5)
            kept[name] += shedder.offer([name] * size).tolist()
            least = {"a->f": now[0], "a->g": now[1], "a->h": now[2], "a": min(now)}
            fractions[name] += [least[name]] * size
            turn += 1
    phase = Shedder(fan_out(), 1.0)._state.rank[shedder._code["a"]] / 2**32
    ranks = (phase + np.arange(sum(sizes)) * (2654435769 / 2**32)) % 1.0
    for name in order:
        clear = np.abs(ranks - fractions[name]) > 1e-6
        assert (np.array(kept[name]) == (ranks >= fractions[name]))[clear].all()


@pytest.mark.parametrize("drop", [0.013, 1 / 3, 0.5, 0.618, 0.93])
def test_fractions_hold_in_every_stretch(drop: float):
    shedder = Shedder(fan_out(), 1.0)
    vars(shedder.plan)["fractions"] = lambda load: np.array([0.0, drop, 0, 0, 0, 0, 0])
    shedder.set_load(0.5)
    ahead = np.cumsum(~shedder.offer(["a->f"] * 10_000) - drop)
    assert ahead.max() - ahead.min() < 4.1


def test_arcs_beside_a_window_stay_nested_with_it(windowed: Any):
    """What crosses a link of both: an arc that drops more drops all that the other does."""
    document = windowed(5, size=10).to_document()
    document["operators"].append({**document["operators"][0], "id": "n", "inputs": ["m"]})
    document["outputs"].append({"id": "o2", "stream": "n", "weight": 0.1})
    plan = plan_network(QueryNetwork.from_document(document))
    names = [arc.name for arc in plan.network.arcs]
    for less, more in (("m->g", "m->n"), ("m->n", "m->g")):
        shedder = Shedder(plan, 1.0)
        drops = np.array([{less: 0.3, more: 0.55}.get(name, 0.0) for name in names])
        vars(shedder.plan)["fractions"] = lambda load, drops=drops: drops
        shedder.set_load(0.5)
        kept = {name: shedder.offer([name] * 5000) for name in (less, more, "m")}
        assert not (kept[more] & ~kept[less]).any()
        assert kept[less].mean() == pytest.approx(0.7, abs=0.02)
        assert (kept["m"] == kept[less]).all()  # dropped where all arcs drop it


def test_a_new_arc_joins_its_stream_where_that_is():
    extra = {"id": "b3", "node": "B", "type": "map", "cost": 1, "selectivity": 1, "inputs": ["a1"]}
    old = Shedder(plan_network(examples.figure_1()), 0.3)
    old.offer(["a1->b1"] * 137)
    new = Shedder(plan_network(grown(1.0, extra)), 1.0)
    new.adopt(old)
    names = [arc.name for arc in new.plan.network.arcs]
    vars(new.plan)["fractions"] = lambda load: np.array([0.4 * n.startswith("a1") for n in names])
    new.set_load(0.5)
    assert new.offer(["a1->b1"] * 500).tolist() == new.offer(["a1->b3"] * 500).tolist()


def fan_out() -> Plan:
    def operator(name: str, source: str) -> dict[str, Any]:
        return {"id": name, "node": "A", "type": "map", "cost": 1, "selectivity": 1,
                "inputs": [source]}  # fmt: skip

    document = {
        "name": "fan",
        "nodes": [{"id": "A", "capacity": 1, "parent": None}],
        "inputs": [{"id": "i", "max_rate": 1}],
        "operators": [operator("a", "i"), *(operator(name, "a") for name in "fgh")],
        "outputs": [{"id": f"to {name}", "stream": name, "weight": 1} for name in "fgh"],
    }
    return plan_network(QueryNetwork.from_document(document))


def test_a_link_carries_what_the_plan_says():
    """Two arcs over one link, planned at half of it: together they send no more than each."""
    document = fan_out().network.to_document()
    document["nodes"] = [
        {"id": "A", "capacity": 10, "parent": None},
        {"id": "B", "capacity": 100, "parent": "A"},
    ]
    for operator in document["operators"][1:]:
        operator["node"] = "B"
    document["outputs"].append({"id": "raw", "stream": "a", "weight": 0.5})
    document["links"] = [{"from": "A", "to": "B", "capacity": 0.5}]
    plan = plan_network(QueryNetwork.from_document(document))
    shedder = Shedder(plan, [1.0], server="A")
    items = ["a->f", "a->g", "a->h"] * 1000
    assert shedder.offer(items).reshape(-1, 3).any(axis=1).sum() == 500
    assert shedder.offer(["a"] * 100).all()  # which the output gets whole


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
    assert shedder.counters.offered[-1] == 5
    for nothing in ([], None, {}, {"arc": []}, 7):
        assert shedder.offer(nothing).shape == (0,)
    assert isinstance(shedder.offer_one({}), bool)
    assert isinstance(shedder.offer_one(None), bool)
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
