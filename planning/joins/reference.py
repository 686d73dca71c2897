"""The join by definition: every pair, checked with Python sets. Slow, obvious, used in tests."""

from __future__ import annotations

from planning.joins.model import Condition, Tuples, Windows, matches


def brute_force(
    left: Tuples, right: Tuples, windows: Windows, condition: Condition
) -> set[tuple[int, int]]:
    """Return every pair (row of stream 0, row of stream 1) of the full join.

    A pair belongs to it when the later tuple comes before the earlier one has expired, that is
    unless T - T(t_o) > w, and the condition holds (Section 3.2).

    >>> from planning.joins.model import single_values
    >>> a, b = single_values([0.0, 5.0], [1, 1]), single_values([2.0, 2.5], [1, 1])
    >>> sorted(brute_force(a, b, Windows((2, 3), 1), Condition("equality")))
    [(0, 0), (1, 0), (1, 1)]
    """
    left_sets = [left.set_of(row) for row in range(len(left))]
    right_sets = [right.set_of(row) for row in range(len(right))]
    pairs = set()
    for a, a_time in enumerate(left.time.tolist()):
        for b, b_time in enumerate(right.time.tolist()):
            if a_time <= b_time:
                inside = not b_time - a_time > windows.window_s[0]
            else:
                inside = not a_time - b_time > windows.window_s[1]
            if inside and matches(condition, left_sets[a], right_sets[b]):
                pairs.add((a, b))
    return pairs
