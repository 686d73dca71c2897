"""Guarantees on data that no plan has seen, through the data path of a node."""

import numpy as np
import pytest

from planning import rehearsal, streams
from planning.examples import demo_definition, demo_samples
from planning.query_files import written_queries
from planning.sifter import planner, queries, statistics
from planning.sifter.model import Space
from planning.sifter.simulate import Bench, evaluate

FLIGHTS = {
    "dep_delay_min": (-100, 1400),
    "arr_delay_min": (-100, 1400),
    "air_time_min": (0, 700),
    "distance_mi": (0, 5000),
}
ASKED = 0.9
SAMPLING = 4.0  # standard deviations


def promised(definition, seen, entries, parameters):
    """The definition with a tenant, and a guarantee for those of its queries that match most."""
    index = Bench(Space.of(definition).matrix(seen), queries.of(definition))
    for place in np.argsort(-index.matches)[60:120:10].tolist():
        entries[place] |= {"min_completeness": ASKED, "name": f"watched {place}", "tenant": "ours"}
    for place in np.argsort(-index.matches)[130:180].tolist():
        entries[place].pop("qos_slope", None)
        entries[place] |= {"qos": [[0, 0], [0.5, 0.9], [1, 1]], "tenant": "theirs"}
    document = definition.model_dump(mode="json", exclude_defaults=True)
    document["parameters"] = document.get("parameters", {}) | parameters
    document["gate"] = {"loads": [0.5, 0.7, 0.9]}
    document["queries"] = {"inline": entries, "tenants": {"theirs": {"max_loss": 0.4}}}
    return streams.parse(document, "t.yaml")


def within_sampling_error(definition, seen, fresh, loads):
    made = statistics.build(seen, definition)
    plan = planner.plan(made, definition)
    bench = Bench(Space.of(definition).matrix(fresh), queries.of(definition))
    kept = dict(zip((str(one.name) for one in plan.guarantees), range(99), strict=False))
    assert len(kept) >= 6
    labels = queries.labels([query.model_dump() for query in definition.queries.inline])
    checked = 0
    for load in loads:
        keep = rehearsal.shed(plan, "sifter", fresh, load)
        assert keep.mean() <= load + 1e-9
        measured = bench.completeness(keep, load)
        predicted = made.completeness(plan.at(load).drop_thresholds)
        for q, label in enumerate(labels):
            if label not in kept:
                continue
            assert predicted[q] == pytest.approx(plan.kept(load)[kept[label]], abs=1e-6)
            matches = np.array([bench.matches[q], made.sample_size * bench.matches[q] / len(keep)])
            room = SAMPLING * np.sqrt(max(predicted[q] * (1 - predicted[q]), 0.01) / matches).sum()
            assert measured[q] >= predicted[q] - room, (load, label)
            guarantee = plan.guarantees[kept[label]]
            if load >= guarantee.holds_from:
                assert measured[q] >= guarantee.value - room, (load, label)
                checked += 1
        (outcome,) = evaluate(plan, fresh, definition, [load])
        assert abs(outcome.quality - outcome.predicted_quality) <= 4 * outcome.error + 0.02
    assert checked >= 5, [str(one) for one in plan.guarantees]


def test_guarantees_hold_on_fresh_flights(shared_data):
    import pyarrow.parquet as parquet

    table = parquet.read_table(shared_data / "sifter" / "nyc_flights_2013.parquet")
    columns = {name: table.column(name).to_numpy().astype(float) for name in FLIGHTS}
    order = np.random.default_rng(0).permutation(table.num_rows)
    seen, fresh = ({n: c[part] for n, c in columns.items()} for part in np.split(order, [200_000]))
    rng = np.random.default_rng(1)
    late = np.maximum(columns["dep_delay_min"], 0.0) + 1.0
    entries = []
    for place in rng.choice(len(late), 300, p=late / late.sum()):
        ranges = {}
        for name in rng.choice(list(FLIGHTS), 2, replace=False):
            low, high = FLIGHTS[name]
            half = rng.uniform(0.02, 0.1) * (high - low)
            middle = columns[name][place]
            ranges[str(name)] = [max(low, middle - half), min(high, middle + half)]
        entries.append({"ranges": ranges})
    definition = streams.parse(
        {
            "stream": "flights", "family": "sifter", "queries": {"inline": entries},
            "attributes": [{"name": n, "type": "int", "domain": d} for n, d in FLIGHTS.items()],
        },
        "flights.yaml",
    )  # fmt: skip
    asked = promised(definition, seen, entries, {"fairness_threshold": 0.9, "regions": 48})
    within_sampling_error(asked, seen, fresh, (0.5, 0.7, 0.9))


def test_guarantees_hold_on_fresh_demo_samples():
    definition = demo_definition("sifter")
    seen, fresh = demo_samples("sifter"), demo_samples("sifter", batch=1)
    entries = written_queries(definition)
    asked = promised(definition, seen, entries, {"fairness_threshold": 0.9})
    within_sampling_error(asked, seen, fresh, (0.5, 0.7, 0.9))
