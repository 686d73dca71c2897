from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.artifacts import Status
from planning.artifacts.fleet import STATES, Fleet, fleet, judged, span
from planning.artifacts.manifest import to_time

AT = "2026-01-02T03:04:05Z"
BEFORE = "2026-01-02T02:04:05Z"


def said(**fields) -> Status:
    return Status(node="edge-7", at=AT, **fields)


@pytest.mark.parametrize(
    ("status", "state", "sentence"),
    [
        (said(version=8), "in force", "runs version 8"),
        (said(version=9), "in force", "runs version 9"),
        (said(version=6), "behind", "runs version 6 of 8"),
        (said(version=6, ready=8), "ready", "takes version 8 over with its next batch"),
        (said(version=6, ready=7), "behind", "runs version 6 of 8"),
        (said(state="waiting"), "waiting", "has not taken version 8 yet"),
        (said(version=8, state="expired"), "expired", "runs version 8, whose validity has ended"),
        (said(version=7, state="expired"), "behind", "runs version 7 of 8"),
        (said(version=8, clock_skew_s=3600), "clock off",
         "runs version 8; its clock is 1 hour ahead"),
        (said(version=8, clock_skew_s=-3700), "clock off",
         "runs version 8; its clock is 1 hour behind"),
        (said(version=8, clock_skew_s=59), "in force", "runs version 8"),
        (said(version=7, refused={8: "rot"}, problem="rot"), "refuses", "refuses version 8: rot"),
        (said(version=8, refused={7: "rot"}), "in force", "runs version 8"),
        (said(version=7, refused={6: "rot"}), "behind", "runs version 7 of 8"),
        (said(version=8, problem="the store is gone", problem_since=BEFORE), "problem",
         "has a problem for 1 hour: the store is gone"),
        (said(version=8, problem="no memory"), "problem", "has a problem: no memory"),
        (said(version=7, refused={8: "rot"}, heartbeat_s=30, age_s=91), "silent",
         "was last heard 1 minute ago"),
        (said(version=8, heartbeat_s=30, age_s=89), "in force", "runs version 8"),
        (said(version=8, age_s=1e9), "in force", "runs version 8"),
        (said(version=7, refused={8: "two\nlines\x1b[31m"}), "refuses",
         "refuses version 8: two lines [31m"),
    ],
)  # fmt: skip
def test_a_status_in_words(status, state, sentence):
    node = judged(status, 8)
    assert (node.name, node.state, node.sentence) == ("edge-7", state, sentence)


def test_before_the_first_publication_a_node_waits_and_is_not_late():
    node = judged(said(state="waiting"), 0)
    assert (node.state, node.sentence) == ("waiting", "waits for a first plan")
    assert Fleet(0, (node,)).late(0) == ()
    assert Fleet(0, (node,)).summary() == "0 of 1 nodes run a plan: there is none"
    assert Fleet(0, ()).summary() == "No node follows this stream yet"


anything = st.text(max_size=20)
numbers = st.floats(allow_nan=False) | st.integers(-(10**400), 10**400)
moments = st.none() | st.datetimes(timezones=st.just(UTC)).map(to_time)


@given(
    st.builds(
        Status, node=st.just("edge-7"), at=moments.filter(bool), version=st.integers(0, 10**400),
        ready=st.integers(0, 9), state=st.sampled_from(["waiting", "in force", "expired"]),
        refused=st.dictionaries(st.integers(-9, 10**30), anything, max_size=3), problem=anything,
        problem_since=moments, heartbeat_s=st.floats(0), age_s=st.floats(allow_nan=False),
        clock_skew_s=st.floats(allow_nan=False),
        counters=st.dictionaries(st.sampled_from(["kept", "offered"]), numbers | anything),
    ),
    st.integers(0, 9),
)  # fmt: skip
def test_no_status_is_too_strange_for_words(status, newest):
    node = judged(status, newest)
    assert node.state in STATES
    assert node.sentence.isprintable()
    assert node.lasting_s >= 0
    assert node.kept_share is None or 0 <= node.kept_share <= 1
    assert Fleet(newest, (node,)).summary().isprintable()


