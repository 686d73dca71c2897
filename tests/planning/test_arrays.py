"""The array helpers: what they share with their input, and what they never change."""

from __future__ import annotations

import numpy as np
import pytest

from planning.arrays import for_reading, frozen, sorted_sum


def test_reading_takes_a_view_and_leaves_the_owner_its_rights() -> None:
    values = np.arange(4.0)
    view = for_reading(values)
    assert np.shares_memory(view, values)
    assert not view.flags.writeable
    assert values.flags.writeable


@pytest.mark.parametrize(
    "values",
    [np.arange(8.0)[::2], np.arange(4, dtype=np.float32), np.arange(4), [0, 1, 2, 3]],
    ids=["strided", "float32", "int", "list"],
)
def test_reading_gives_one_kind_of_array_whatever_comes(values: object) -> None:
    array = for_reading(values)  # type: ignore[arg-type]
    assert array.flags.c_contiguous
    assert array.dtype == np.float64
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, values)


def test_frozen_values_do_not_follow_their_source() -> None:
    values = np.arange(3.0)
    kept = frozen(values)
    values[0] = 7.0
    assert kept.tolist() == [0.0, 1.0, 2.0]


def test_a_sorted_sum_has_the_same_bits_in_any_order() -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-12, 12, 1000)
    assert len({sorted_sum(rng.permutation(values)) for _ in range(20)}) == 1
    assert len({float(rng.permutation(values).sum()) for _ in range(20)}) > 1
