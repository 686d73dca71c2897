"""What a plan does to a stream, compared with dropping whole tuples at equal bytes.

The measure is the hold error: how far the last value that the receiver has is from the true one,
at every report of every entity, normalised so that an unrelated value of the same entity counts 1
(see :mod:`planning.attributes.statistics.sums`), averaged over attributes by weight. Before
anything was received, the error counts 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.attributes import kernels
from planning.attributes.memory import GOLDEN, Entities
from planning.attributes.plan import Plan
from planning.attributes.shedder import Shedder
from planning.attributes.statistics.build import in_stream_order
from planning.batches import Batch
from planning.columns import Encoded, length_of
from planning.families import Definition, Outcome

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A stream prepared for replay, and where each tuple belongs."""

    columns: Mapping[str, Encoded]
    rows: int
    streams: IntArray
    slots: IntArray
    values: FloatArray

    @classmethod
    def of(cls, plan: Plan, samples: Mapping[str, Any], order_by: Sequence[str] = ()) -> Trace:
        """Encode samples for a plan, in stream order."""
        columns = in_stream_order(samples, plan.attributes, order_by)
        rows = length_of(columns)
        streams, slots = Entities(plan).locate(columns, rows)
        values = np.stack([columns[name].values for name in plan.attributes], axis=1)
        return cls(columns, rows, streams, slots, values)


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a replay sent and what the receiver was left with."""

    bytes: IntArray  # per tuple
    hold_error: FloatArray  # (streams, attributes), normalised
    reports: IntArray  # per stream
    loss: float


def measure(plan: Plan, trace: Trace, keep: BoolArray, sent: IntArray) -> Result:
    """Return the hold error that a keep mask leaves at the receiver."""
    scale = np.stack([s.scale for s in plan.streams])
    entities = int(trace.slots.max(initial=-1)) + 1
    error, reports = kernels.held_errors(
        trace.streams, trace.slots, trace.values, keep, plan.numeric, scale, entities
    )
    weight = np.where(plan.informative, plan.weight, 0.0) * reports[:, None]
    total = float(weight.sum())
    error = error / np.maximum(reports, 1)[:, None]
    loss = float((error * weight).sum()) / total if total else 0.0
    return Result(sent, error, reports, loss)


def replay(plan: Plan, trace: Trace, load: float) -> Result:
    """Run the shedder over a trace."""
    sent = Shedder(plan, load).send(Batch(trace.columns, trace.rows))
    return measure(plan, trace, sent.keep, sent.bytes)


def drop_tuples(plan: Plan, trace: Trace, load: float) -> Result:
    """Drop whole tuples instead: every entity keeps the fraction ``load``, evenly spaced.

    The strongest form of tuple dropping. Simply dropping every k-th tuple of the stream would
    silence the same entities for ever when k divides the cycle length.
    """
    phase = (trace.slots * GOLDEN) % 1.0
    nth = _running_count(trace.slots)
    kept = np.floor((nth + 1) * load + phase) > np.floor(nth * load + phase)
    kept |= load >= 1.0
    keep = np.repeat(kept[:, None], trace.values.shape[1], axis=1)
    full = np.array([s.full_bytes for s in plan.streams], dtype=np.int64)
    sent = np.where(kept & (trace.streams >= 0), full[trace.streams], 0)
    return measure(plan, trace, keep, sent)


def _running_count(slots: IntArray) -> IntArray:
    """Return how many earlier tuples each tuple's entity has had."""
    order = np.argsort(slots, kind="stable")
    first = np.ones(len(slots), dtype=np.bool_)
    first[1:] = np.diff(slots[order]) != 0
    start = np.maximum.accumulate(np.where(first, np.arange(len(slots)), 0))
    count = np.empty(len(slots), dtype=np.int64)
    count[order] = np.arange(len(slots)) - start
    return count


def full_bytes(plan: Plan, trace: Trace) -> int:
    """Return the bytes of the whole trace before shedding."""
    sizes = np.array([s.full_bytes for s in plan.streams], dtype=np.int64)
    return int(sizes[trace.streams[trace.streams >= 0]].sum())


def evaluate(
    plan: Plan,
    samples: Mapping[str, Any],
    definition: Definition[Parameters],
    loads: Sequence[float],
) -> tuple[Outcome, ...]:
    """Shed samples with the plan at several loads; compare with tuple dropping at equal bytes."""
    trace = Trace.of(plan, samples, definition.parameters.order_by)
    offered = full_bytes(plan, trace)
    outcomes = []
    for load in loads:
        mine = replay(plan, trace, load)
        other = drop_tuples(plan, trace, load)
        outcomes.append(
            Outcome(
                load=load,
                predicted_quality=plan.predicted_quality(load),
                quality=max(0.0, 1.0 - mine.loss),
                random_quality=max(0.0, 1.0 - other.loss),
                passed_fraction=float(mine.bytes.sum()) / offered if offered else 1.0,
                offered=trace.rows,
            )
        )
    return tuple(outcomes)
