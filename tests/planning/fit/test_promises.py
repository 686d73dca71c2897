"""What a plan promises holds at run time: through the code of a node, for any batches and rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.fit import recorded
from benchmarks.fit.networks import networks
from planning.arrays import FloatArray
from planning.artifacts import codec
from planning.errors import PlanningError
from planning.fit import Plan, QueryNetwork, Shedder, demo, simulate, statistics
from planning.fit.path import Part
from planning.fit.plan import METHODS
from planning.fit.planner import plan, plan_network
from planning.fit.printed import comparison
from planning.rehearsal import Rehearsal
from planning.runtime.throttle import Throttle

SIZES = (1, 100, 2_000, 20_000)


def linked() -> QueryNetwork:
    """Two operators behind a link that carries half of what their stream makes."""
    return QueryNetwork.from_document(
        {
            "name": "linked",
            "nodes": [
                {"id": "A", "capacity": 10.0, "parent": None},
                {"id": "B", "capacity": 100.0, "parent": "A"},
            ],
            "inputs": [{"id": "i", "max_rate": 100.0}],
            "operators": [
                demo.operator("a", "A", "map", 0.001, 1.0, "i"),
                demo.operator("f", "B", "map", 0.01, 1.0, "a"),
                demo.operator("g", "B", "map", 0.01, 1.0, "a"),
            ],
            "outputs": [
                {"id": "o1", "stream": "f", "weight": 1.0},
                {"id": "o2", "stream": "g", "weight": 1.0},
                {"id": "o3", "stream": "a", "weight": 0.5},
            ],
            "links": [{"from": "A", "to": "B", "capacity": 50.0}],
        }
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_link_planned_at_half_carries_half(size: int):
    """Arcs in batches of their own, side by side, and while the rates change in between."""
    made = plan_network(linked())
    items = 20_000 if size > 1 else 1_000
    apart, beside = Shedder(made, [100.0], server="A"), Shedder(made, [100.0], server="A")
    kept = {}
    for arc in ("a->f", "a->g"):
        kept[arc] = np.concatenate(
            [apart.offer([arc] * min(size, items - k)) for k in range(0, items, size)]
        )
    assert (kept["a->f"] | kept["a->g"]).sum() == pytest.approx(items / 2, abs=4)
    both = beside.offer(["a->f", "a->g"] * items).reshape(-1, 2)
    assert both.any(axis=1).sum() == pytest.approx(items / 2, abs=4)
    assert beside.offer(["a"] * 100).all()  # which an output gets whole
    changing = Shedder(made, [100.0], server="A")
    crossed = []
    for rate in (100.0, 150.0, 70.0, 400.0):
        changing.set_load([rate])
        f = changing.offer(["a->f"] * 1_000)
        changing.set_load([1.01 * rate])
        g = changing.offer(["a->g"] * 1_000)
        crossed.append((f | g).mean() * rate)
    assert max(crossed) <= 50.0 * 1.01


def test_links_count_in_what_is_measured():
    network, rates = linked(), np.array([[100.0], [40.0]])
    done = simulate.measure(network, rates, np.zeros((2, len(network.arcs))))
    assert done.loads.tolist() == pytest.approx(np.array([[0.01, 0.01, 2.0], [0.004, 0.008, 0.8]]))
    assert done.throughput.tolist() == pytest.approx([150.0, 100.0])  # half of f and g is lost
    assert simulate.passed_fraction(network, rates, done) == pytest.approx(0.9 / 1.4)
    compared = comparison.compare(network, rates, methods=comparison.METHODS[:1])
    assert compared.overloaded.tolist() == [1.0, 0.0]
    assert compared.share_of_optimum("exact") == 1.0
    assert simulate.scale_to(network, rates, 0.5).mean() == pytest.approx(100.0)


def spoilt(made: Plan, change: Any) -> Plan:
    parts = tuple(Part(part.network, change(part.table)) for part in made.parts)
    return replace(made, parts=parts)


def fields(**changes: Any) -> Any:
    def change(table: Any) -> Any:
        return table._replace(**{k: v(getattr(table, k)) for k, v in changes.items()})

    return change


def rows(**changes: Any) -> Any:
    def change(table: Any) -> Any:
        index = {k: v(getattr(table.index, k)) for k, v in changes.items() if k != "drops"}
        drops = changes.get("drops", lambda array: array)(table.drops)
        return replace(table, index=table.index._replace(**index), drops=drops)

    return change


def put(array: Any, where: int, value: Any) -> Any:
    array = array.copy()
    array.flat[where] = value
    return array


SPOILT = [
    ("solver", fields(child=lambda a: put(a, 0, 2**63 - 1))),
    ("solver", fields(child=lambda a: put(a, 0, 2**62))),
    ("solver", fields(plan=lambda a: np.where(a >= 0, -3, a))),
    ("solver", fields(plan=lambda a: a[:0], child=lambda a: a[:0])),
    ("solver", fields(fractions=lambda a: a * np.nan)),
    ("solver", fields(fractions=lambda a: a * 0 - 1)),
    ("c_fit", rows(following=lambda a: np.arange(len(a)))),
    ("c_fit", rows(first=lambda a: np.zeros_like(a))),
    ("c_fit", rows(orthant=lambda a: a[:1])),
    ("c_fit", rows(drops=lambda a: a * np.nan)),
    ("c_fit", rows(drops=lambda a: a * 0 - 5)),
    ("c_fit", rows(drops=lambda a: a * 0 + 7)),
    ("regions", fields(value=lambda a: a[:, :0], rule=lambda a: a[:0], starts=lambda a: a[:1])),
    ("regions", fields(rule=lambda a: a * np.nan)),
    ("regions", fields(rule=lambda a: a * 0 + np.inf)),
    ("regions", fields(facets=lambda a: a * np.nan)),
    ("regions", fields(starts=lambda a: a * 0 + 2**62)),
]


@pytest.mark.parametrize(("method", "change"), SPOILT)
def test_signed_tables_that_are_wrong_are_refused_or_harmless(method: str, change: Any):
    """Whatever they hold: refused before they are followed, or every drop is a fraction."""
    assert method in METHODS
    sound = plan_network(demo.figure_1(), method=method)
    try:
        read = codec.decode(codec.encode_binary(spoilt(sound, change), "fit"), "binary")[1]
        shedder = Shedder(read, 0.1)
    except PlanningError:
        return
    shedder.offer({"input": ["i1", "i2"] * 100})
    drops = read.at_many(np.random.default_rng(1).random((500, 2)) * 5)
    assert ((drops >= 0) & (drops <= 1)).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("reference", [0.0, -1.0, float("nan"), float("inf"), 1e308])
def test_a_reference_that_is_no_load_is_refused(reference: float):
    sound = plan_network(demo.figure_1())
    wrong = replace(sound, reference=np.full(len(sound.reference), reference))
    with pytest.raises(PlanningError):
        Shedder(codec.decode(codec.encode_binary(wrong, "fit"), "binary")[1], 0.1)


def generated(network: QueryNetwork, seed: int, periods: int) -> FloatArray:
    """Rates that jump, jitter and rest."""
    rng = np.random.default_rng(seed)
    rows = []
    while len(rows) < periods:
        kind = rng.choice(["flat", "jitter", "low", "jumps"])
        base = rng.uniform(0.05, 1.0, len(network.inputs))
        for _ in range(int(rng.integers(1, 6))):
            factor = {
                "flat": 1.0,
                "jitter": rng.uniform(0.98, 1.02, len(base)),
                "low": 0.05,
                "jumps": rng.uniform(0.1, 1.5, len(base)),
            }[str(kind)]
            rows.append(base * factor * network.max_rates)
    return np.array(rows[:periods])


STREAMS = ("demo", "generated", "recorded")


@pytest.mark.parametrize("stream", STREAMS)
def test_quality_does_not_depend_on_the_batch_size(stream: str, request):
    network = demo.network()
    rates = demo.rates(5, 60, 100 * np.array(list(demo.WEB_RATES.values())))
    if stream == "generated":
        network = demo.web()
        rates = generated(network, 3, 40)
    elif stream == "recorded":
        request.getfixturevalue("shared_data")
        network = demo.web()
        rates = recorded.web_rates(network, 60)[300:360]
    made = plan_network(network)
    for load in (0.3, 0.6, 0.9):
        outcome = simulate._outcome(made, network, rates, 10.0, load)
        assert set(outcome.by_size) == {str(size) for size in SIZES}
        assert outcome.spread <= 0.02


class Told(Throttle):
    """Rates that somebody else knows."""

    per_input = True
    uniform_share = 1.0

    def __init__(self) -> None:
        self.load: Any = {}


class Known(simulate._Items):
    """The items of one period, offered to a node that is told its rates."""

    def live(self, node: Rehearsal, made: Plan, size: int) -> FloatArray:
        self._node = lambda plan, first: node  # type: ignore[method-assign]
        return self.shed(made, size, self.count)


DAYS = 200


@pytest.mark.parametrize("part", range(4))
def test_capacities_hold_in_every_period_of_random_days(part: int):
    """Random networks with links, rates and batches; plans are swapped in between.

    Of the first n items an arc lets through its share to within four: so much more may a server
    or link have to do than planned.
    """
    for day, network in enumerate(networks(DAYS // 4, 100 + part, most=(3, 3, 7))):
        rng = np.random.default_rng([part, day])
        plans = [plan_network(network, method=method) for method in ("exact", "simplex")]
        rates = generated(network, day, 10)
        period_s = 300.0 / rates.sum(axis=1).mean()
        throttle = Told()
        node = Rehearsal(plans[0], "fit", throttle=throttle)
        drops = []
        for k in range(len(rates)):
            throttle.load = dict(zip(network.input_ids, rates[k].tolist(), strict=True))
            if rng.random() < 0.1:
                node.put(plans[k % 2])
            size = int(rng.choice([7, 50, 500, 20_000]))
            drops.append(Known(network, rates[k : k + 1], period_s).live(node, plans[0], size)[0])
        done = simulate.measure(network, rates, np.array(drops))
        slack = 4.0 * slack_per_item(network) / period_s
        assert (done.loads <= 1.0 + 1e-6 + slack).all()
        random = simulate.measure(network, rates, simulate.random_drops(network, rates))
        noise = simulate._noise(done, random)
        assert done.quality >= random.quality - 4.5 * noise - 1e-9


def slack_per_item(network: QueryNetwork) -> FloatArray:
    """Return the share of every capacity that one more item per second on all arcs takes."""
    nothing = np.zeros((1, len(network.arcs)))
    flows = network.evaluate_many(np.ones((1, len(network.inputs))), nothing)
    gain = max(1.0, float(flows.arcs.max()))
    servers = [sum(o.cost * len(o.inputs) for o in network.operators if o.node == n.id) / n.capacity
               for n in network.nodes]  # fmt: skip
    links = [len(network.arcs) / link.capacity for link in network.links]
    return np.array([*servers, *links]) * gain * len(network.arcs)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_must_measure_rates_loses_little(seed: int):
    """Against the same plan at the rates that are there: within 3 %, and rarely above capacity."""
    network = demo.network()
    means = 200 * np.array(list(demo.WEB_RATES.values()))
    rates = demo.rates(20 + seed, 60, means)
    made = plan_network(network)
    best = simulate.measure(network, rates, made.at_many(rates))
    done = simulate.measure(network, rates, simulate.shed_by(made, rates, 10.0, 50))
    random = simulate.measure(network, rates, simulate.random_drops(network, rates))
    last = simulate.measure(network, rates, made.at_many(np.vstack([rates[:1], rates[:-1]])))
    assert done.quality >= 0.97 * best.quality
    assert done.quality > random.quality
    assert (done.loads > 1.05).any(axis=1).mean() <= 0.1 < (last.loads > 1.05).any(axis=1).mean()


def test_head_room_of_a_plan_multiplies_rates(definition, samples):
    made = plan(statistics.build(samples, definition), definition)
    rates = 1.5 * made.reference
    roomy = replace(made, headroom=1.2)
    shedder = Shedder(roomy, rates)
    assert shedder.setting == pytest.approx(made.at(1.2 * rates), abs=1e-9)
    assert Shedder(roomy, 0.5).setting == Shedder(made, 0.5).setting  # a share is no prediction
    done = made.network.evaluate(rates, shedder.setting)
    assert max(done.loads[n.id] / n.capacity for n in made.network.nodes) <= 1 / 1.2 + 1e-6
