"""Range queries over the plane: those of a definition, what they are promised, and their errors.

Paper: LIRA, Section 4.1.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planning.arrays import FloatArray
from planning.errors import Mistake
from planning.guarantees import NOWHERE, Guarantee
from planning.lira.parameters import check_query
from planning.query_files import written_queries

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters

Positions = FloatArray | NDArray[np.float32]


class Promises(NamedTuple):
    """Queries with a ``max_delta``, the most important first, and what is asked for them."""

    rows: FloatArray  # (g, 4)
    guarantees: tuple[Guarantee, ...]


def queries_of(definition: Definition[Parameters]) -> tuple[FloatArray, FloatArray]:
    """Return the definition's queries as rows x_low, y_low, x_high, y_high, and their weights.

    Inline queries come first, then those of the file. An absent axis means all of it.
    """
    rows, entries = _read(definition)
    return rows, np.array([float(entry.get("weight", 1.0)) for entry in entries], dtype=np.float64)


def promises_of(definition: Definition[Parameters]) -> Promises:
    """Return the queries that ask for a largest throttler; from which load, a plan will say."""
    rows, entries = _read(definition)
    asked = [
        (number, Guarantee(f"query {entry.get('name') or number}", "max_delta",
                           float(entry["max_delta"]), int(entry.get("priority", 0)), NOWHERE))
        for number, entry in enumerate(entries)
        if entry.get("max_delta") is not None
    ]  # fmt: skip
    asked.sort(key=lambda item: -item[1].priority)
    return Promises(rows[[number for number, _ in asked]], tuple(g for _, g in asked))


def _read(definition: Definition[Parameters]) -> tuple[FloatArray, list[dict[str, Any]]]:
    """Return the rectangles of all queries, and the queries as they are written."""
    spans = {a.name: a.bounds for a in definition.attributes}
    rows, entries = [], written_queries(definition)
    for number, entry in enumerate(entries):
        inline = number < len(definition.queries.inline)
        at = ("queries", "inline", number) if inline else ("queries", "file")
        ranges = dict(entry.get("ranges", {}))
        check_query(f"query {number}", ranges, entry.get("where"), at)
        (x_low, x_high), (y_low, y_high) = (ranges.get(a, spans[a]) for a in ("x", "y"))
        row = (float(x_low), float(y_low), float(x_high), float(y_high))
        weight = float(entry.get("weight", 1.0))
        if not (np.isfinite(row).all() and row[0] <= row[2] and row[1] <= row[3] and weight >= 0):
            allowed = "finite ranges low <= high on x and y and a weight of at least 0"
            raise Mistake(f"query {number}", allowed, f"{row} and {weight:g}", verb="have", at=at)
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(-1, 4), entries


def query_errors(
    queries: FloatArray, correct: Positions, shed: Positions
) -> tuple[FloatArray, FloatArray]:
    r"""Compare results under shedding with correct ones; positions have shape (times, nodes, 2).

    Returns every query's containment error E_C (a ratio) and position error E_P (metres), averaged
    over the times. Where a correct result is empty, containment error counts every extra item as if
    the result had one (|R \ R*| / max(|R*|, 1)); an empty R has no position error.

    >>> q = np.array([[0.0, 0.0, 10.0, 10.0]])
    >>> correct = np.array([[[5.0, 5.0], [20.0, 5.0]]])
    >>> shed = np.array([[[5.0, 8.0], [9.0, 5.0]]])
    >>> containment, position = query_errors(q, correct, shed)
    >>> containment.tolist(), position.tolist()
    ([1.0], [7.0])
    """
    containment = np.zeros(len(queries))
    position = np.zeros(len(queries))
    for k in range(len(correct)):
        _errors(
            np.ascontiguousarray(queries, dtype=np.float64),
            np.asarray(correct[k], dtype=np.float64),
            np.asarray(shed[k], dtype=np.float64),
            containment,
            position,
        )
    times = max(len(correct), 1)
    return containment / times, position / times


@njit(cache=True)
def _errors(queries, correct, shed, containment, position):  # type: ignore[no-untyped-def]
    """Add the errors at one time; with nodes in x order, a query touches only its own strip."""
    n = correct.shape[0]
    lowest = np.minimum(correct[:, 0], shed[:, 0])
    reach = 0.0
    for i in range(n):
        gap = abs(correct[i, 0] - shed[i, 0])
        if gap > reach:
            reach = gap
    order = np.argsort(lowest)  # absent nodes (NaN) come last
    present = n - np.isnan(lowest).sum()
    keys = lowest[order[:present]]
    for q in range(queries.shape[0]):
        x0, y0, x1, y1 = queries[q]
        truly = wrong = kept = 0
        gap = 0.0
        for j in range(np.searchsorted(keys, x0 - reach), present):
            if keys[j] > x1:
                break
            i = order[j]
            cx, cy, sx, sy = correct[i, 0], correct[i, 1], shed[i, 0], shed[i, 1]
            inside = x0 <= cx <= x1 and y0 <= cy <= y1
            believed = x0 <= sx <= x1 and y0 <= sy <= y1
            if inside:
                truly += 1
            if inside != believed:
                wrong += 1
            if believed:
                kept += 1
                gap += np.sqrt((cx - sx) ** 2 + (cy - sy) ** 2)
        containment[q] += wrong / max(truly, 1)
        if kept > 0:
            position[q] += gap / kept
