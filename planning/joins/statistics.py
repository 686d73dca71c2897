"""The match histogram: hits and comparisons per window, basic window and type.

``build`` is the NumPy reference of the Spark app: both number basic windows on the same grid, count
a pair once, when the later tuple arrives, and give equal integers. At equal times stream 0 comes
first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from planning.arrays import Columns, FloatArray, IntArray, finite_array, frozen_ints, sorted_sum
from planning.errors import StatisticsError
from planning.guarantees import NOWHERE, Guarantee
from planning.joins import path
from planning.joins.layout import Layout
from planning.joins.model import Condition, Tuples, Windows, combine_utilities, merge

Estimate: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray, float], FloatArray]
"""From value, hits, comparisons and the prior to value per comparison."""
FALLING = 1e-3  # relative, from the newest basic window to the oldest one of equal chance
CLEARLY = 0.002  # of all output, on average over loads: another estimate is better
A_LITTLE = 0.02  # of all output: no less was found than could be expected

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
    early: tuple[IntArray, IntArray] | None = None  # hits and comparisons in the first half of it

    @property
    def samples(self) -> int:
        """Number of sampled tuples."""
        return int(self.type_counts.sum())

    def settled(self, definition: Definition[Parameters]) -> tuple[FloatArray, IntArray, IntArray]:
        """Return densities, and the hits and comparisons of every item that they rest on.

        Of several estimates that one is taken which, made from one half of the time, finds most in
        the other. Where little of the first half's order was left in the second, the first counts
        less (:meth:`lasting`).
        """
        lasting, estimate = self.lasting(definition)
        share = float(np.clip(np.mean(lasting), 0.0, 1.0)) if lasting else 1.0
        value, hits, made = (
            late + np.rint(share * early)
            for early, late in zip(*self._halves(definition), strict=True)
        )
        density = estimate(value, hits, made, definition.parameters.prior_hits)
        present = self.windows.extents_s > 0  # the shorter window has fewer basic windows
        items = np.where(present[:, None, :], density, 0.0)
        return items, hits.astype(np.int64), made.astype(np.int64)

    def lasting(
        self, definition: Definition[Parameters]
    ) -> tuple[tuple[float, ...], Estimate]:
        """Return how much of a plan's gain over random dropping lasts, and the best estimate.

        By load (:data:`~planning.joins.path.LOADS`), what an order made from the first half of the
        samples gains in the second half, over what it promised; nothing where that is all but a
        little, or where halves are not known.
        """
        early, late = self._halves(definition)
        prior = definition.parameters.prior_hits
        if min(float(half[0].sum()) for half in (early, late)) <= 0:
            return (), path.shrunk_density

        def mean(estimate: Estimate) -> float:
            turns = ((early, late), (late, early))
            found = [gains(estimate(*of, prior), on[0], on[2]) for of, on in turns]
            return float(np.mean(found))

        best = max(ESTIMATES, key=mean)
        if mean(best) <= mean(path.shrunk_density) + CLEARLY:
            best = path.shrunk_density
        density = best(*early, prior)
        promised = gains(density, density * early[2], early[2])
        gained = gains(density, late[0], late[2])
        if np.all(gained > promised - A_LITTLE):
            return (), best
        shares = np.divide(gained, promised, out=np.ones(promised.size), where=promised > CLEARLY)
        return tuple(np.clip(shares, -1.0, 1.0).round(6).tolist()), best

    def _halves(self, definition: Definition[Parameters]) -> tuple[path.Counts, path.Counts]:
        """Return value, hits and comparisons of every item, in both halves of the time."""
        utilities = Layout.of(definition).utilities(definition.parameters)
        values = combine_utilities(utilities, definition.parameters.combine)
        hits, made = self.hits.astype(np.float64), self.comparisons.astype(np.float64)
        early = (np.zeros_like(hits), np.zeros_like(made)) if self.early is None else self.early

        def items(hits: FloatArray, made: FloatArray) -> path.Counts:
            value = np.einsum("ijab,ab->iaj", hits, values)
            return value, np.moveaxis(hits.sum(axis=3), 1, 2), np.moveaxis(made, 1, 2)

        first, second = (counts.astype(np.float64) for counts in early)
        return items(first, second), items(hits - first, made - second)

    def protected(
        self, definition: Definition[Parameters]
    ) -> list[tuple[Guarantee, FloatArray]]:
        """Return the guarantees, the most important first, and the items' shares of their matches.

        Shares add up to 1; all are 0 where a guarantee's matches have no utility. An item's matches
        with stored tuples of a type are counted; where they are few, the other basic windows of the
        window count too.
        """
        parameters, layout = definition.parameters, Layout.of(definition)
        density, _, made = self.settled(definition)
        worth = density * made
        values = combine_utilities(layout.utilities(parameters), parameters.combine)
        found = np.einsum("ijab,ab->iajb", self.hits.astype(np.float64), values)
        prior = parameters.prior_hits * float(found.sum()) / max(float(self.hits.sum()), 1.0)

        def of_type(name: str) -> FloatArray:
            classes = len(layout.sizes) + 1
            first = layout.types.index(name) * classes
            some = found[..., first : first + classes].sum(axis=3)
            every, pooled = found.sum(axis=3), found.sum(axis=(2, 3))[..., None]
            usual = some.sum(axis=2, keepdims=True) / np.maximum(pooled, 1e-300)
            part = (some + prior * usual) / np.maximum(every + prior, 1e-300)
            part[:, first : first + classes] = 1.0
            return np.asarray(worth * part)

        def of_window(name: str) -> FloatArray:
            return np.where((np.arange(2) == layout.streams.index(name))[:, None, None], worth, 0.0)

        asked: list[tuple[str, Any, FloatArray]] = [("join", parameters, worth)]
        asked += [(f"type {n}", s, of_type(n)) for n, s in parameters.types.items()]
        asked += [(f"window of {n}", s, of_window(n)) for n, s in parameters.window_of.items()]
        return [
            (
                Guarantee(name, "min_share", share.min_share, share.priority, NOWHERE),
                table / (sorted_sum(table) or 1.0),
            )
            for name, share, table in sorted(asked, key=lambda one: -one[1].priority)
            if share.min_share > 0.0
        ]

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
        } | (
            {}
            if self.early is None
            else {"early": [counts.ravel().tolist() for counts in self.early]}
        )

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Statistics:
        """Read the JSON form back."""
        windows = Windows(
            tuple(document["window_s"]), document["basic_window_s"], document["origin_s"]
        )
        types = tuple(document["types"])
        n, z = windows.most, len(types)
        shapes = (2, n, z, z), (2, n, z)
        early = None
        if "early" in document:
            halves = dict(zip(("early hits", "early comparisons"), document["early"], strict=True))
            first, second = (_counts(halves, *of) for of in zip(halves, shapes, strict=True))
            early = (first, second)
        return cls(
            windows=windows,
            types=types,
            early=early,
            hits=_counts(document, "hits", shapes[0]),
            comparisons=_counts(document, "comparisons", shapes[1]),
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
    times = np.concatenate((left.time, right.time))
    middle = middle_of(float(times.min()), float(times.max())) if times.size else 0.0
    early, late = (
        histogram(left, right, windows, condition, len(types), count_from=begin, count_to=end)
        for begin, end in ((-np.inf, middle), (middle, np.inf))
    )
    hits, comparisons = early[0] + late[0], early[1] + late[1]
    counts = np.array([np.bincount(part.kind, minlength=len(types)) for part in (left, right)])
    span = float(times.max() - times.min()) if times.size else 0.0
    return assemble(windows, types, hits, comparisons, counts, span, early)


def middle_of(first_s: float, last_s: float) -> float:
    """Return the time that halves a stretch."""
    return first_s + 0.5 * (last_s - first_s)


def assemble(
    windows: Windows,
    types: tuple[str, ...],
    hits: IntArray,
    comparisons: IntArray,
    type_counts: IntArray,
    span_s: float,
    early: tuple[IntArray, IntArray] | None = None,
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
        float(span_s), None if early is None else (frozen_ints(early[0]), frozen_ints(early[1])),
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


def falling_density(
    value: FloatArray, hits: FloatArray, comparisons: FloatArray, prior_hits: float
) -> FloatArray:
    """Value per comparison if it always falls with age; types and windows keep their levels.

    Where matches come in clusters, the pattern over the basic windows is chance, but mostly the
    newest tuples match best.

    >>> one = np.array([[[30.0, 40.0, 2.0]]])
    >>> falling_density(one, one, np.full((1, 1, 3), 100.0), 0.0).round(4).tolist()
    [[[0.3501, 0.3499, 0.02]]]
    """
    from scipy.optimize import isotonic_regression

    pooled, made = hits.sum(axis=1), np.maximum(comparisons.sum(axis=1), 1e-9)
    chance = np.array(
        [
            isotonic_regression(row / each, weights=each, increasing=False).x
            for row, each in zip(pooled, made, strict=True)
        ]
    )[:, None, :]
    chance = chance * (1.0 + FALLING * np.linspace(1.0, 0.0, chance.shape[2]))
    mean_value = float(value.sum()) / max(float(hits.sum()), 1e-300)
    expected = (chance * comparisons).sum(axis=2, keepdims=True)
    factor = value.sum(axis=2, keepdims=True) + prior_hits * mean_value
    return np.asarray(chance * factor / np.maximum(expected + prior_hits, 1e-300))


def newest_density(
    value: FloatArray, hits: FloatArray, comparisons: FloatArray, prior_hits: float
) -> FloatArray:
    """Value per comparison if only age counts, and it always falls with it.

    >>> one = np.array([[[3.0, 1.0]], [[1.0, 0.0]]])
    >>> newest_density(one, one, np.full((2, 1, 2), 10.0), 0.0).round(2).tolist()
    [[[0.2, 0.05]], [[0.2, 0.05]]]
    """
    tables = (value, hits, comparisons)
    worth, found, made = (table.sum(axis=(0, 1), keepdims=True) for table in tables)
    return np.broadcast_to(falling_density(worth, found, made, prior_hits), value.shape)


ESTIMATES: tuple[Estimate, ...] = (path.shrunk_density, falling_density, newest_density)


def gains(density: FloatArray, value: FloatArray, volumes: FloatArray) -> FloatArray:
    """Return what an order gains on random dropping, as a share of all value, at some loads.

    These are :data:`~planning.joins.path.LOADS`.

    >>> density, volumes = np.array([[[2.0, 1.0]]]), np.full((1, 1, 2), 5.0)
    >>> gains(density, np.array([[[8.0, 2.0]]]), volumes).round(2).tolist()
    [0.03, 0.06, 0.12, 0.18, 0.3, 0.18]
    """
    order, total, worth = path.rank(density), float(volumes.sum()), float(value.sum())
    if worth <= 0:
        return np.zeros(len(path.LOADS))
    kept = [float((path.fill(order, volumes, r * total) * value).sum()) / worth for r in path.LOADS]
    return np.array(kept) - path.LOADS
