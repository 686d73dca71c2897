"""The operator equals the join by definition, whatever the condition and however it is pushed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.joins.reference import InvertedIndexJoin, ScanJoin, brute_force, sets_of
from benchmarks.joins.workload import single_values
from planning.arrays import BoolArray, FloatArray
from planning.errors import InvalidInput
from planning.joins.demo import Workload
from planning.joins.engine import Selection, WindowedJoin
from planning.joins.model import Condition, Tuples, Windows, merge, tuples

CONDITIONS = [
    Condition("equality"),
    Condition("subset"),
    Condition("superset"),
    Condition("overlap", 1),
    Condition("overlap", 2),
    Condition("overlap", 3),
    Condition("inner_product", 0.5),
]
ACCESSES = ("bitset", "inverted")


def in_pieces(
    join: WindowedJoin, left: Tuples, right: Tuples, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Push both streams merged by time, in pieces of random length."""
    stream, rows, batch = merge(left, right)
    pairs: list[tuple[int, int]] = []
    low = 0
    while low < len(batch):
        high = min(low + int(rng.integers(1, 40)), len(batch))
        made = join.push_merged(stream[low:high], rows[low:high], batch.slice(low, high))
        pairs += zip(made.left.tolist(), made.right.tolist(), strict=True)
        low = high
    return pairs


@pytest.mark.parametrize("seed", range(40))
def test_the_full_join_equals_brute_force(seed: int, stream_of: Callable[..., Tuples]) -> None:
    rng = np.random.default_rng(seed)
    windows = Windows(
        (float(rng.choice([0.3, 2, 3.7, 5])), float(rng.choice([0.3, 2, 3.7, 5]))),
        float(rng.choice([0.5, 0.7, 1.0, 8.0])),
        float(rng.uniform(-1, 1)),
    )
    vocabulary = int(rng.integers(3, 12))
    left, right = (
        stream_of(rng, int(rng.integers(0, 120)), vocabulary, 4, 20, seed % 2 == 0)
        for _ in range(2)
    )
    for condition in CONDITIONS:
        wanted = brute_force(left, right, windows, condition)
        for access in ACCESSES:
            join = WindowedJoin(
                windows, condition, vocabulary=vocabulary, access=access, values=np.ones((3, 3))
            )
            pairs = in_pieces(join, left, right, rng)
            assert len(pairs) == len(set(pairs))
            assert set(pairs) == wanted, (condition, access, windows)


@pytest.mark.parametrize("seed", range(10))
def test_the_hash_index_equals_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = (
        single_values(np.sort(rng.integers(0, 60, 200) / 2.0), rng.integers(-3, 8, 200))
        for _ in range(2)
    )
    windows = Windows((4.0, 7.5), 1.0)
    join = WindowedJoin(windows, Condition("equality"), single_valued=True)
    assert join.access == "hash"
    wanted = brute_force(left, right, windows, Condition("equality"))
    assert set(in_pieces(join, left, right, rng)) == wanted


