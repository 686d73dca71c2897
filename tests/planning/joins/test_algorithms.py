"""The paper's algorithms: what the printed forms get wrong, and that the corrected ones do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.joins import algorithms
from planning.joins.model import Windows


def test_printed_rate_adaptation_never_recovers_from_zero() -> None:
    r = algorithms.rate_adapt(0.5, 0, 100, printed=True)
    for _ in range(100):
        r = algorithms.rate_adapt(r, 100, 100, printed=True)
    assert r == 0.0
    r = algorithms.rate_adapt(0.5, 0, 100)
    for _ in range(100):
        r = algorithms.rate_adapt(r, 100, 100)
    assert r == 1.0


def test_silence_is_no_overload() -> None:
    with pytest.raises(ZeroDivisionError):
        algorithms.rate_adapt(0.5, 0, 0, printed=True)
    assert algorithms.rate_adapt(0.5, 0, 0) == 0.6


@given(st.floats(0, 1), st.floats(0.1, 50), st.floats(0.1, 50), st.booleans())
def test_direction_adaptation_spends_exactly_the_budget(
    r: float, w1: float, w2: float, first: bool
) -> None:
    windows = Windows((w1, w2), 1.0)
    expected = (2.0, 1.0) if first else (1.0, 2.0)
    r1, r2 = algorithms.direction_adapt(r, windows, expected)
    assert 0 <= r1 <= 1
    assert 0 <= r2 <= 1
    assert r1 * w1 + r2 * w2 == pytest.approx(r * (w1 + w2), rel=1e-9, abs=1e-9)
    better, other = (r1, r2) if first else (r2, r1)
    assert better >= 1 - 1e-9 or other <= 1e-9  # the better window comes first


def test_printed_direction_adaptation_breaks_its_own_constraint() -> None:
    windows = Windows((10.0, 40.0), 1.0)
    r1, r2 = algorithms.direction_adapt(0.3, windows, (2.0, 1.0), printed=True)
    assert r1 * 10 + r2 * 40 != pytest.approx(0.3 * 50)
    same = Windows((20.0, 20.0), 1.0)
    assert algorithms.direction_adapt(0.3, same, (2, 1), printed=True) == pytest.approx(
        algorithms.direction_adapt(0.3, same, (2, 1))
    )


def test_printed_algorithm_5_never_processes_everything() -> None:
    windows = Windows((4.0, 4.0), 1.0)
    ones = np.ones((2, 1))
    printed = algorithms.printed_value_join_adapt(
        1.0, windows, (10, 10), ones, ones, np.ones((2, 5))
    )
    assert printed.sum() == pytest.approx(2 * 4 / 5)  # of 2
    volumes = windows.extents_s[:, None, :]
    assert algorithms.value_join_adapt(1.0, np.ones((2, 1, 5)), volumes).min() == 1.0


def test_printed_algorithm_5_uses_the_types_of_the_wrong_stream() -> None:
    windows = Windows((4.0, 4.0), 1.0)
    frequencies = np.array([[0.9, 0.1], [0.1, 0.9]])  # stream 0 is mostly type 0
    utilities = np.array([[1.0, 0.0], [0.0, 0.0]])  # only type 0 probing window 0 is worth anything
    r = algorithms.printed_value_join_adapt(
        0.05, windows, (10, 10), frequencies, utilities, np.ones((2, 5))
    )
    probes = frequencies[1]  # window 0 is probed by stream 1
    spent = 4.0 * (probes * r[0]).sum() + 4.0 * (frequencies[0] * r[1]).sum()
    assert spent < 0.5 * 0.05 * 8.0  # most of the budget is left unused


def test_printed_time_correlation_divides_by_zero_and_doubles_half_full_basic_windows() -> None:
    with pytest.raises(ZeroDivisionError):
        algorithms.printed_time_correlation_adapt([1, 2, 1], 0.1, 0.0, 1.0, (10, 10), 5.0)
    hits, comparisons = [25, 50, 25], [250, 500, 250]  # the same density everywhere
    printed = algorithms.printed_time_correlation_adapt(hits, 0.1, 1.0, 1.0, (10, 10), 10.0)
    assert printed.expected[0] == printed.expected[1] / 2
    corrected = algorithms.time_correlation_adapt(hits, comparisons)
    assert np.ptp(corrected.expected) == 0.0


def test_unseen_basic_windows_keep_their_last_estimate() -> None:
    before = algorithms.time_correlation_adapt([5, 1], [10, 10])
    after = algorithms.time_correlation_adapt([0, 3], [0, 10], before)
    assert after.expected.tolist() == [0.5, 0.3]
