"""Range queries over the plane: generators of Section 4.2 and evaluation of Section 4.1.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planning.arrays import FloatArray
from planning.errors import InvalidInput
from planning.query_files import written_queries

Positions = FloatArray | NDArray[np.float32]
Distribution = Literal["proportional", "inverse", "random"]
DENSITY_CELLS = 32  # a side of the coarse raster that "inverse" is the inverse of


@dataclass(frozen=True, slots=True)
class QueryErrors:
    """Errors of a set of query results, averaged over queries and evaluation times.

    Attributes
    ----------
    containment, position
        E_C (a ratio) and E_P (metres).
    containment_deviation, position_deviation
        D_ev of both over queries (each query's error first averaged over time).
    """

    containment: float
    position: float
    containment_deviation: float
    position_deviation: float

    @property
    def containment_variation(self) -> float:
        """C_ov = D_ev / E of containment; 0 without error."""
        return self.containment_deviation / self.containment if self.containment > 0 else 0.0


def queries_of(definition: Any) -> tuple[FloatArray, FloatArray]:
    """Return the definition's queries as rows x_low, y_low, x_high, y_high, and their weights.

    Inline queries come first, then those of the file. An absent axis means all of it.
    """
    spans = {a.name: a.bounds for a in definition.attributes}
    rows, weights = [], []
    for number, entry in enumerate(written_queries(definition)):
        ranges = dict(entry.get("ranges", {}))
        if entry.get("where") or not set(ranges) <= {"x", "y"}:
            raise InvalidInput(
                f"query {number} must be ranges of x and y, got "
                + ("where" if entry.get("where") else ", ".join(sorted({*ranges} - {"x", "y"})))
            )
        (x_low, x_high), (y_low, y_high) = (ranges.get(a, spans[a]) for a in ("x", "y"))
        row = (float(x_low), float(y_low), float(x_high), float(y_high))
        weight = float(entry.get("weight", 1.0))
        if not (np.isfinite(row).all() and row[0] <= row[2] and row[1] <= row[3] and weight >= 0):
            raise InvalidInput(
                f"query {number} must have finite ranges low <= high on x and y and a weight of at "
                f"least 0, got {row} and {weight:g}"
            )
        rows.append(row)
        weights.append(weight)
    return np.array(rows, dtype=np.float64).reshape(-1, 4), np.array(weights, dtype=np.float64)


def generate_queries(
    rng: np.random.Generator,
    distribution: Distribution,
    count: int,
    side_m: float,
    bounds: tuple[float, float, float, float],
    positions: FloatArray,
) -> FloatArray:
    """Return ``count`` rows (x_low, y_low, x_high, y_high), sides in [w/2, w].

    Proportional: centres are node positions. Inverse: a cell of a coarse raster is drawn with
    probability inverse to its number of nodes plus one, the centre evenly inside. Random: evenly.
    Queries are moved to lie inside the space where they fit.
    """
    x_low, y_low, x_high, y_high = bounds
    if count < 0 or not 0 < side_m:
        raise InvalidInput(
            f"queries need count >= 0 and a side above 0, got {count} and {side_m:g}"
        )
    width, height = x_high - x_low, y_high - y_low
    if distribution == "proportional":
        if len(positions) == 0:
            raise InvalidInput("proportional queries follow the nodes, got no node positions")
        centre = np.asarray(positions, dtype=np.float64)[rng.integers(len(positions), size=count)]
    elif distribution == "inverse":
        k = DENSITY_CELLS
        counts, _, _ = np.histogram2d(
            positions[:, 0], positions[:, 1], bins=k, range=[[x_low, x_high], [y_low, y_high]]
        )
        chance = 1.0 / (1.0 + counts.ravel())
        cell = rng.choice(k * k, size=count, p=chance / chance.sum())
        inside = rng.random((count, 2))
        centre = np.column_stack(
            [
                x_low + (cell // k + inside[:, 0]) / k * width,
                y_low + (cell % k + inside[:, 1]) / k * height,
            ]
        )
    elif distribution == "random":
        centre = np.array([x_low, y_low]) + rng.random((count, 2)) * [width, height]
    else:
        raise InvalidInput(
            f"distribution must be proportional, inverse or random, got {distribution!r}"
        )
    side = rng.uniform(side_m / 2, side_m, size=count)
    x = _inside(centre[:, 0] - side / 2, side, x_low, x_high)
    y = _inside(centre[:, 1] - side / 2, side, y_low, y_high)
    return np.column_stack([x, y, x + side, y + side])


def _inside(low: FloatArray, side: FloatArray, bottom: float, top: float) -> FloatArray:
    return np.maximum(np.minimum(low, top - side), bottom)


def query_errors(
    queries: FloatArray, correct: Positions, shed: Positions
) -> QueryErrors:
    r"""Compare results under shedding with correct ones; positions have shape (times, nodes, 2).

    Where a correct result is empty, containment error counts every extra item as if the result had
    one (|R \ R*| / max(|R*|, 1)); an empty R has no position error. No queries: no error.

    >>> q = np.array([[0.0, 0.0, 10.0, 10.0]])
    >>> correct = np.array([[[5.0, 5.0], [20.0, 5.0]]])
    >>> shed = np.array([[[5.0, 8.0], [9.0, 5.0]]])
    >>> errors = query_errors(q, correct, shed)
    >>> errors.containment, errors.position
    (1.0, 7.0)
    """
    if len(queries) == 0 or len(correct) == 0:
        return QueryErrors(0.0, 0.0, 0.0, 0.0)
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
    containment /= len(correct)
    position /= len(correct)
    return QueryErrors(
        float(containment.mean()), float(position.mean()),
        float(containment.std()), float(position.std()),
    )  # fmt: skip


@njit(cache=True)
def _errors(queries, correct, shed, containment, position):  # type: ignore[no-untyped-def]
    """Add the errors of one moment; nodes in x order make a query touch only its own strip."""
    n = correct.shape[0]
    lowest = np.minimum(correct[:, 0], shed[:, 0])
    reach = 0.0
    for i in range(n):
        gap = abs(correct[i, 0] - shed[i, 0])
        if gap > reach:
            reach = gap
    order = np.argsort(lowest)  # absent nodes (NaN) come last
    present = n
    while present > 0 and np.isnan(lowest[order[present - 1]]):
        present -= 1
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