def test_the_worst_come_first_and_unreadable_ones_are_named(house):
    house.publish("one")
    house.publish("two")
    for name, fields in {
        "a": {"version": 2}, "b": {"version": 1}, "c": {"version": 1, "refused": {2: "rot"}},
        "d": {"version": 2, "counters": {"kept": 3, "offered": 4}},
    }.items():  # fmt: skip
        house.store.report("ticks", Status(node=name, at=AT, **fields))
    (house.store.folder("ticks", "nodes") / "e.json").write_bytes(b"{")
    found = fleet(house.store, "ticks")
    assert [(node.name, node.state) for node in found.nodes] == [
        ("c", "refuses"), ("e", "unreadable"), ("b", "behind"), ("a", "in force"),
        ("d", "in force"),
    ]  # fmt: skip
    assert (found.newest, found.running, found.nodes[-1].kept_share) == (2, 2, 0.75)
    assert found.counts() == {"refuses": 1, "unreadable": 1, "behind": 1, "in force": 2}
    assert found.summary().startswith(
        "2 of 5 nodes run version 2; c refuses version 2: rot; e has no readable status: "
    )
    assert found.summary().endswith("; b runs version 1 of 2")


def test_a_summary_names_few_and_counts_the_rest():
    nodes = [judged(msgspec.structs.replace(said(version=1), node=f"n{i}"), 2) for i in range(9)]
    assert Fleet(2, tuple(nodes)).summary() == (
        "0 of 9 nodes run version 2; n0 runs version 1 of 2; n1 runs version 1 of 2; "
        "n2 runs version 1 of 2; and 6 more do not follow"
    )


def test_a_node_is_late_since_the_first_version_that_it_missed(house):
    """However often something new is published: else a stuck node would never be late."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    for minute in range(4):
        house.publish(str(minute), created_at=to_time(start + timedelta(minutes=minute)))
    house.store.report("ticks", Status(node="stuck", at=AT, version=1))
    house.store.report("ticks", Status(node="slow", at=AT, version=3))
    found = fleet(house.store, "ticks", start + timedelta(minutes=4))
    assert {node.name: node.lasting_s for node in found.nodes} == {"stuck": 180, "slow": 60}
    assert [node.name for node in found.late(100)] == ["stuck"]
    assert [node.name for node in found.late(180)] == []
    house.store.manifest_path("ticks", 4).write_bytes(b"rot")
    found = fleet(house.store, "ticks", start + timedelta(minutes=4))
    assert [node.name for node in found.late(1e9)] == ["slow"]


def test_a_problem_lasts_by_the_node_s_own_clock():
    """An hour off: the node says that its problem began ten minutes before its last word."""
    status = said(version=7, problem="gone", problem_since="2026-01-02T02:54:05Z", age_s=30.0)
    assert judged(status, 8).lasting_s == 630
    refusing = msgspec.structs.replace(status, refused={8: "rot"})
    assert judged(refusing, 8, waited_s=5.0).lasting_s == 630


@given(st.floats(0, 1e9))
def test_a_span_is_the_largest_whole_unit(seconds):
    count, unit = span(seconds).split()
    length = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}[unit.removesuffix("s")]
    assert unit.endswith("s") == (count != "1")
    bounded = min(seconds, 9999 * 86400)
    assert int(count) * length <= bounded < (int(count) + 1) * length


def test_a_node_ahead_of_a_store_made_anew_has_that_problem_and_no_other():
    problem = "/srv/plans has gone back from version 5 to 1"
    ahead = Status(node="edge-7", at=AT, version=3, refused={5: "rot"}, problem=problem)
    node = judged(ahead, newest=1)
    assert (node.state, node.sentence) == ("problem", f"has a problem: {problem}")
    told = Fleet(1, (node,)).summary()
    assert told.startswith("0 of 1 nodes run version 1; edge-7 has a problem")
