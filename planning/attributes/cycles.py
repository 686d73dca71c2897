"""The cycle identifier: which attributes name the entity of a tuple, and how long a cycle is.

Two detectors. ``exact`` is the paper's (IV-A): a period that holds without exception, in
:mod:`planning.attributes.printed.exact_cycles`. ``votes`` counts, for every value of an attribute,
which value follows it; the values of a cycle elect their successors by majority, so lost, doubled
and corrupted tuples are outvoted, and a bound on the probability of the same vote in shuffled data
rules out accidents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numba
import numpy as np

from planning.arrays import IntArray
from planning.attributes.kernels import factorize
from planning.columns import Encoded, encode, length_of, row_keys, take
from planning.errors import InvalidInput

MAX_CYCLE = 65_536
MIN_CYCLES = 3  # a value must be seen this often before its successor counts
MIN_SHARE = 0.6  # of all transitions inside the cycle
MIN_COVERAGE = 0.75  # of all tuples belong to the cycle
MAX_IMBALANCE = 2.0  # every value of a cycle occurs about equally often
FALSE_ALARM = 1e-4  # per attribute, bounded by Chernoff over all successor maps
PAIR_ROWS = 100_000  # pairs of attributes are tried on the first rows only
PAIR_ATTRIBUTES = 8

Detector = Literal["votes", "exact"]


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """Successor votes of one attribute: row v of every array is its v-th distinct value.

    ``successor`` is the value that more than half of v's transitions lead to, or -1.
    """

    name: str
    transitions: IntArray  # tuples with value v that have a next tuple
    successor: IntArray
    votes: IntArray  # transitions of v that lead to its successor


class Replicated(NamedTuple):
    """A replicated attribute: its values follow a cycle of fixed length."""

    name: str
    length: int
    share: float
    identifies: bool  # no value occurs twice in a cycle


@dataclass(frozen=True, slots=True)
class CycleIdentifier:
    """The CID of a stream, its cycle length, and what supports them."""

    cid: tuple[str, ...] = ()
    length: int = 1
    replicated: tuple[Replicated, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()  # one-to-one attributes

    @property
    def share(self) -> float:
        """Share of transitions that follow the cycle, for the weakest attribute of the CID."""
        chosen = [r.share for r in self.replicated if r.name in self.cid]
        return min(chosen, default=0.0)


@numba.njit(cache=True)
def _elect(codes: IntArray, distinct: int) -> Any:
    """Boyer–Moore majority per value in one pass, then count its votes."""
    leader = np.full(distinct, -1, np.int64)
    lead = np.zeros(distinct, np.int64)
    transitions = np.zeros(distinct, np.int64)
    for i in range(len(codes) - 1):
        v, w = codes[i], codes[i + 1]
        transitions[v] += 1
        if lead[v] == 0:
            leader[v] = w
            lead[v] = 1
        elif leader[v] == w:
            lead[v] += 1
        else:
            lead[v] -= 1
    votes = np.zeros(distinct, np.int64)
    for i in range(len(codes) - 1):
        if leader[codes[i]] == codes[i + 1]:
            votes[codes[i]] += 1
    for v in range(distinct):
        if 2 * votes[v] <= transitions[v]:
            leader[v] = -1
            votes[v] = 0
    return transitions, leader, votes


def limit_of(rows: int) -> int:
    """Return how many distinct values an attribute may have and still be in a cycle.

    Twice what the rows could show regularly, because corrupted tuples add rare values.
    """
    return max(2, min(2 * MAX_CYCLE, rows // MIN_CYCLES * 2 // 3 + 2))


def cast_votes(name: str, codes: IntArray, distinct: int) -> Votes:
    """Return the successor votes of one attribute, given as codes 0 … distinct − 1."""
    return Votes(name, *_elect(codes, distinct))


def _unlikely(total: int, agreeing: int, chance: float, values: int, alarm: float) -> bool:
    """Whether shuffled data agree this well with any map with probability at most ``alarm``.

    Chernoff: P(Bin(total, chance) >= agreeing) <= exp(-total KL(share, chance)), for each of at
    most values! maps.
    """
    share = agreeing / total
    if not 0 < chance < share:
        return False
    divergence = share * math.log(share / chance)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - chance))
    return math.lgamma(values + 1) - total * divergence < math.log(alarm)


def elected_cycle(votes: Votes, alarm: float = FALSE_ALARM) -> Replicated | None:
    """Return the cycle that the votes of one attribute support, or None.

    The walk along elected successors from the most frequent value must return to it, cover most
    tuples, have values of about equal frequency, and be too regular for shuffled data.
    """
    total = int(votes.transitions.sum())
    if total < 2:
        return None
    start = int(np.argmax(votes.transitions))
    walk = [start]
    seen = {start}
    while (following := int(votes.successor[walk[-1]])) != start:
        if following < 0 or following in seen:
            return None
        walk.append(following)
        seen.add(following)
    if len(walk) < 2:
        return None  # a constant, or a value that mostly stays: not replicated
    inside = np.array(walk)
    counts = votes.transitions[inside]
    covered, agreeing = int(counts.sum()), int(votes.votes[inside].sum())
    if counts.min() < MIN_CYCLES - 1 or counts.max() > MAX_IMBALANCE * counts.min() + 1:
        return None
    if covered < MIN_COVERAGE * total or agreeing < MIN_SHARE * covered:
        return None
    frequency = counts / total
    chance = float((frequency * np.roll(frequency, -1)).sum()) / (covered / total)
    if not _unlikely(covered, agreeing, chance, len(walk), alarm):
        return None
    return Replicated(votes.name, len(walk), agreeing / covered, True)


def codes_of(column: Encoded, limit: int) -> tuple[IntArray, int]:
    """Return a column's values as codes 0, 1, 2 …, and their number; -1 beyond ``limit``."""
    keys = np.ascontiguousarray(column.values + 0.0).view(np.int64)
    return factorize(keys, limit)


