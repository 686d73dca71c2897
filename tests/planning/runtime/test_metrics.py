"""Metrics: one exposition for all shedders of a process, and the same for OpenTelemetry."""

import gc
import shutil
import subprocess
import sys
import threading
from collections import Counter, defaultdict

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from planning import families
from planning.artifacts import SigningKey, Status, Store, TrustedKeys
from planning.errors import MissingExtra
from planning.examples import demo_plan, demo_samples
from planning.pacing import ONE
from planning.runtime import (
    Counters,
    FixedThrottle,
    PlanClient,
    RunningShedder,
    SampleMarker,
    SampleWriter,
    metrics,
)
from planning.shedder import Measures

ROWS = 4000


def exposition(**options):
    registry = CollectorRegistry()
    registry.register(metrics.Collector(**options))
    return generate_latest(registry).decode()


def series(text, node):
    """Return the node's samples as {(name, other labels): value}; every one occurs once."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.pop("node", "") == node:
                labels.pop("stream")
                key = (sample.name.removeprefix("headgate_"), *labels.values())
                assert key not in found, f"{key} occurs twice"
                found[key] = sample.value
    return found


def counted(node):
    return series(exposition(), node)


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """A shedder of every family, in force, with the masks that it returned."""
    folder = tmp_path_factory.mktemp("five")
    signer = SigningKey.load_or_create(folder / "keys")
    store = Store(folder / "plans", TrustedKeys.of(signer))
    options = {"lira": {"correct": False}, "sifter": {"correct": False}}
    running = {}
    for family in families.NAMES:
        store.publish(
            family, demo_plan(family), family=family, signer=signer,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip
        client = PlanClient(store, family, node="five", memory=False)
        shedder = RunningShedder(client, load=0.4, options=options.get(family))
        assert client.poll()
        rows = {name: column[:ROWS] for name, column in demo_samples(family).items()}
        running[family] = shedder, shedder.offer(rows)
    return running


def parts_of(family):
    """Return the parts of a family's shedder as {metric: {part: value}}."""
    shown = defaultdict(dict)
    for parsed in text_string_to_metric_families(exposition(max_parts=10_000)):
        for sample in parsed.samples:
            labels = sample.labels
            if labels.get("node") == "five" and labels["stream"] == family and "part" in labels:
                name = sample.name.removeprefix("headgate_part_")
                shown[labels["kind"], name][labels["part"]] = sample.value
    return shown


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (Prometheus) is not installed")
def test_promtool_finds_nothing_to_say(five):
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=exposition(), capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_a_metric_is_described_once_however_many_shedders_there_are(five):
    lines = exposition().splitlines()
    described = Counter(line.split()[2] for line in lines if line.startswith("# HELP"))
    assert set(described.values()) == {1}
    assert described["headgate_offered_items_total"] == 1
    offered = [
        line for line in lines if line.startswith('headgate_offered_items_total{node="five"')
    ]
    assert len(offered) == len(families.NAMES)


def test_every_counter_is_shown_and_every_metric_is_described():
    others = {"dropped", "version", "load", "expired"}  # by reason; gauges
    assert set(metrics.COUNTED) | others == set(Counters().snapshot())
    assert {name for name, _ in metrics.COUNTED.values()} <= set(metrics.METRICS)
    assert set(metrics.read()) <= set(metrics.METRICS)


def test_regions_show_the_plan_and_what_was_counted(five):
    shedder, keep = five["sifter"]
    shown, plan = parts_of("sifter"), shedder.shedder.plan
    thresholds = plan.at(0.4).drop_thresholds
    assert list(shown["region", "drop_ratio"].values()) == pytest.approx(thresholds.tolist())
    own = shedder.shedder.counters
    assert list(shown["region", "offered_items_total"].values()) == own.offered[:-1].tolist()
    assert list(shown["region", "dropped_items_total"].values()) == own.dropped[:-1].tolist()
    assert sum(shown["region", "dropped_items_total"].values()) == (~keep).sum() > 0


def test_attributes_show_how_often_they_were_sent(five):
    shedder, keep = five["attributes"]
    sent = dict(zip(shedder.shedder.parts, keep.sum(axis=0).tolist(), strict=True))
    assert parts_of("attributes") == {("attribute", "sent_values_total"): sent}


