"""What a plan does to positions it has not seen, compared with random dropping.

Recorded positions are offered to a real shedder, budget and all; what the server then believes is
compared with what it would believe under Δmin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from planning.arrays import BoolArray, Columns, FloatArray
from planning.errors import StatisticsError, check_between
from planning.families import Outcome
from planning.hashing import GOLDEN, mixed
from planning.lira.kernels import believed
from planning.lira.plan import Plan
from planning.lira.queries import queries_of, query_errors
from planning.lira.shedder import Shedder

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters

BATCH = 2000


def evaluate(
    plan: Plan,
    samples: Columns,
    definition: Definition[Parameters],
    loads: Sequence[float],
) -> tuple[Outcome, ...]:
    """Shed ``samples`` with the plan at each load, and at random, and compare.

    Quality is 1 − E_P/Δmax, at least 0. ``offered`` counts the reports that Δmin causes, and
    ``passed_fraction`` is relative to them.
    """
    rows = in_order(samples)
    if not len(rows["time"]):
        raise StatisticsError("samples must hold at least one position, got none")
    queries, _ = queries_of(definition)
    fastest = definition.parameters.highest_speed
    full = _shed(plan, rows, 1.0, fastest)
    correct = server_view(rows, full, fastest)
    first = _first_rows(rows["object_id"])
    due = int(full.sum()) - int(first.sum())
    scale = plan.frame.high

    def quality(keep: BoolArray) -> float:
        _, errors = query_errors(queries, correct[None], server_view(rows, keep, fastest)[None])
        return max(0.0, 1.0 - float(errors.mean()) / scale) if errors.size else 1.0

    outcomes = []
    for load in loads:
        keep = _shed(plan, rows, load, fastest)
        drawn = full & (first | _spread(len(full), load))
        outcomes.append(
            Outcome(
                load=float(load),
                predicted_quality=plan.predicted_quality(load),
                quality=quality(keep),
                random_quality=quality(drawn),
                passed_fraction=(int((keep & ~first).sum()) / due) if due else 0.0,
                offered=max(due, 1),
            )
        )
    return tuple(outcomes)


def in_order(samples: Columns) -> dict[str, np.ndarray]:
    """Return the positions by time, those at the same time by object id."""
    names = ("object_id", "time", "x", "y")
    columns = {n: np.asarray(samples[n]) for n in names}
    order = np.lexsort((columns["object_id"], columns["time"]))
    return {n: values[order] for n, values in columns.items()}


def _shed(plan: Plan, rows: dict[str, np.ndarray], load: float, fastest: float) -> BoolArray:
    shedder = Shedder(plan, load, highest_speed=fastest)
    size = len(rows["time"])
    masks = [
        shedder.offer({n: v[start : start + BATCH] for n, v in rows.items()})
        for start in range(0, size, BATCH)
    ]
    return np.concatenate(masks)


def _spread(size: int, load: float) -> BoolArray:
    """Draw a fixed fraction of places, without pattern and without a random generator."""
    check_between("load", load, 0.0, 1.0)
    chance = mixed(np.arange(1, size + 1, dtype=np.uint64) * GOLDEN)
    return np.asarray((chance >> np.uint64(11)).astype(np.float64) < load * 2.0**53)


def _first_rows(ids: np.ndarray) -> BoolArray:
    first = np.zeros(len(ids), dtype=np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    return first


def server_view(rows: dict[str, np.ndarray], keep: BoolArray, fastest: float) -> FloatArray:
    """Return where the server believes each row's object is, given the reports that were kept."""
    _, slots = np.unique(rows["object_id"], return_inverse=True)
    out = np.empty((len(keep), 2))
    times, xs, ys = (np.ascontiguousarray(rows[n], dtype=np.float64) for n in ("time", "x", "y"))
    objects = int(slots.max(initial=0)) + 1
    believed(slots.astype(np.int64), times, xs, ys, keep, fastest, objects, out)
    return out