def assemble(replicated: Sequence[Replicated]) -> CycleIdentifier:
    """Choose the CID among replicated attributes: the fewest that reach the common length.

    Attributes that identify the position and share a length are one-to-one; lengths combine by
    least common multiple, so an attribute whose length divides the others' adds nothing. Deviation:
    the paper multiplies, which is wrong unless the lengths are coprime.
    """
    groups: dict[int, list[str]] = {}
    for one in replicated:
        if one.identifies:
            groups.setdefault(one.length, []).append(one.name)
    chosen: list[str] = []
    length = 1
    for size in sorted(groups, reverse=True):
        combined = math.lcm(length, size)
        if combined > length and combined <= MAX_CYCLE:
            chosen.append(groups[size][0])
            length = combined
    order = [one.name for one in replicated]
    return CycleIdentifier(
        tuple(sorted(chosen, key=order.index)),
        length,
        tuple(replicated),
        tuple(tuple(names) for names in groups.values()),
    )


def _paired(
    columns: Mapping[str, Encoded], candidates: Sequence[str], known: CycleIdentifier
) -> CycleIdentifier:
    """Try pairs of attributes that form no cycle alone (nested loops: row, column)."""
    cyclic = {one.name for one in known.replicated}
    best = known
    for first, second in combinations(candidates[:PAIR_ATTRIBUTES], 2):
        if first in cyclic and second in cyclic:
            continue
        cut = [columns[name].take(slice(PAIR_ROWS)) for name in (first, second)]
        keys = row_keys(cut, len(cut[0].values))
        codes, distinct = factorize(keys, limit_of(len(keys)))
        if distinct < 2:
            continue
        votes = cast_votes(first, codes, distinct)
        cycle = elected_cycle(votes, FALSE_ALARM / PAIR_ATTRIBUTES**2)
        if cycle is not None and cycle.length > best.length and cycle.length % known.length == 0:
            pair = tuple(
                Replicated(name, cycle.length, cycle.share, False) for name in (first, second)
            )
            others = tuple(one for one in known.replicated if one.name not in (first, second))
            best = CycleIdentifier((first, second), cycle.length, pair + others, known.groups)
    return best


def _dependents(
    columns: Mapping[str, Encoded], coded: Mapping[str, int], cycle: CycleIdentifier
) -> CycleIdentifier:
    """Add attributes that are a function of the position but repeat values inside a cycle."""
    if not cycle.cid:
        return cycle
    rows = min(PAIR_ROWS, len(next(iter(columns.values())).values))
    columns = take(columns, slice(rows))
    position = row_keys([columns[c] for c in cycle.cid], rows)
    entity, entities = factorize(position, rows)
    known = {one.name for one in cycle.replicated}
    extra = []
    for name, distinct in coded.items():
        if name in known or not 2 <= distinct <= cycle.length:
            continue
        codes, _ = codes_of(columns[name], rows)
        if len(np.unique(codes)) < 2:
            continue
        share = _majority_share(entity, entities, codes)
        plain = float(np.bincount(codes).max()) / rows
        if share >= 0.9 and share > plain + 0.05:
            extra.append(Replicated(name, cycle.length, share, False))
    return replace(cycle, replicated=cycle.replicated + tuple(extra))


def _majority_share(entity: IntArray, entities: int, codes: IntArray) -> float:
    width = int(codes.max()) + 1
    counts = np.bincount(entity * width + codes, minlength=entities * width)
    return float(counts.reshape(entities, width).max(axis=1).sum()) / len(codes)


def detect(
    samples: Mapping[str, Any], names: Sequence[str] = (), detector: Detector = "votes"
) -> CycleIdentifier:
    """Return the cycle identifier of samples in stream order (paper IV-A).

    Example 1 of the paper, with its 15 tuples:

    >>> rows = range(15)
    >>> table = {"A1": [f"a{i % 3 + 1}" for i in rows], "A2": ["abc"[i % 3] * 4 for i in rows],
    ...          "A3": ["abcd"[i % 4] for i in rows], "A4": [29.9 + (i * i) % 7 for i in rows]}
    >>> cycle = detect(table)
    >>> cycle.cid, cycle.length, cycle.groups
    (('A1', 'A3'), 12, (('A1', 'A2'), ('A3',)))
    """
    if detector not in ("votes", "exact"):
        raise InvalidInput(f"detector must be votes or exact, got {detector!r}")
    columns = {name: encode(samples[name]) for name in (names or samples)}
    rows = length_of(columns)
    if rows < 2:
        return CycleIdentifier()
    if detector == "exact":
        from planning.attributes.printed import exact_cycles

        return exact_cycles.detect(columns, rows)
    coded: dict[str, int] = {}
    replicated: list[Replicated] = []
    for name, column in columns.items():
        codes, distinct = codes_of(column, limit_of(rows))
        if distinct < 2:
            continue
        coded[name] = distinct
        cycle = elected_cycle(cast_votes(name, codes, distinct))
        if cycle is not None:
            replicated.append(cycle)
    return complete(columns, coded, replicated)


def complete(
    columns: Mapping[str, Encoded], distinct: Mapping[str, int], replicated: Sequence[Replicated]
) -> CycleIdentifier:
    """Finish detection from the cycles of single attributes: CID, pairs, dependents.

    ``columns`` may be the first ``PAIR_ROWS`` rows only; ``distinct`` counts the values of every
    attribute that has neither one value nor too many.
    """
    known = assemble(replicated)
    candidates = sorted(distinct, key=lambda name: (distinct[name], name))
    return _dependents(columns, distinct, _paired(columns, candidates, known))