def test_windows_show_the_share_that_is_left_out(five):
    shedder, _ = five["joins"]
    plan = shedder.shedder.plan
    setting, expected = plan.at(0.4), {}
    for i, stream in enumerate(plan.layout.streams):
        for j in range(plan.windows.most):
            total = sum(plan.volumes[i, z, j] for z in range(len(plan.types)))
            taken = sum(
                plan.volumes[i, z, j] * setting.take[i, z, j] for z in range(len(plan.types))
            )
            if total:
                expected[f"{stream} {j}"] = pytest.approx(1 - taken / total)
    assert parts_of("joins") == {("window", "drop_ratio"): expected}
    assert any(0 < value < 1 for value in parts_of("joins")["window", "drop_ratio"].values())


def test_arcs_show_the_plan_and_what_was_counted(five):
    shedder, keep = five["fit"]
    shown, plan = parts_of("fit"), shedder.shedder.plan
    drops = shown["arc", "drop_ratio"]
    assert {name: drops[name] for name in plan.at(0.4)} == pytest.approx(plan.at(0.4), abs=2 / ONE)
    own = shedder.shedder.counters
    dropped = dict(zip(own.names, own.dropped.tolist(), strict=True))
    assert {**shown["arc", "dropped_items_total"], "": 0} == dropped
    assert sum(dropped.values()) == (~keep).sum() > 0


def test_levels_show_their_throttlers(five):
    shedder, _ = five["lira"]
    plan = shedder.shedder.plan
    shown = parts_of("lira")["level", "throttler_meters"]
    assert [shown[str(k)] for k in plan.level] == plan.at(0.4).throttlers.tolist()


def test_only_the_largest_parts_are_shown(five):
    shedder, _ = five["sifter"]
    frequency = shedder.shedder.plan.frequency.tolist()
    largest = sorted(range(len(frequency)), key=lambda k: (-frequency[k], k))[:3]
    lines = exposition(max_parts=3).splitlines()
    ours = [line for line in lines if 'node="five"' in line and 'stream="sifter"' in line]
    shown = [line for line in ours if line.startswith("headgate_part_drop_ratio")]
    assert [line.split('part="')[1].split('"')[0] for line in shown] == [
        str(k) for k in sorted(largest)
    ]
    [hidden] = [line for line in ours if line.startswith("headgate_hidden_parts")]
    assert float(hidden.rsplit(" ", 1)[1]) == len(frequency) - 3
    assert len(lines) < len(exposition().splitlines())


def test_strange_names_of_parts_come_back_as_they_were(house, client):
    names = ('a"b', "c\\d", "e\nf", "{}", "ü")
    house.publish()
    client.node = "strange"
    shedder = RunningShedder(client, load=0.5)
    client.poll()
    shedder.offer([0.5])
    told = Measures("arc", names, np.ones(5), {"drop_ratio": np.arange(5) / 8})
    shedder.shedder.measures = lambda: told
    shown = counted("strange")
    assert [shown["part_drop_ratio", "arc", name] for name in names] == [0, 0.125, 0.25, 0.375, 0.5]


class Limited(FixedThrottle):
    """Lets ``most`` units of a batch pass."""

    most = 1 << 40

    def allowed(self):
        return self.most


