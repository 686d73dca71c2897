"""The join in plain Python: by definition, as a scan, and with inverted indexes of two orders.

What the compiled engine is tested and measured against. The index keeps one list per item;
*time-ordered* lists insert and expire in constant time and can stop at a point in time,
*identifier-ordered* ones need a search for each and cannot (Section 4.2).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Literal

from planning.joins.model import Condition, Tuples, Windows

Items = dict[int, float]


def sets_of(batch: Tuples) -> list[Items]:
    """Return the items of every tuple with their weights.

    >>> from planning.joins.model import tuples
    >>> sets_of(tuples([0.5, 0.7], [{3, 1}, {2: 0.5}]))
    [{1: 1.0, 3: 1.0}, {2: 0.5}]
    """
    items, weights = batch.items.tolist(), batch.weights.tolist()
    edges = batch.first.tolist()
    return [
        dict(zip(items[a:b], weights[a:b], strict=True))
        for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]


def matches(condition: Condition, left: Items, right: Items) -> bool:
    """Whether a tuple of stream 0 and one of stream 1 match: the definition, on plain dicts.

    >>> from planning.joins.model import CONDITIONS
    >>> a, b = dict.fromkeys([1, 2, 3], 1.0), dict.fromkeys([2, 3], 1.0)
    >>> [matches(Condition(kind, 2), a, b) for kind in CONDITIONS]
    [False, False, True, True, True]
    """
    common = sorted(left.keys() & right.keys())
    if condition.kind == "equality":
        return left.keys() == right.keys()
    if condition.kind == "subset":
        return left.keys() <= right.keys()
    if condition.kind == "superset":
        return left.keys() >= right.keys()
    if condition.kind == "overlap":
        return len(common) >= condition.threshold
    total = 0.0
    for item in common:  # ascending, as every engine adds
        total += left[item] * right[item]
    return bool(common) and total >= condition.threshold


def brute_force(
    left: Tuples, right: Tuples, windows: Windows, condition: Condition
) -> set[tuple[int, int]]:
    """Return every pair (row of stream 0, row of stream 1) of the full join.

    A pair belongs to it when the later tuple arrives before the earlier one has expired, i.e.
    unless T - T(t_o) > w, and the condition holds (Section 3.2).

    >>> from benchmarks.joins.workload import single_values
    >>> a, b = single_values([0.0, 5.0], [1, 1]), single_values([2.0, 2.5], [1, 1])
    >>> sorted(brute_force(a, b, Windows((2, 3), 1), Condition("equality")))
    [(0, 0), (1, 0), (1, 1)]
    """
    left_sets, right_sets = sets_of(left), sets_of(right)
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


class ScanJoin:
    """Compare every arriving tuple with every tuple of the other window (Figure 3)."""

    def __init__(self, windows: Windows, condition: Condition) -> None:
        self.windows, self.condition = windows, condition
        self._held: tuple[deque[tuple[float, int, Items]], ...] = (deque(), deque())
        self._numbers = [0, 0]

    def push(self, stream: int, time: float, items: Items) -> list[tuple[int, int]]:
        """Process one tuple; tuples must arrive in order of time."""
        number = self._numbers[stream]
        self._numbers[stream] += 1
        other = self._held[1 - stream]
        while other and time - other[0][0] > self.windows.window_s[1 - stream]:
            other.popleft()
        pairs = []
        for _, mate, stored in other:
            left, right = (items, stored) if stream == 0 else (stored, items)
            if matches(self.condition, left, right):
                pairs.append((number, mate) if stream == 0 else (mate, number))
        self._held[stream].append((time, number, items))
        return pairs


class InvertedIndexJoin:
    """An overlap join over inverted indexes; ``steps`` counts list operations.

    Parameters
    ----------
    order
        ``"time"``: lists in order of arrival, expiry at the old end, search can stop at an age.
        ``"identifier"``: lists sorted by an identifier unrelated to time.
    """

    def __init__(
        self, windows: Windows, threshold: int, order: Literal["time", "identifier"] = "time"
    ) -> None:
        self.windows, self.threshold, self.order = windows, threshold, order
        self.steps = 0
        self._lists: tuple[dict[int, deque[tuple[float, int]]], ...] = ({}, {})
        self._sorted: tuple[dict[int, list[tuple[int, float, int]]], ...] = ({}, {})
        self._held: tuple[deque[tuple[float, int, Items]], ...] = (deque(), deque())
        self._numbers = [0, 0]

    def push(
        self, stream: int, time: float, items: Items, oldest_age: float = float("inf")
    ) -> list[tuple[int, int]]:
        """Process one tuple, against stored tuples of at most ``oldest_age``."""
        number = self._numbers[stream]
        self._numbers[stream] += 1
        self._expire(1 - stream, time)
        counts: dict[int, int] = {}
        for item in items:
            for mate in self._search(1 - stream, item, time - oldest_age):
                counts[mate] = counts.get(mate, 0) + 1
        self._insert(stream, time, number, items)
        mates = sorted(mate for mate, common in counts.items() if common >= self.threshold)
        return [(number, mate) if stream == 0 else (mate, number) for mate in mates]

    def _search(self, i: int, item: int, since: float) -> list[int]:
        if self.order == "time":
            mates = []
            for time, mate in reversed(self._lists[i].get(item, ())):
                self.steps += 1
                if time < since:
                    break
                mates.append(mate)
            return mates
        entries = self._sorted[i].get(item, [])
        self.steps += len(entries)
        return [mate for _, time, mate in entries if time >= since]

    def _insert(self, i: int, time: float, number: int, items: Items) -> None:
        for item in items:
            if self.order == "time":
                self._lists[i].setdefault(item, deque()).append((time, number))
                self.steps += 1
            else:
                entries = self._sorted[i].setdefault(item, [])
                insort(entries, (_identifier(number), time, number))
                self.steps += len(entries).bit_length()
        self._held[i].append((time, number, items))

    def _expire(self, i: int, now: float) -> None:
        held, limit = self._held[i], self.windows.window_s[i]
        while held and now - held[0][0] > limit:
            time, number, items = held.popleft()
            for item in items:
                if self.order == "time":
                    self._lists[i][item].popleft()
                    self.steps += 1
                else:
                    entries = self._sorted[i][item]
                    del entries[bisect_left(entries, (_identifier(number), time, number))]
                    self.steps += len(entries).bit_length()


def _identifier(number: int) -> int:
    """Scramble a number: a pointer's order has nothing to do with time."""
    return (number * 2654435761) & 0xFFFFFFFF
