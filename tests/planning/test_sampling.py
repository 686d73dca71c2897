"""Keys and samples depend on the values alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.errors import InvalidInput
from planning.sampling import draw, in_holdout, sample_ranks, stable_keys

VALUES = st.lists(st.integers(-3, 3), min_size=1, max_size=60)


def splitmix64(state: int) -> int:
    """Return the first output of the published generator, in Python's integers."""
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_keys_are_the_published_hash_of_the_bits():
    # 0.0 has no bit set, so the first key of a column is splitmix64 of zero, and so on.
    assert splitmix64(0) == 0xE220A8397B1DCDAF
    zero = np.zeros(1)
    assert stable_keys([zero]).tolist() == [splitmix64(0)]
    assert stable_keys([zero, zero]).tolist() == [splitmix64(splitmix64(0))]
    golden = 0x9E3779B97F4A7C15
    for value in (1.5, -2.0, 1e300):
        bits = int(np.float64(value).view(np.uint64))
        assert stable_keys([np.array([value])]).tolist() == [
            splitmix64(((golden ^ bits) - golden) % 2**64)
        ]


def test_texts_of_any_array_type_agree():
    texts = ["a", "ü", ""]
    keys = stable_keys([np.array(texts)]).tolist()
    assert keys == stable_keys([np.array(texts, dtype=object)]).tolist()
    assert len(set(keys)) == 3


def test_numbers_count_by_value_whatever_their_type():
    kinds = (np.float64, np.float32, np.int16, np.int64, np.uint8)
    keys = {int(stable_keys([np.array([7], dtype=kind)])[0]) for kind in kinds}
    assert len(keys) == 1
    zeros = stable_keys([np.array([0.0, -0.0])])
    assert zeros[0] == zeros[1]


def test_columns_do_not_swap():
    a, b = np.array([1.0]), np.array([2.0])
    assert stable_keys([a, b]) != stable_keys([b, a])


def test_keys_look_random():
    keys = stable_keys([np.arange(100_000) / 7.0])
    assert len(np.unique(keys)) == 100_000
    counts = np.bincount((keys >> np.uint64(58)).astype(np.int64), minlength=64)
    # 64 buckets of 1562.5 expected; six standard deviations.
    assert np.abs(counts - 1562.5).max() < 6 * np.sqrt(1562.5)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 0.9, 1.0])
def test_holdout_takes_its_share(fraction):
    held = in_holdout(stable_keys([np.arange(20_000)]), fraction)
    assert abs(held.mean() - fraction) < 0.015


@given(VALUES, st.integers(1, 70), st.randoms(use_true_random=False))
def test_draw_depends_on_the_multiset_alone(values, size, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    first, second = np.array(values), np.array(shuffled)
    drawn = first[draw([first], size)]
    assert drawn.tolist() == second[draw([second], size)].tolist()
    assert len(drawn) == min(size, len(values))


@given(VALUES, st.integers(1, 70))
def test_every_value_is_drawn_in_proportion(values, size):
    array = np.array(values)
    drawn = array[draw([array], size)]
    for value in set(values):
        expected = (array == value).sum() * len(drawn) / len(array)
        assert abs((drawn == value).sum() - expected) <= 1


@given(st.integers(0, 10**12), st.integers(1, 300))
def test_ranks_are_distinct_and_in_range(total, size):
    ranks = sample_ranks(total, size)
    assert len(ranks) == min(total, size)
    assert (np.diff(ranks) >= 1).all()
    assert len(ranks) == 0 or 0 <= ranks[0] <= ranks[-1] < total


def test_nothing_to_hash_is_an_error():
    with pytest.raises(InvalidInput, match="at least one array"):
        stable_keys([])
