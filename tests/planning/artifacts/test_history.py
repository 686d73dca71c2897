from concurrent.futures import ThreadPoolExecutor, wait

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.artifacts import Status, Store, files, history
from planning.errors import InvalidInput, NoPlan

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)


@given(json_values)
def test_nothing_differs_from_itself(value):
    assert list(history.changes(value, value)) == []


@given(json_values, json_values)
def test_a_difference_is_found_exactly_when_there_is_one(old, new):
    canonical = [msgspec.json.encode(v, order="sorted") for v in (old, new)]
    found = list(history.changes(old, new))
    if not found:
        # 1 and 1.0, 0.0 and -0.0 are the same number inside an array.
        assert old == new
    if canonical[0] == canonical[1]:
        assert not found


def test_differences_name_the_path_and_sum_up_arrays():
    old = {"a": 1, "gone": True, "t": [0.0, 0.5, 1.0], "m": [[1, 2], [3, 4]], "s": [{"x": 1}]}
    new = {"a": 2, "here": None, "t": [0.0, 0.25, 0.9], "m": [[1, 2]], "s": [{"x": 3}]}
    found = {c.path: c for c in history.changes(old, new)}
    assert set(found) == {"a", "gone", "here", "t", "m", "s[0].x"}
    assert (found["a"].kind, found["a"].old, found["a"].new) == ("changed", 1, 2)
    assert found["gone"].kind == "removed"
    assert found["here"].kind == "added"
    assert (found["t"].kind, found["t"].count_changed) == ("array", 2)
    assert found["t"].max_abs_change == pytest.approx(0.25)
    assert (found["m"].kind, found["m"].old, found["m"].new) == ("resized", "2x2", "1x2")
    assert (found["s[0].x"].old, found["s[0].x"].new) == (1, 3)


def test_two_versions_are_compared_in_manifest_and_plan(house):
    house.publish("one", cuts=(0.0, 0.5), parameters={"regions": 4})
    house.publish("two", cuts=(0.0, 0.25), parameters={"regions": 8})
    difference = house.store.diff("ticks", 1, 2)
    plan = {c.path: c for c in difference.plan}
    assert set(plan) == {"label", "cuts"}
    assert (plan["cuts"].count_changed, plan["cuts"].max_abs_change) == (1, 0.25)
    manifest = {c.path: (c.old, c.new) for c in difference.manifest}
    assert manifest["parameters.regions"] == (4, 8)
    assert manifest["version"] == (1, 2)
    assert "signature" not in manifest
    assert house.store.diff("ticks", 2, 2).plan == ()
    assert msgspec.json.encode(difference)


def test_a_sound_version_passes_every_check(house):
    house.publish()
    report = house.store.verify("ticks")
    assert report.ok
    assert [c.name for c in report.checks] == [
        "manifest",
        "signature",
        "json digest",
        "binary digest",
        "json plan",
        "binary plan",
        "json equals binary",
    ]
    with pytest.raises(NoPlan):
        house.store.verify("ticks", 5)


def test_the_report_names_what_is_wrong(house, tmp_path):
    told = house.publish()
    assert failed(Store(house.store.root).verify("ticks")) == {"signature"}
    binary = house.store.payload_path("ticks", told.payloads.binary, "binary")
    data = binary.read_bytes()
    binary.write_bytes(b"rot")
    assert failed(house.store.verify("ticks")) == {"binary digest", "binary plan"}
    binary.write_bytes(data)
    house.store.manifest_path("ticks", 1).write_bytes(b"rot")
    assert failed(house.store.verify("ticks")) == {"manifest"}


def test_encodings_that_hold_different_plans_are_reported(house):
    one, two = house.publish("one"), house.publish("two")
    mixed = house.signer.sign(
        msgspec.structs.replace(
            two, payloads=msgspec.structs.replace(two.payloads, json=one.payloads.json)
        )
    )
    house.store.manifest_path("ticks", 2).write_bytes(msgspec.json.encode(mixed, order="sorted"))
    assert failed(house.store.verify("ticks")) == {"json equals binary"}


def failed(report) -> set[str]:
    assert all(check.detail for check in report.checks if not check.passed)
    return {check.name for check in report.checks if not check.passed}


