"""The match histogram: hits and comparisons per window, basic window and type.

``build`` is the NumPy reference of the Spark app: both number basic windows on the same grid, count
a pair once, when the later tuple arrives, and give equal integers. At equal times stream 0 comes
first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.arrays import Columns, FloatArray, IntArray, finite_array, frozen_ints
from planning.errors import StatisticsError
from planning.joins import path
from planning.joins.layout import Layout
from planning.joins.model import Condition, Tuples, Windows, combine_utilities, merge

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.joins.parameters import Parameters


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Counts over pairs of sampled tuples; sampling thins hits and comparisons alike.

    Examples
    --------
    >>> from planning.examples import demo_statistics
    >>> demo_statistics("joins").samples
    11992
    >>> int(demo_statistics("joins").hits.sum(axis=(0, 2, 3)).argmax())  # 15 s apart
    15
    """

    windows: Windows
    types: tuple[str, ...]
    hits: IntArray  # [2, n, Z probing, Z stored]
    comparisons: IntArray  # [2, n, Z probing]
    type_counts: IntArray  # [2, Z] tuples per stream and type
    span_s: float  # from the first to the last sampled tuple

    @property
    def samples(self) -> int:
        """Number of sampled tuples."""
        return int(self.type_counts.sum())

    def densities(self, definition: Definition[Parameters]) -> FloatArray:
        """Return the utility per comparison of every item [window, type, basic window]."""
        parameters = definition.parameters
        utilities = Layout.of(definition).utilities(parameters)
        hits = self.hits.astype(np.float64)
        density = path.shrunk_density(
            np.einsum("ijab,ab->iaj", hits, combine_utilities(utilities, parameters.combine)),
            np.moveaxis(hits.sum(axis=3), 1, 2),
            np.moveaxis(self.comparisons, 1, 2).astype(np.float64),
            parameters.prior_hits,
        )
        present = self.windows.extents_s > 0  # the shorter window has fewer basic windows
        return np.where(present[:, None, :], density, 0.0)

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "window_s": list(self.windows.window_s),
            "basic_window_s": self.windows.basic_window_s,
            "origin_s": self.windows.origin_s,
            "types": list(self.types),
            "hits": self.hits.ravel().tolist(),
            "comparisons": self.comparisons.ravel().tolist(),
            "type_counts": self.type_counts.tolist(),
            "span_s": self.span_s,
            "samples": self.samples,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Statistics:
        """Read the JSON form back."""
        windows = Windows(
            tuple(document["window_s"]), document["basic_window_s"], document["origin_s"]
        )
        types = tuple(document["types"])
        n, z = windows.most, len(types)
        return cls(
            windows=windows,
            types=types,
            hits=_counts(document, "hits", (2, n, z, z)),
            comparisons=_counts(document, "comparisons", (2, n, z)),
            type_counts=frozen_ints(finite_array("type_counts", document["type_counts"], (2, z))),
            span_s=float(finite_array("span_s", document["span_s"], ())),
        )


def _counts(document: dict[str, Any], field: str, shape: tuple[int, ...]) -> IntArray:
    return frozen_ints(finite_array(field, document[field], (math.prod(shape),)).reshape(shape))


def build(samples: Columns, definition: Definition[Parameters]) -> Statistics:
    """Build the match histogram of samples that fit in memory."""
    layout = Layout.of(definition)
    left, right = (layout.refine(part) for part in layout.streams_of(samples))
    return from_tuples(left, right, definition)


def from_tuples(left: Tuples, right: Tuples, definition: Definition[Parameters]) -> Statistics:
    """Build the match histogram of two streams whose tuples carry their classes."""
    parameters, types = definition.parameters, Layout.of(definition).classes
    windows, condition = parameters.windows, parameters.join_condition
    hits, comparisons = histogram(left, right, windows, condition, len(types))
    times = np.concatenate((left.time, right.time))
    counts = np.array([np.bincount(part.kind, minlength=len(types)) for part in (left, right)])
    span = float(times.max() - times.min()) if times.size else 0.0
    return assemble(windows, types, hits, comparisons, counts, span)


def assemble(
    windows: Windows,
    types: tuple[str, ...],
    hits: IntArray,
    comparisons: IntArray,
    type_counts: IntArray,
    span_s: float,
) -> Statistics:
    """Put counts together; both streams must have been seen."""
    seen = type_counts.sum(axis=1)
    if not seen.all():
        raise StatisticsError(
            f"samples must hold tuples of both streams, got {seen[0]} and {seen[1]}; "
            "check the landing folder and the quarantine"
        )
    return Statistics(
        windows, types, frozen_ints(hits), frozen_ints(comparisons), frozen_ints(type_counts),
        float(span_s),
    )  # fmt: skip


def histogram(
    left: Tuples,
    right: Tuples,
    windows: Windows,
    condition: Condition,
    types: int,
    *,
    count_from: float = -np.inf,
    count_to: float = np.inf,
) -> tuple[IntArray, IntArray]:
    """Count hits and comparisons of the full join, for probing tuples in a span of time.

    Tuples before ``count_from`` only fill the windows; so a long stream can be counted in blocks,
    each with one window of context, and the blocks' counts add up.
    """
    from planning.joins.engine import WindowedJoin

    stream, rows, merged = merge(left, right)
    vocabulary = 1 + int(merged.items.max(initial=0))
    join = WindowedJoin(
        windows,
        condition,
        vocabulary=vocabulary if merged.items.min(initial=0) >= 0 else None,
        values=np.ones((types, types)),
        emit=False,
    )
    begin, end = np.searchsorted(merged.time, [count_from, count_to], side="left")
    join.push_merged(stream[:begin], rows[:begin], merged.slice(0, int(begin)))
    join.tally.hits[:] = 0
    join.tally.comparisons[:] = 0
    join.push_merged(stream[begin:end], rows[begin:end], merged.slice(int(begin), int(end)))
    return join.tally.hits.sum(axis=0), join.tally.comparisons.sum(axis=0)
