"""Keyed decisions: equal in every process and at every replay, nested, and unbiased."""

import hashlib
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_plan, demo_samples
from planning.runtime import PlanClient, RunningShedder, SharedBudget

ITEMS = 1_000_000
SCRIPT = """
import hashlib, sys
import numpy as np
from planning.artifacts import TrustedKeys
from planning.runtime import PlanClient, RunningShedder
folder, size, items = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = PlanClient(f"{folder}/plans", "ticks", trusted=TrustedKeys.load(f"{folder}/keys"))
client.poll()
rng = np.random.default_rng(7)
columns = {"price": rng.random(items) * 100, "volume": rng.random(items) * 1000,
           "order": rng.integers(0, 2**60, items)}
for replay in range(2):
    shedder = RunningShedder(client, load=0.37, key="order")
    keep = np.concatenate([
        shedder.offer({name: column[i : i + size] for name, column in columns.items()})
        for i in range(0, items, size)])
    print(hashlib.sha256(keep.tobytes()).hexdigest(), shedder.counters.errors, int(keep.sum()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keyed")
    signer = SigningKey.load_or_create(folder / "keys")
    store = Store(folder / "plans", TrustedKeys.of(signer))
    for stream, family in (("ticks", "sifter"), ("requests", "fit"), ("news", "joins")):
        for _ in range(2):  # the version does not salt the hash
            store.publish(
                stream, demo_plan(family), family=family, signer=signer,
                created_at="2026-01-02T03:04:05Z",
            )  # fmt: skip
    return folder


def running(folder, stream, **options):
    client = PlanClient(folder / "plans", stream, trusted=TrustedKeys.load(folder / "keys"))
    assert client.poll(), client.last_error
    return RunningShedder(client, **options)


def ticks(size, seed=7):
    rng = np.random.default_rng(seed)
    return {
        "price": rng.random(size) * 100,
        "volume": rng.random(size) * 1000,
        "order": rng.integers(0, 2**60, size),
    }


def test_a_million_items_in_three_processes_and_two_replays(folder):
    runs = set()
    for size in ("999", "20000", "1000000"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(folder), size, str(ITEMS)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        runs.update(done.stdout.split("\n")[:2])
    assert len(runs) == 1
    digest, errors, kept = runs.pop().split()
    assert (len(digest), errors) == (len(hashlib.sha256().hexdigest()), "0")
    assert 0.1 * ITEMS < int(kept) < 0.9 * ITEMS


def test_what_one_load_keeps_a_higher_one_keeps_too(folder):
    batch = ticks(20_000)
    masks = [
        running(folder, "ticks", load=z, key="order").offer(batch) for z in np.linspace(0, 1, 21)
    ]
    for lower, higher in zip(masks, masks[1:], strict=False):
        assert not (lower & ~higher).any()
    assert not masks[0].any()
    assert masks[-1].all()


@pytest.mark.parametrize("stream", ["ticks", "requests"])
def test_salts_leave_no_bias(folder, stream):
    """Over 200 salts, every item's mean weight when kept is 1, within 3 standard errors."""
    if stream == "ticks":
        batch, key = ticks(400), "order"
    else:
        inputs = demo_plan("fit").network.input_ids
        batch = {"input": np.resize(inputs, 400), "id": np.arange(400)}
        key = "id"
    totals = []
    for salt in range(200):
        shedder = running(folder, stream, load=0.5, key=key, salt=salt)
        keep, weight = shedder.offer_weighted(batch)
        assert (weight[~keep] == 0).all()
        totals.append(weight)
    weights = np.array(totals)
    estimable = weights.max(axis=0) > 0
    counts = weights[:, estimable].sum(axis=1)
    error = counts.std(ddof=1) / np.sqrt(len(counts))
    assert abs(counts.mean() - estimable.sum()) <= 3 * error
    if stream == "ticks":  # regions with d = 1 keep nothing, and the plan names them
        plan = demo_plan("sifter")
        gone = plan.regions_without_estimate(0.5)
        region = plan.partition.lookup(np.column_stack([batch["price"], batch["volume"]]))
        assert (estimable == ~np.isin(region, gone)).all()


def test_keys_of_any_form_and_several_columns(folder):
    batch = ticks(5000)
    texts = [f"order-{number}" for number in batch["order"]]
    forms = [np.array(texts), texts, pa.array(texts), pa.array(texts).dictionary_encode()]
    masks = [
        running(folder, "ticks", load=0.5, key="order").offer({**batch, "order": form})
        for form in forms
    ]
    for mask in masks[1:]:
        np.testing.assert_array_equal(mask, masks[0])
    both = running(folder, "ticks", load=0.5, key=("order", "venue"))
    twice = {**batch, "venue": np.resize(["a", "b"], 5000)}
    assert (both.offer(twice) != running(folder, "ticks", load=0.5, key="order").offer(batch)).any()
    missing = running(folder, "ticks", load=0.5, key="ordre")
    missing.offer(batch)
    assert missing.status()["refused_batch"].startswith("columns ordre are missing")


def test_a_joins_key_fixes_the_windows_a_tuple_is_compared_with(folder):
    samples = demo_samples("joins")
    batch = {name: column[:2000] for name, column in samples.items()}
    whole = running(folder, "news", load=0.4, key="time_s").offer(batch)
    split = running(folder, "news", load=0.4, key="time_s")
    parts = [
        split.offer({name: column[i : i + 50] for name, column in batch.items()})
        for i in range(0, 2000, 50)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_before_the_first_plan_keys_decide_too(tmp_path):
    signer = SigningKey.load_or_create(tmp_path / "keys")
    client = PlanClient(Store(tmp_path / "plans", TrustedKeys.of(signer)), "ticks", node="n")
    batch = ticks(10_000)
    one = RunningShedder(client, load=0.3, key="order").offer(batch)
    other = RunningShedder(client, load=0.3, key="order")
    order = np.random.default_rng(1).permutation(10_000)
    shuffled = other.offer({name: column[order] for name, column in batch.items()})
    np.testing.assert_array_equal(shuffled, one[order])
    assert one.mean() == pytest.approx(0.3, abs=0.02)


def test_what_a_budget_cuts_beyond_keys_is_counted_apart(folder, tmp_path):
    batch = ticks(10_000)
    free = running(folder, "ticks", load=0.5, key="order").offer(batch)
    with SharedBudget(tmp_path / "ledger", slack=1) as budget:
        budget.take(0, 1, 0.0)
        shedder = running(folder, "ticks", load=0.5, key="order", budget=budget)
        keep = shedder.offer(batch)
    assert not (keep & ~free).any()
    assert int(free.sum()) - int(keep.sum()) == shedder.counters.dropped_by_budget
    assert keep.sum() <= 5000