def test_a_tuple_expires_only_after_the_window() -> None:
    join = WindowedJoin(Windows((2.0, 3.0), 1.0), Condition("equality"), single_valued=True)
    join.push(0, single_values([0.0], [5]))
    at_the_edge = join.push(1, single_values([2.0, np.nextafter(2.0, 3.0)], [5, 5]))
    assert at_the_edge.right.tolist() == [0]
    later = join.push(0, single_values([5.0], [5]))
    assert sorted(later.right.tolist()) == [0, 1]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_push_order_gives_a_part_of_the_full_join_and_no_more(data: st.DataObject) -> None:
    moments = st.sampled_from([*map(float, range(13)), np.nan, np.inf, 1e300, -50.0])
    items = st.sampled_from([{1, 2, 3}, {1, 2, 3}, {1, 2}, {3}, set(), {-2}, {7, 9}])
    parts = [
        data.draw(st.lists(st.tuples(moments, items, st.integers(-1, 4)), max_size=25))
        for _ in range(2)
    ]
    left, right = (
        tuples([t for t, _, _ in p], [s for _, s, _ in p], kind=[k for _, _, k in p])
        for p in parts
    )
    windows = Windows((3.0, data.draw(st.sampled_from([0.4, 2.0, 5.0]))), 1.0)
    condition = data.draw(st.sampled_from(CONDITIONS))
    access = data.draw(st.sampled_from(ACCESSES))
    join = WindowedJoin(windows, condition, vocabulary=8, access=access, values=np.ones((3, 3)))
    pairs: list[tuple[int, int]] = []
    position = [0, 0]
    while position[0] < len(left) or position[1] < len(right):
        stream = data.draw(st.integers(0, 1))
        source = (left, right)[stream]
        size = data.draw(st.integers(1, 4))
        high = min(position[stream] + size, len(source))
        made = join.push(stream, source.slice(position[stream], high))
        position[stream] = high
        pairs += zip(made.left.tolist(), made.right.tolist(), strict=True)
    assert len(pairs) == len(set(pairs))
    with np.errstate(invalid="ignore"):
        assert set(pairs) <= brute_force(left, right, windows, condition)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_shedding_gives_a_part_of_the_full_join(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    left, right = Workload(vocabulary=20).pair(8, 30, rng)
    windows, condition = Windows((3, 4), 1), Condition("overlap", 2)
    wanted = brute_force(left, right, windows, condition)
    access = ACCESSES[seed % 2]
    join = WindowedJoin(
        windows, condition, vocabulary=20, access=access, full_fraction=share / 4, seed=seed
    )
    take = np.where(rng.random((2, 1, 5)) < 0.5, rng.random((2, 1, 5)), share)
    join.select(Selection.of_fractions(take, rng.random(take.shape) < 0.5))
    pairs = set(in_pieces(join, left, right, rng))
    assert pairs <= wanted
    assert join.tally.total[0] <= join.tally.total[6]


class PlainOperator:
    """Figure 3 by lists: basic windows are cut anew for every tuple, fractions by their carries."""

    def __init__(self, windows: Windows, condition: Condition, take: FloatArray, oldest: BoolArray):
        self.windows, self.condition = windows, condition
        self.take, self.oldest = take, oldest
        self.carry = np.zeros(take.shape)
        self.held: list[list[tuple[float, int, int, int, frozenset[int]]]] = [[], []]
        self.pairs: list[tuple[int, int]] = []
        types = take.shape[1]
        self.hits = np.zeros((2, windows.most, types, types), dtype=np.int64)
        self.made = np.zeros((2, windows.most, types), dtype=np.int64)

    def push(self, stream: int, time: float, kind: int, number: int, items: frozenset[int]) -> None:
        i, windows = 1 - stream, self.windows
        now = int(np.floor((time - windows.origin_s) / windows.basic_window_s))
        basic: list[list[tuple[float, int, int, int, frozenset[int]]]]
        basic = [[] for _ in range(windows.counts[i])]
        for one in self.held[i]:
            if time - one[0] <= windows.window_s[i]:
                basic[min(now - one[1], len(basic) - 1)].append(one)
        for j, stored in enumerate(basic):
            exact = self.take[i, kind, j] * len(stored) + self.carry[i, kind, j]
            wanted = len(stored)
            if self.take[i, kind, j] < 1.0:
                wanted = min(int(exact), wanted)
                self.carry[i, kind, j] = min(exact - wanted, 1.0)
            low = 0 if self.oldest[i, kind, j] else len(stored) - wanted
            self.made[i, j, kind] += wanted
            for _, _, other_kind, other, content in stored[low : low + wanted]:
                left, right = (items, content) if stream == 0 else (content, items)
                if self._matches(left, right):
                    self.hits[i, j, kind, other_kind] += 1
                    self.pairs.append((number, other) if stream == 0 else (other, number))
        self.held[stream].append((time, now, kind, number, items))

    def _matches(self, left: frozenset[int], right: frozenset[int]) -> bool:
        if self.condition.kind == "overlap":
            return len(left & right) >= self.condition.threshold
        return left <= right if self.condition.kind == "subset" else left == right


@pytest.mark.parametrize("types", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_a_selection_compares_exactly_what_a_plain_loop_does(
    seed: int, types: int, stream_of: Callable[..., Tuples]
) -> None:
    rng = np.random.default_rng([seed, types])
    windows = Windows((3.0, float(rng.choice([2.0, 4.5]))), 1.0, float(rng.uniform(-1, 1)))
    condition = Condition("subset") if seed % 3 == 0 else Condition("overlap", 1 + seed % 3)
    left, right = (stream_of(rng, 150, 6, 4, 15, seed % 2 == 0) for _ in range(2))
    left, right = (replace(part, kind=part.kind % types) for part in (left, right))
    shape = (2, types, windows.most)
    take = rng.choice([0.0, 0.0, 1.0, 1.0, -1.0], shape)
    take = np.where(take < 0, rng.random(shape), take)
    take[:, 0] *= seed % 4 > 0  # a type that is compared with nothing
    oldest = rng.random(shape) < 0.5
    plain = PlainOperator(windows, condition, take, oldest)
    stream, rows, batch = merge(left, right)
    for t, items in enumerate(sets_of(batch)):
        plain.push(
            int(stream[t]), float(batch.time[t]), int(batch.kind[t]), int(rows[t]),
            frozenset(items),
        )  # fmt: skip
    for access in ACCESSES:
        joins = [
            WindowedJoin(
                windows, condition, vocabulary=6, access=access, values=np.ones((types, types))
            )
            for _ in range(2)
        ]
        for join in joins:
            join.select(Selection.of_fractions(take, oldest))
        pairs = in_pieces(joins[0], left, right, rng)
        assert sorted(pairs) == sorted(plain.pairs)
        at_once = joins[1].push_merged(stream, rows, batch)
        assert pairs == list(zip(at_once.left.tolist(), at_once.right.tolist(), strict=True))
        for join in joins:
            assert np.array_equal(join.tally.hits.sum(axis=0), plain.hits)
            assert np.array_equal(join.tally.comparisons.sum(axis=0), plain.made)
            assert join.tally.utility[0] == len(plain.pairs)


def test_basic_windows_that_are_not_granted_are_never_touched() -> None:
    left, right = Workload(vocabulary=20).pair(12, 400, np.random.default_rng(5))
    windows, condition = Windows((10, 10), 1), Condition("overlap", 2)
    take = np.zeros((2, 1, 11))
    take[:, :, [2, 3, 7]] = 1.0
    found = []
    for spoilt in (False, True):
        join = WindowedJoin(windows, condition, vocabulary=20)
        join.select(Selection.of_fractions(take))
        early = [part.slice(0, int(np.searchsorted(part.time, 11.0))) for part in (left, right)]
        join.push_merged(*merge(*early))
        join.advance_to(11.0)
        if spoilt:  # tuples of other seconds would now match everything
            now, capacity = int(join.state.meta[0, 2]), join.state.time.shape[1]
            for i in range(2):
                for seq in range(int(join.state.meta[i, 0])):
                    age = now - int(join.state.epoch[i, seq % capacity])
                    if age not in (2, 3, 7):
                        bit = np.uint64(1) << np.uint64(seq % 64)
                        join.state.bits[i, :, seq % capacity // 64] |= bit
        late = [
            part.slice(len(first), int(np.searchsorted(part.time, 12.0)))
            for part, first in zip((left, right), early, strict=True)
        ]
        made = join.push_merged(*merge(*late))
        found.append((made.left.tolist(), made.right.tolist()))
    assert found[0] == found[1]
    assert len(found[0][0]) > 1000


def test_matches_are_handed_over_in_parts_without_loss() -> None:
    same = tuples(np.arange(400) / 100, [{1}] * 400)
    join = WindowedJoin(Windows((5, 5), 1), Condition("equality"), vocabulary=3)
    matches = join.push_merged(*merge(same, same))
    assert len(matches) == 400 * 400
    pairs = np.unique(matches.left * 400 + matches.right)
    assert pairs.size == 400 * 400


def test_the_share_of_comparisons_is_what_was_set() -> None:
    left, right = Workload(vocabulary=20).pair(60, 50, np.random.default_rng(3))
    for share in (0.0, 0.13, 0.5, 1.0):
        join = WindowedJoin(Windows((10, 10), 1), Condition("overlap", 2), vocabulary=20)
        join.select(Selection.of_fractions(np.full((2, 1, 11), share)))
        join.push_merged(*merge(left, right))
        made, possible = join.tally.total[0], join.tally.total[6]
        assert made / possible == pytest.approx(share, abs=2e-3)


def test_growing_keeps_every_tuple_and_numbers_stay() -> None:
    rng = np.random.default_rng(8)
    left, right = Workload().pair(30, 400, rng)
    windows, condition = Windows((9, 9), 1), Condition("overlap", 3)
    results = []
    for access in ACCESSES:
        join = WindowedJoin(windows, condition, vocabulary=100, access=access)
        assert join.state.time.shape[1] == 1024
        results.append(set(in_pieces(join, left, right, rng)))
        assert join.state.time.shape[1] > 1024
    assert results[0] == results[1]
    scan = ScanJoin(windows, condition)
    stream, _, batch = merge(left.slice(0, 700), right.slice(0, 700))
    plain = {
        pair
        for s, time, items in zip(stream, batch.time, sets_of(batch), strict=True)
        for pair in scan.push(int(s), float(time), items)
    }
    assert plain == {(a, b) for a, b in results[0] if a < 700 and b < 700}


@pytest.mark.parametrize("order", ["time", "identifier"])
def test_the_plain_indexes_equal_the_engine(order: str) -> None:
    left, right = Workload(vocabulary=30).pair(20, 30, np.random.default_rng(4))
    windows = Windows((5, 6), 1)
    index = InvertedIndexJoin(windows, 2, order)  # type: ignore[arg-type]
    stream, _, batch = merge(left, right)
    by_index = {
        pair
        for s, time, items in zip(stream, batch.time, sets_of(batch), strict=True)
        for pair in index.push(int(s), float(time), items)
    }
    assert by_index == brute_force(left, right, windows, Condition("overlap", 2))


def test_time_ordered_lists_can_stop_early_and_cost_fewer_steps() -> None:
    left, right = Workload(vocabulary=30).pair(30, 40, np.random.default_rng(4))
    windows = Windows((10, 10), 1)
    stream, _, batch = merge(left, right)
    steps = {}
    for order in ("time", "identifier"):
        index = InvertedIndexJoin(windows, 2, order)  # type: ignore[arg-type]
        for s, time, items in zip(stream, batch.time, sets_of(batch), strict=True):
            index.push(int(s), float(time), items, oldest_age=2.0)
        steps[order] = index.steps
    assert steps["time"] < steps["identifier"] / 3


def test_empty_batches_and_wrong_streams() -> None:
    join = WindowedJoin(Windows((1, 1), 1), Condition("equality"), vocabulary=3)
    assert len(join.push(0, tuples([], []))) == 0
    with pytest.raises(InvalidInput, match="stream must be 0 or 1, got 2"):
        join.push(2, tuples([], []))
    with pytest.raises(InvalidInput, match="shape"):
        join.select(Selection.of_fractions(np.ones((2, 1, 7))))
    with pytest.raises(InvalidInput, match="vocabulary"):
        WindowedJoin(Windows((1, 1), 1), Condition("equality"), access="bitset")