def test_items_add_up_by_reason(house, client):
    """In every state the counts rise by what was kept and dropped there, and by nothing else."""
    client.node = "reasons"
    throttle = Limited(0.5)
    shedder = RunningShedder(client, throttle, fallback="uniform")
    values = np.random.default_rng(7).random(1000)
    above = int((values >= 0.5).sum())  # what the plan keeps
    before = counted("reasons")

    def rises(batch, most=1 << 40):
        nonlocal before
        throttle.most = most
        kept = int(shedder.offer(batch).sum())
        now = counted("reasons")
        rise = {
            " ".join(key).replace("_items_total", ""): now[key] - before[key]
            for key in now
            if key[0] in ("dropped_items_total", "passed_items_total", "kept_items_total")
        }
        before = now
        assert sum(v for k, v in rise.items() if k == "kept" or "dropped" in k) == len(batch)
        assert rise.pop("kept") == kept
        return {name: count for name, count in rise.items() if count}

    assert rises(values) == {"dropped fallback": 500, "passed no plan": 500}
    assert rises(values, most=100) == {
        "dropped fallback": 500,
        "dropped limit": 400,
        "passed no plan": 100,
    }
    house.publish(validity={"not_after": "2026-01-02T03:30:00Z", "fallback": "uniform"})
    client.poll()
    assert rises(values) == {"dropped plan": 1000 - above}
    assert rises(values, most=100) == {"dropped plan": 1000 - above, "dropped limit": above - 100}
    assert rises(np.append(values[:-1], -1.0)) == {"dropped fallback": 500, "passed error": 500}
    assert rises([{"wrong": 1.0}] * 4) == {"dropped fallback": 2, "passed refusal": 2}
    house.clock.now += 3600
    assert rises(values) == {"dropped fallback": 500, "passed expiry": 500}
    assert before["plan_expired",] == before["errors_total",] == 1
    assert before["refused_items_total",] == 4
    assert before["cut_units_total",] == 400 + above - 100
    assert before["offered_units_total",] == before["offered_items_total",] == 6004
    assert before["kept_units_total",] == before["kept_items_total",]


def test_what_fails_outright_is_dropped_as_an_error(house, client, monkeypatch):
    client.node = "outright"
    shedder = RunningShedder(client, load=0.5)
    monkeypatch.setattr(shedder, "_counted", None)
    assert not shedder.offer([0.1, 0.9]).any()
    shown = counted("outright")
    assert shown["dropped_items_total", "error"] == shown["offered_items_total",] == 2


def test_marked_samples_and_bytes_are_counted(five):
    store = five["attributes"][0].client.store
    client = PlanClient(store, "attributes", node="marks", memory=False)
    client.poll()
    shedder = RunningShedder(client, load=0.4, marker=SampleMarker(0.01))
    rows = {name: column[:ROWS] for name, column in demo_samples("attributes").items()}
    shedder.offer(rows)
    assert shedder.counters.marked == ROWS // 100
    assert shedder.counters.dropped_by_limit == 0  # which tuples a limit dropped is not known
    shown = counted("marks")
    assert shown["passed_items_total", "marked"] == ROWS // 100
    assert 0 < shown["kept_units_total",] <= 0.45 * shown["offered_units_total",]
    assert shown["offered_units_total",] > ROWS
    assert shown["plan_info", "attributes", "bytes", "1"] == 1


def test_shedders_of_one_stream_on_one_node_are_shown_as_one(house, client):
    client.node = "twins"
    house.publish()
    one, two = RunningShedder(client, load=0.5), RunningShedder(client, load=0.25)
    client.poll()
    one.offer([0.1, 0.9])
    two.offer([0.1, 0.9, 0.9])
    shown = counted("twins")
    assert shown["offered_items_total",] == 5
    assert shown["polls_total",] == client.polls == 1
    assert shown["load_ratio",] == 0.25
    assert shown["plan_version",] == 1
    assert shown["plan_created_timestamp_seconds",] == house.clock.now - 60
    assert shown["plan_taken_timestamp_seconds",] == house.clock.now
    assert shown["store_reached_timestamp_seconds",] == house.clock.now
    del two
    gc.collect()
    after = counted("twins")
    assert after["offered_items_total",] == 5  # a counter never falls
    assert after["load_ratio",] == 0.5


def test_a_shedder_that_lags_is_seen(house, client):
    client.node = "lags"
    house.publish()
    shedder = RunningShedder(client, load=0.5)
    client.poll()
    shedder.offer([0.5])
    house.publish(label="b")
    client.poll()
    shown = counted("lags")
    assert (shown["plan_version",], shown["newest_version",]) == (1, 2)
    house.publish(label="unusable")
    client.poll()
    assert counted("lags")["refused_plans_total",] == 1
    shutil.rmtree(house.store.root)
    client.poll()
    shown = counted("lags")
    assert shown["store_problem",] == 1
    assert shown["poll_errors_total",] >= 1