def test_retention_keeps_the_newest_and_never_reuses_a_number(house):
    for i in range(6):
        house.publish(str(i))
    pruned = house.store.prune("ticks", 2)
    assert pruned.versions == (1, 2, 3, 4)
    assert pruned.payloads == 8
    assert house.store.versions("ticks") == (5, 6)
    assert house.store.prune("ticks", 1).versions == (5,)
    assert house.publish("next").version == 7
    assert house.store.load("ticks", 6).plan.label == "5"


def test_retention_waits_for_publishers_and_they_for_it(house):
    for label in "abc":
        house.publish(label)
    folder = house.store.folder("ticks")

    def roll_back():
        return house.store.rollback(
            "ticks", 2, signer=house.signer, created_at="2026-03-01T12:00:00Z", reason=""
        )

    def prune():
        return house.store.prune("ticks", 9)

    for held, waiting in ((False, [prune]), (True, [prune, house.publish, roll_back])):
        with ThreadPoolExecutor() as pool:
            with files.lock(folder, exclusive=held):
                begun = [pool.submit(action) for action in waiting]
                assert wait(begun, timeout=0.3).done == set()
                if not held:
                    house.publish("beside")  # publishers do not wait for one another
            assert all(action.result(timeout=30) for action in begun)


def test_retention_keeps_payloads_that_a_kept_version_names(house):
    house.publish("good")
    house.publish("bad")
    house.store.rollback(
        "ticks", 1, signer=house.signer, created_at="2026-03-01T12:00:00Z", reason=""
    )
    assert house.store.prune("ticks", 1).payloads == 2
    assert house.store.load("ticks").plan.label == "good"
    assert house.store.load("ticks", encoding="json").plan.label == "good"


def test_retention_collects_what_killed_publishers_left(house):
    house.publish()
    orphan = house.store.root / "ticks" / "payloads" / ("0" * 64 + ".bin")
    orphan.write_bytes(b"x")
    assert house.store.prune("ticks", 5).payloads == 1
    assert not orphan.exists()


def test_retention_deletes_nothing_when_a_kept_manifest_is_unreadable(house):
    for i in range(3):
        house.publish(str(i))
    house.store.manifest_path("ticks", 3).write_bytes(b"rot")
    pruned = house.store.prune("ticks", 1)
    assert (pruned.versions, pruned.payloads) == ((), 0)
    assert "nothing was deleted" in pruned.note
    assert house.store.last_good("ticks").published.plan.label == "1"


def test_retention_of_nothing_and_of_less_than_one(house):
    assert house.store.prune("ticks", 3).versions == ()
    house.publish()
    with pytest.raises(InvalidInput, match="keep must be at least 1, got 0"):
        house.store.prune("ticks", 0)


def test_statuses_are_listed_by_node_and_damaged_ones_reported(house):
    house.publish()
    at = "2026-01-02T03:04:05Z"
    for node, version in (("edge-2", 1), ("edge-1", 1), ("edge-2", 2)):
        house.store.report("ticks", Status(node=node, version=version, at=at, counters={"kept": 3}))
    nodes = house.store.nodes("ticks")
    assert [(n.node, n.version) for n in nodes] == [("edge-1", 1), ("edge-2", 2)]
    (house.store.root / "ticks" / "nodes" / "edge-3.json").write_bytes(b"{")
    nodes = house.store.nodes("ticks")
    assert len(nodes) == 2
    assert nodes.broken[0].name == "edge-3.json"
    assert house.store.nodes("alarms").sound == ()


def test_nodes_of_release_0_1_are_listed_until_they_say_more(house):
    acks = house.store.folder("ticks", "acks")
    acks.mkdir(parents=True)
    word = {"node": "edge-1", "version": 1, "at": "2026-01-02T03:04:05Z", "counters": {"kept": 3}}
    (acks / "edge-1.json").write_bytes(msgspec.json.encode(word))
    (old,) = house.store.nodes("ticks")
    assert (old.node, old.version, old.counters, old.silent) == ("edge-1", 1, {"kept": 3}, False)
    house.store.report("ticks", Status(node="edge-1", version=2, at="2026-01-02T03:04:05Z"))
    assert [node.version for node in house.store.nodes("ticks")] == [2]
