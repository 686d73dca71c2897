"""What a plan does to a stream, compared with what is simple at the same capacity.

The measure is the hold error: how far the last value that the receiver has is from the true one,
at every report of every entity, normalised so that an unrelated value of the same entity counts 1
(see :mod:`planning.attributes.statistics.sums`), averaged over attributes by weight. Before
anything was received, the error counts 1. What is unrelated is learnt from the plan's samples or
from these, whichever spread more: after a dry month, the first rain is no loss without bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planning import rehearsal
from planning.arrays import BoolArray, FloatArray, IntArray, frozen, frozen_ints
from planning.attributes import kernels
from planning.attributes.memory import GOLDEN, Entities
from planning.attributes.plan import PERIODIC, Plan
from planning.attributes.shedder import Shedder
from planning.attributes.statistics.build import in_stream_order
from planning.batches import Batch
from planning.columns import Encoded, length_of, take
from planning.families import Definition, Outcome
from planning.rehearsal import Load, Rehearsal

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters

BLOCKS = 20  # stretches of a stream whose errors are compared
FEWER_BANDS = tuple(np.geomspace(0.02, 5.0, 7).tolist())
CLOSER = (0.63, 0.8, 1.25, 1.6)  # times the best of them


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A stream prepared for replay, and where each tuple belongs."""

    columns: Mapping[str, Encoded]
    rows: int
    streams: IntArray
    slots: IntArray
    values: FloatArray
    scale: FloatArray  # (streams, attributes)

    @classmethod
    def of(cls, plan: Plan, samples: Mapping[str, Any], order_by: Sequence[str] = ()) -> Trace:
        """Encode samples for a plan, in stream order."""
        columns = in_stream_order(samples, plan.attributes, order_by)
        rows = length_of(columns)
        streams, slots = Entities(plan).locate(columns, rows)
        values = np.stack([columns[name].values for name in plan.attributes], axis=1)
        scale = np.stack([s.scale for s in plan.streams])
        for stream in range(len(scale)):
            rows_of = np.flatnonzero((streams == stream) & (slots >= 0))
            for j, numeric in enumerate(plan.numeric.tolist()):
                fresh = spread_of(values[rows_of, j], slots[rows_of], numeric)
                scale[stream, j] = max(scale[stream, j], fresh)
        return cls(columns, rows, streams, slots, values, scale)

    def batch(self, start: int, stop: int) -> Batch:
        """Return some tuples, as a node is offered them."""
        return Batch(take(self.columns, slice(start, stop)), min(stop, self.rows) - start)


