"""The paper's workload generator, and the demo stream made with it."""

import json

import numpy as np
import pytest
from upath import UPath

from planning import query_files
from planning.sifter import demo, planner, simulate, statistics
from planning.sifter.demo import Settings, Workload


@pytest.mark.parametrize("data", ["UNIF", "SKEW"])
def test_workload_keeps_to_table_one(data):
    workload = Workload(Settings(data=data, query="UNIF"), 3)
    points = workload.tuples(5000)
    assert ((points >= 0) & (points < 1)).all()
    sides = workload.queries.high - workload.queries.low
    assert sides.max() <= 0.01 + 1e-12
    assert workload.queries.count == 1000
    assert 1.0 <= workload.queries.slope.min()
    assert workload.queries.slope.max() <= 2.0
    assert (workload.high - workload.low).max() <= 0.25 + 1e-12
    again = Workload(Settings(data=data, query="UNIF"), 3)
    assert again.tuples(5000).tolist() == points.tolist()


@pytest.mark.parametrize(("border", "all_whole", "all_within"),
                         [("cut", False, True), ("inside", True, True), ("leave", False, False)])
def test_workload_borders(border, all_whole, all_within):
    whole, within = [], []
    for seed in range(10):
        workload = Workload(Settings("SKEW", "SKEW", border=border), seed)
        points = workload.tuples(1000)
        assert ((points >= 0) & (points < 1)).all()
        whole.append((workload.high - workload.low).min() >= 0.5 / 4 - 1e-12)
        spot = (workload.low[:, None] <= points) & (points <= workload.high[:, None])
        within.append(spot.all(axis=2).any(axis=0).all())
    assert all(whole) == all_whole
    assert all(within) == all_within


def test_demo_lands_the_same_batch_twice_and_spoils_some_rows(tmp_path, make):
    import pyarrow.parquet as parquet

    attributes = [
        {"name": "price", "domain": [0, 100]},
        {"name": "volume", "domain": [0, 1000]},
    ]
    definition = make(attributes=attributes)
    one = demo.land(UPath(tmp_path / "a"), 4, definition)
    two = demo.land(UPath(tmp_path / "b"), 4, definition)
    assert one.read_bytes() == two.read_bytes()
    table = parquet.read_table(str(one))
    price = table.column("price").to_numpy()
    assert len(price) == demo.ROWS
    assert 1 <= np.isnan(price).sum() <= 20
    assert 1 <= (price > 100).sum() <= 20


def test_demo_queries_can_be_read_and_pay_off(tmp_path, make):
    attributes = [
        {"name": "price", "domain": [0, 100]},
        {"name": "volume", "domain": [0, 1000]},
    ]
    path = tmp_path / "q.jsonl"
    asked = demo.queries(make(attributes=attributes), 300)
    path.write_text("\n".join(json.dumps(entry) for entry in asked), encoding="utf-8")
    entries = query_files.read(UPath(path))
    definition = make(entries, attributes=attributes)
    assert len(definition.queries.inline) == 300
    plan = planner.plan(statistics.build(demo.tuples(1, definition), definition), definition)
    clean = {k: v[np.isfinite(v)][:19_000] for k, v in demo.tuples(2, definition).items()}
    (outcome,) = simulate.evaluate(plan, clean, definition, (0.5,))
    assert outcome.loss_ratio < 0.8
