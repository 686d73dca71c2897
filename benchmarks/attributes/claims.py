"""What the paper's text states about its examples, tables and figures, next to what was measured.

One function per part takes what :mod:`benchmarks.attributes.reproduce` measured. Generated streams
and other real data replace the paper's nine sites of 2006, which are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.attributes.experiments import Comparison
from benchmarks.reproduction import Claim
from planning.arrays import FloatArray
from planning.attributes import cycles, model
from planning.attributes.printed.ranking import shedding_order

TABLE_1 = {
    "A1": [f"a{i % 3 + 1}" for i in range(15)],
    "A2": ["abc"[i % 3] * 4 for i in range(15)],
    "A3": ["abcd"[i % 4] for i in range(15)],
    "A4": [29.91, 27.96, 30.09, 30.09, 29.91, 29.80, 29.77, 30.09, 30.18, 29.94, 29.91, 30.00,
           30.00, 30.09, 29.78],
}  # fmt: skip
EXAMPLE_3 = {"A": (0.0, 0.0, 14.0, 14.0), "B": (0.0, 6.0, 8.0, 14.0), "C": (6.0, 6.0, 8.0, 8.0)}
STATED_HITS = 94.3
HITS_WITHIN = 1.0  # windows of 100
STRAIGHT = 0.95  # correlation with a straight line


def examples() -> list[Claim]:
    """Compute the paper's worked examples.

    >>> [claim.verdict for claim in examples()]
    ['reproduced', 'reproduced']
    """
    cycle = cycles.detect(TABLE_1)
    lengths = {one.name: one.length for one in cycle.replicated}
    deviation = [model.standard_deviation(np.array(values)) for values in EXAMPLE_3.values()]
    order = [list(EXAMPLE_3)[j] for j in shedding_order(deviation)[::-1]]
    return [
        Claim("Table I, Example 1", "cycle lengths 3, 3, 4; CID {A1, A3}; cycle length 12",
              f"cycle lengths {', '.join(map(str, lengths.values()))}; "
              f"CID {{{', '.join(cycle.cid)}}}; cycle length {cycle.length}",
              lengths == {"A1": 3, "A2": 3, "A3": 4} and cycle.cid == ("A1", "A3")
              and cycle.length == 12, "as found"),
        Claim("Example 3", "standard deviations 7, 5, 1; ranked A, B, C",
              f"{', '.join(f'{d:g}' for d in deviation)}; ranked {', '.join(order)}",
              np.allclose(deviation, [7, 5, 1]) and order == ["A", "B", "C"], "as found"),
    ]  # fmt: skip


def table_2(right: int, streams: int) -> Claim:
    """Compare the detected CIDs on clean data."""
    return Claim(
        "Table II", "100 % of the CIDs detected on training and test data",
        f"{right} of {streams} clean streams", right == streams, "see the table below",
    )  # fmt: skip


def figure_1(before: FloatArray, after: FloatArray) -> Claim:
    """Compare how far neighbouring values are apart."""
    ratio = float(np.nanmean(np.abs(np.diff(after))) / np.nanmean(np.abs(np.diff(before))))
    return Claim(
        "Figure 1, Example 2", "the curve after preprocessing is smoother",
        f"steps from value to value are {ratio:.0%} as large", ratio < 1, "no smoother",
    )  # fmt: skip


def figure_3(by_deviation: Sequence[str], by_score: Sequence[str]) -> Claim:
    """Compare which attribute is shed first by deviation and by information score."""
    first, sound = by_deviation[0], by_score[0]
    return Claim(
        "Figure 3", "the standard deviation identifies the less informative attributes",
        f"it sheds {first} first, which is number {by_score.index(first) + 1} of "
        f"{len(by_score)} by information score; {sound} is the first there",
        first == sound, "over one window it compares stations, not times, and has a unit",
    )  # fmt: skip


def table_4(hits: float) -> Claim:
    """Compare the average number of hits."""
    return Claim(
        "Table IV", f"{STATED_HITS} hits and {100 - STATED_HITS:.1f} misses on average",
        f"{hits:.1f} hits and {100 - hits:.1f} misses", abs(hits - STATED_HITS) <= HITS_WITHIN,
        f"more than {HITS_WITHIN:g} apart; the paper does not state its smoothing",
    )  # fmt: skip


def figure_4(correlation: Mapping[str, float]) -> Claim:
    """Judge whether the number of attributes grows linearly with the rate."""
    return Claim(
        "Figure 4", "the number of attributes to shed grows linearly with R at constant C",
        "correlation with a straight line " + ", ".join(
            f"{r:.3f} ({name})" for name, r in correlation.items()),
        min(correlation.values()) >= STRAIGHT, "the steps are no straight line",
    )  # fmt: skip


def adaptive(rows: Sequence[Sequence[Any]]) -> Claim:
    """Compare what the two ways of re-evaluating notice."""
    (_, _, changes, first), (_, _, missed, _) = rows
    return Claim(
        "Section IV-C, half-hour example",
        "adaptive re-evaluation notices the change, the hourly check never does",
        f"adaptive at {first}, {changes} changes a day; hourly {missed}",
        changes > 0 and missed == 0, "see the table below",
    )  # fmt: skip


def comparison(compared: Sequence[Comparison]) -> list[Claim]:
    """Compare shedding attributes with shedding tuples at equal bytes."""
    shown = [c for c in compared if c.load in (0.8, 0.5)]
    paper, best = (
        {c.load: c.gain for c in shown if c.method == method} for method in ("paper", "on_change")
    )
    return [
        Claim("Sections I and III", "shedding attributes loses less information than tuples",
              ", ".join(f"C/R = {load:g}: tuple dropping has {gain:.2g} of the paper's hold error, "
                        f"{best[load]:.3g} times on_change's" for load, gain in paper.items()),
              min(paper.values()) > 1,
              "the paper's ranking sheds what changes most; chosen by hold error, it holds"),
    ]  # fmt: skip