def spread_of(values: FloatArray, slots: IntArray, numeric: bool) -> float:
    """Return the distance that counts 1: of two unrelated values of the same entity.

    >>> slots = np.array([0, 0, 1, 1])
    >>> round(spread_of(np.array([1.0, 3.0, 7.0, 7.0]), slots, True) ** 2, 9)  # twice the variance
    2.0
    >>> round(spread_of(np.array([1.0, 2.0, 5.0, 5.0]), slots, False) ** 2, 9)  # one pair of two
    0.5
    """
    if numeric:
        known = ~np.isnan(values)
        values, slots = values[known], slots[known]
        counts = np.bincount(slots)
        mean = np.bincount(slots, values) / np.maximum(counts, 1)
        freedom = int(np.maximum(counts - 1, 0).sum())
        return float(np.sqrt(2.0 * np.square(values - mean[slots]).sum() / max(freedom, 1)))
    counts = np.bincount(slots)
    pairs = np.stack([slots.astype(np.float64), np.nan_to_num(values, nan=-1.0)])
    alike = np.unique(pairs, axis=1, return_counts=True)[1].astype(np.float64)
    possible = float((counts * (counts - 1.0)).sum())
    return float(np.sqrt((np.square(counts).sum() - np.square(alike).sum()) / max(possible, 1.0)))


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What the receiver was left with after the first tuples of a stream."""

    hold_error: FloatArray  # (streams, attributes), normalised
    lost: FloatArray  # per tuple; 1: everything is worthless
    passed_fraction: float = 1.0

    @property
    def loss(self) -> float:
        """Mean over all tuples of known streams."""
        return float(self.lost.mean()) if len(self.lost) else 0.0

    @property
    def quality(self) -> float:
        """1 minus the loss, and never below 0."""
        return max(0.0, 1.0 - self.loss)


def measure(plan: Plan, trace: Trace, keep: BoolArray) -> Result:
    """Return the hold error that a keep mask leaves at the receiver."""
    rows = len(keep)
    streams, slots = trace.streams[:rows], trace.slots[:rows]
    weight = np.where(plan.informative, plan.weight, 0.0)
    error, lost, reports = kernels.held_errors(
        streams, slots, trace.values, keep, plan.numeric, trace.scale, weight,
        int(slots.max(initial=-1)) + 1,
    )  # fmt: skip
    known = (streams >= 0) & (slots >= 0)
    mean = float(weight.sum(axis=1)[streams[known]].mean()) if known.any() else 0.0
    return Result(error / np.maximum(reports, 1)[:, None], lost[known] / (mean or 1.0))


def replay(
    plan: Plan, trace: Trace, load: Load, size: int = rehearsal.USUAL, rows: int | None = None
) -> Result:
    """Offer a trace, or its first rows, to a node in batches."""
    rows = trace.rows if rows is None else min(rows, trace.rows)
    at = rehearsal.along(load, rows)
    node = Rehearsal(plan, "attributes", float(at[0]) if rows else 1.0)
    masks = [
        node.offer(trace.batch(start, min(start + size, rows)), float(at[start]))
        for start in range(0, rows, size)
    ]
    keep = np.concatenate(masks) if masks else node.shedder.nothing(0)
    passed = node.shedder.counters.passed_fraction
    return replace(measure(plan, trace, keep), passed_fraction=passed)


def drop_tuples(plan: Plan, trace: Trace, load: Load) -> Result:
    """Drop whole tuples instead: every entity keeps the fraction ``load``, evenly spaced.

    The strongest form of tuple dropping. Simply dropping every k-th tuple of the stream would
    silence the same entities for ever when k divides the cycle length.
    """
    kept = tuples_kept(trace, load)
    keep = np.repeat(kept[:, None], trace.values.shape[1], axis=1)
    return replace(measure(plan, trace, keep), passed_fraction=float(kept.mean()))


def tuples_kept(trace: Trace, load: Load) -> BoolArray:
    """Return which tuples the strongest form of tuple dropping keeps."""
    at = rehearsal.along(load, trace.rows)
    order = np.argsort(trace.slots, kind="stable")
    total = np.cumsum(at[order])
    first = np.diff(trace.slots[order], prepend=-2) != 0
    before = np.maximum.accumulate(np.where(first, total - at[order], 0.0))
    phase = (trace.slots[order] * GOLDEN) % 1.0
    share = total - before + phase
    kept = np.empty(trace.rows, dtype=np.bool_)
    kept[order] = np.floor(share + 1e-9) > np.floor(share - at[order] + 1e-9)
    return kept


def send_on_change(plan: Plan, trace: Trace, load: Load) -> Result:
    """Send what moved further than one band, the same for all attributes, in the same windows.

    The band is the best one for this very stream, which nobody can know in advance.
    """
    tried: dict[float, Result] = {}

    def best(bands: Sequence[float]) -> float:
        tried.update({band: _one_band(plan, trace, load, band) for band in bands})
        return min(tried, key=lambda band: (tried[band].loss, band))

    coarse = best(FEWER_BANDS)
    return tried[best([coarse * factor for factor in CLOSER])]


def _one_band(plan: Plan, trace: Trace, load: Load, band: float) -> Result:
    items = sum(len(stream.items) for stream in plan.streams)
    simple = replace(
        plan,
        option_period=frozen_ints([1, plan.refresh]),
        option_band=frozen([PERIODIC, band]),
        ratio=frozen([0.0]),
        loss=frozen([1.0]),
        choice=np.ones((1, items), dtype=np.uint8),
        thinning=frozen_ints(np.ones((1, len(plan.streams)))),
    )
    at = rehearsal.along(load, trace.rows)
    edges = [0, *(np.flatnonzero(np.diff(at)) + 1).tolist(), trace.rows]
    shedder = Shedder(simple, 1.0)
    masks = []
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        shedder.set_load(float(at[start]))
        # With draws, bands are as they are: nothing widens or narrows them.
        draws = np.zeros(stop - start, dtype=np.uint32)
        masks.append(shedder.decide(trace.batch(start, stop), draws=draws).keep)
    passed = shedder.counters.passed_fraction
    return replace(measure(plan, trace, np.concatenate(masks)), passed_fraction=passed)


def noise(lost: FloatArray) -> float:
    """Return the standard error of a mean loss, or difference, over stretches of the stream."""
    if len(lost) < BLOCKS:
        return 0.0
    blocks = [float(block.mean()) for block in np.array_split(lost, BLOCKS)]
    return float(np.std(blocks, ddof=1) / BLOCKS**0.5)


def _by_size(plan: Plan, trace: Trace, load: Load, usual: float) -> dict[str, float]:
    def quality(size: int, rows: int) -> float:
        if (size, rows) == (rehearsal.USUAL, trace.rows):
            return usual
        return replay(plan, trace, load, size, rows).quality

    return rehearsal.by_size(trace.rows, quality)


def evaluate(
    plan: Plan,
    samples: Mapping[str, Any],
    definition: Definition[Parameters],
    loads: Sequence[Load],
) -> tuple[Outcome, ...]:
    """Shed samples with the plan at several loads; compare with what is simple.

    Random dropping is tuple dropping at equal bytes, on average; send on change keeps to the
    capacity in the same windows as the plan.
    """
    trace = Trace.of(plan, samples, definition.parameters.order_by)
    outcomes = []
    for load in loads:
        schedule = load if isinstance(load, tuple) else ()
        mine = replay(plan, trace, load, 100 if schedule else rehearsal.USUAL)
        others = {
            "random dropping": drop_tuples(plan, trace, load),
            "send on change": send_on_change(plan, trace, load),
        }
        strongest = max(others.values(), key=lambda result: result.quality)
        steps = schedule or (float(np.mean(load)),)
        outcomes.append(
            Outcome(
                load=float(np.mean(load)),
                predicted_quality=float(np.mean([plan.predicted_quality(z) for z in steps])),
                quality=mine.quality,
                random_quality=others["random dropping"].quality,
                passed_fraction=mine.passed_fraction,
                offered=trace.rows,
                baselines={"send on change": others["send on change"].quality},
                by_size={} if schedule else _by_size(plan, trace, load, mine.quality),
                noise=noise(mine.lost - strongest.lost),
                error=noise(mine.lost),
                schedule=schedule,
            )
        )
    return tuple(outcomes)
