"""Bad input: defined behaviour, never a crash, never a wrong match."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.joins.workload import single_values
from planning.errors import InvalidInput
from planning.joins.engine import WindowedJoin, probe
from planning.joins.model import Condition, Windows, from_arrays, tuples


def equi(window_s: tuple[float, float] = (10.0, 10.0), b: float = 1.0) -> WindowedJoin:
    return WindowedJoin(Windows(window_s, b), Condition("equality"), single_valued=True)


def held(join: WindowedJoin) -> list[int]:
    """Return the number of tuples in each window."""
    return join.populations().sum(axis=1).tolist()


def test_out_of_order_tuples_still_match_by_their_own_times() -> None:
    join = equi()
    join.push(0, single_values([8.0, 3.0], [1, 1]))  # the second is late
    matches = join.push(1, single_values([12.0], [1]))
    assert sorted(matches.left.tolist()) == [0, 1]
    assert len(join.push(1, single_values([13.5], [1])).left) == 1  # 13.5 - 3 > 10
    assert join.tally.total[probe.LATE_IN] == 1


def test_a_late_probe_finds_tuples_newer_than_itself_within_its_window() -> None:
    join = equi((2.0, 10.0))
    join.push(0, single_values([8.0], [1]))
    assert len(join.push(1, single_values([7.0], [1]))) == 1
    assert len(join.push(1, single_values([1.0], [1]))) == 1
    assert len(join.push(0, single_values([0.5], [1]))) == 1  # only the one at 1.0 is within 2 s


def test_equal_timestamps_match_once() -> None:
    join = equi()
    join.push(0, single_values([5.0, 5.0], [1, 1]))
    matches = join.push(1, single_values([5.0, 5.0], [1, 1]))
    assert len(matches) == 4


def test_a_jump_forward_empties_the_windows() -> None:
    join = equi()
    join.push(0, single_values([1.0], [1]))
    assert len(join.push(1, single_values([1e9], [1]))) == 0
    assert held(join) == [0, 1]
    assert len(join.push(0, single_values([1e9 + 1], [1]))) == 1


def test_a_clock_set_back_is_believed_after_a_hundred_tuples() -> None:
    join = equi()
    join.push(0, single_values([1000.0], [1]))
    back = single_values(np.linspace(0, 1, 120), np.ones(120))
    join.push(0, back)
    assert join.tally.total[probe.EXPIRED_IN] == 100
    assert join.tally.total[probe.RESETS] == 1
    matches = join.push(1, single_values([1.5], [1]))
    assert matches.left.min() == 100  # the hundredth tuple behind the window started over
    assert len(matches) == 21


def test_one_straggler_does_not_reset_anything() -> None:
    join = equi()
    join.push(0, single_values([1000.0, 2.0, 1001.0], [1, 1, 1]))
    assert join.tally.total[probe.RESETS] == 0
    assert sorted(join.push(1, single_values([1002.0], [1])).left.tolist()) == [0, 2]


@pytest.mark.parametrize("moment", [np.nan, np.inf, -np.inf, 1e300, -1e300])
def test_times_that_are_no_times_are_set_aside(moment: float) -> None:
    join = equi()
    join.push(0, single_values([1.0, moment], [1, 1]))
    assert join.rejected == 1
    assert join.push(1, single_values([2.0], [1])).left.tolist() == [0]


def test_items_outside_the_vocabulary_are_set_aside_and_never_match() -> None:
    join = WindowedJoin(Windows((9, 9), 1), Condition("superset"), vocabulary=4)
    join.push(0, tuples([0.0, 0.1], [{1, 7}, {1}]))
    assert join.rejected == 1
    assert join.push(1, tuples([1.0], [{1}])).left.tolist() == [1]


@pytest.mark.parametrize("access", ["bitset", "inverted"])
def test_empty_sets(access: str) -> None:
    expected = {"equality": 1, "subset": 2, "superset": 1, "overlap": 0, "inner_product": 0}
    for kind, number in expected.items():
        join = WindowedJoin(
            Windows((9, 9), 1), Condition(kind, 1), vocabulary=4, access=access  # type: ignore[arg-type]
        )
        join.push(0, tuples([0.0], [set()]))
        assert len(join.push(1, tuples([1.0, 1.1], [set(), {2}]))) == number, kind


def test_unknown_types_are_joined_as_the_stated_type() -> None:
    values = np.array([[5.0, 5.0], [5.0, 1.0]])
    join = WindowedJoin(
        Windows((9, 9), 1), Condition("equality"), single_valued=True, values=values, unknown_type=1
    )
    join.push(0, single_values([0.0], [1], kind=[99]))
    join.push(1, single_values([1.0], [1], kind=[-4]))
    assert join.tally.utility[0] == 1.0


def test_one_silent_stream_costs_no_memory() -> None:
    join = equi((2.0, 2.0))
    for minute in range(50):
        join.push(0, single_values(minute * 60 + np.arange(600) / 10, np.ones(600)))
    assert max(held(join)) <= 30
    assert join.state.time.shape[1] <= 8192


def test_time_can_pass_without_tuples() -> None:
    join = equi((2.0, 2.0))
    join.push(0, single_values([0.0], [1]))
    join.advance_to(np.nan)
    assert held(join) == [1, 0]
    join.advance_to(5.0)
    assert held(join) == [0, 0]


@pytest.mark.parametrize(
    ("window_s", "b"), [((0.2, 0.3), 1.0), ((2.5, 2.5), 1.0), ((1.0, 1.0), 0.3), ((7.0, 1.0), 7.0)]
)
def test_windows_smaller_than_a_basic_window_and_b_not_dividing_w(
    window_s: tuple[float, float], b: float
) -> None:
    windows = Windows(window_s, b)
    assert windows.extents_s.sum(axis=1) == pytest.approx(list(window_s))
    join = equi(window_s, b)
    rng = np.random.default_rng(1)
    left, right = (single_values(np.sort(rng.uniform(0, 30, 200)), np.ones(200)) for _ in range(2))
    made = [join.push(0, left.slice(0, 0))]
    for low in range(200):
        made += [join.push(0, left.slice(low, low + 1)), join.push(1, right.slice(low, low + 1))]
    assert sum(len(m) for m in made) > 0
    pairs = {(a, c) for m in made for a, c in zip(m.left.tolist(), m.right.tolist(), strict=True)}
    lags = np.array([right.time[c] - left.time[a] for a, c in pairs])
    assert lags.max() <= window_s[0]
    assert lags.min() >= -window_s[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Windows((0, 1), 1), r"window_s\[0\] must be positive seconds, got 0"),
        (lambda: Windows((1, np.nan), 1), r"window_s\[1\] must be positive"),
        (lambda: Windows((1, 1), 0), "basic_window_s must be positive"),
        (lambda: Windows((1e6, 1), 1e-3), "at most 10000 parts"),
        (lambda: Windows((1, 1), 1, np.inf), "origin_s must be finite"),
        (lambda: Condition("near"), "condition.kind must be one of"),  # type: ignore[arg-type]
        (lambda: Condition("overlap", 0), "whole number >= 1, got 0"),
        (lambda: Condition("overlap", 1.5), "whole number >= 1, got 1.5"),
        (lambda: Condition("inner_product", -1), "must be positive, got -1"),
        (lambda: from_arrays([0.0], [0, 2], [2, 1]), "sorted and distinct"),
        (lambda: from_arrays([0.0], [0, 2], [1, 1]), "sorted and distinct"),
        (lambda: from_arrays([0.0, 1.0], [0, 1], [1]), "one time, type and set each"),
        (lambda: from_arrays([0.0], [0, 5], [1]), "first must rise"),
        (lambda: from_arrays([0.0], [0, 1], [1], weights=[1, 2]), "weights must be 1 numbers"),
    ],
)
def test_contradictions_are_refused_with_the_remedy(make, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