def test_reading_waits_for_nobody_and_nobody_waits(five):
    """The data path's locks are held all the while."""
    done = threading.Event()

    def read():
        exposition()
        done.set()

    shedder, client = five["sifter"][0], five["sifter"][0].client
    with shedder._lock, client._polling:
        threading.Thread(target=read, daemon=True).start()
        assert done.wait(60)


def test_counters_never_fall_while_batches_and_plans_come(house, client):
    client.node = "busy"
    house.publish()
    shedder = RunningShedder(client, load=0.5)
    stop, values = threading.Event(), np.random.default_rng(1).random(50)

    def work():
        number = 0
        while not stop.is_set():
            shedder.offer(values if number % 7 else np.append(values, -1.0))
            number += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        before = counted("busy")
        for number in range(60):
            if number % 10 == 0:
                house.publish(label=f"p{number}")
                client.poll()
            now = counted("busy")
            dropped = sum(v for key, v in now.items() if key[0] == "dropped_items_total")
            assert dropped + now["kept_items_total",] == now["offered_items_total",]
            assert all(now[key] >= before[key] for key in before if key[0].endswith("_total"))
            before = now
    finally:
        stop.set()
        thread.join()
    assert before["swaps_total",] > 1


def test_a_store_shows_its_nodes(house):
    house.publish()
    house.publish(label="b")
    at = "2026-01-02T04:00:00Z"
    house.store.report("ticks", Status(node="well", at=at, version=2, heartbeat_s=30))
    refusing = Status(node="refuses", at=at, version=1, heartbeat_s=30, refused={2: "no"})
    house.store.report("ticks", refusing)
    text = exposition(store=house.store)
    assert 'headgate_published_version{stream="ticks"} 2.0' in text
    well, refuses = series(text, "well"), series(text, "refuses")
    assert (well["node_version",], well["node_refused_version",]) == (2, 0)
    assert (refuses["node_version",], refuses["node_refused_version",]) == (1, 2)
    assert well["node_silent",] == 0
    assert 0 <= well["node_status_age_seconds",] < 60
    silent = Status(node="silent", at=at, heartbeat_s=0.000001)
    house.store.report("ticks", silent)
    assert series(exposition(store=house.store), "silent")["node_silent",] == 1


def test_samples_are_shown(tmp_path):
    writer = SampleWriter(tmp_path, node="landing", format="jsonl", max_items=2, max_buffered=3)
    writer.add([{"a": 1}] * 5, now_s=0.0)
    writer.roll(now_s=1.0)
    labels = (("node", "landing"),)
    shown = metrics.read()
    assert shown["samples_landed_total"][labels] == 2
    assert shown["samples_lost_total"][(*labels, ("reason", "buffer full"))] == 2
    assert shown["samples_buffered"][labels] == 1


def test_opentelemetry_sees_the_same(five):
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    metrics.observe(provider)
    five["sifter"][0].offer(demo_samples("sifter"))
    collected = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    expected = metrics.read()
    assert [m.name for m in collected] == [
        f"headgate_{name.removesuffix('_total')}" for name in metrics.METRICS if name in expected
    ]
    for metric in collected:
        name = metric.name.removeprefix("headgate_")
        is_sum = type(metric.data).__name__ == "Sum"
        rows = expected[f"{name}_total" if is_sum else name]
        assert metric.description == metrics.METRICS[f"{name}_total" if is_sum else name]
        assert not is_sum or metric.data.is_monotonic
        got = {tuple(sorted(p.attributes.items())): p.value for p in metric.data.data_points}
        assert got == {tuple(sorted(labels)): value for labels, value in rows.items()}, name
    units = {m.name: m.unit for m in collected}
    assert units["headgate_offered_items"] == "{item}"
    assert units["headgate_plan_taken_timestamp_seconds"] == "s"
    provider.shutdown()


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("prometheus_client.core", "prometheus", metrics.Collector),
        ("opentelemetry.metrics", "opentelemetry", lambda: metrics.observe(None)),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, module, extra, use):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'headgate\[{extra}\]'"):
        use()


def test_a_node_loads_neither():
    script = (
        "import sys, planning.runtime.shedding, planning.runtime.metrics\n"
        "print([m for m in ('prometheus_client', 'opentelemetry') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
