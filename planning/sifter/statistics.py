"""Statistics of a stream for a sifter: regions, f(S_i), A(S_i) and B.

``build`` is the NumPy reference; the Spark app composes the same steps over samples of any size:
``draw`` the bounded sample U, ``divide`` the space with it, count every tuple's region in parallel
(:class:`RegionCounts`), ``assemble``. Counts are integers, so both give the same bytes.

Consolidation (Section IV-B) turns queries into one QoS value per region: A(S_i) is the sum over
queries of w * alpha * C(q, S_i) with nothing dropped, where C(q, S_i) is the share of q's data that
lies in S_i, data being uniform inside a region. Deviation: Equations 5 and 9 both contain (1 - d);
here it appears once, in the objective. A query with no estimated data loses nothing whatever is
dropped, so its completeness is 1 and w * alpha goes to B.

Calibration makes the plan right for fresh data. Regions chosen for much data and few queries
hold less of fresh data than of the sample they were chosen on: a plan for z = 0.5 can pass 0.6 of
the stream. So tuples the partitioner has seen count half, and each region is drawn a little toward
the neutral ratio of queries to data. With many more tuples than the partitioner saw, both vanish.
Nor are data uniform inside a region: the share of a region's data that a query has is counted on U.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from planning import sampling
from planning.arrays import (
    BoolArray,
    Columns,
    FloatArray,
    IntArray,
    frozen,
    frozen_ints,
    sorted_sum,
)
from planning.errors import StatisticsError
from planning.families import Definition
from planning.query_files import written_queries
from planning.sifter import codec, queries
from planning.sifter.lookup.kernels import mark_pinned
from planning.sifter.model import LEAF, Partition, Pins, Space
from planning.sifter.partitioners import divide
from planning.sifter.queries import Queries
from planning.sifter.queries.shares import Shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planning.sifter.parameters import Parameters
    from planning.sifter.plan import Plan

SEEN_WEIGHT = 0.5
PRIOR_PER_REGION = 0.4
"""Tuples of prior per region; both values were chosen on workloads of the paper's generator."""
PRIOR_PER_SHARE = 4.0
"""Tuples of prior, spread evenly in a region, for the share that a query has of it."""
MOST_SHARES = 4_000_000
"""Shares of queries that are kept; with more there are none."""
Entries = tuple[IntArray, IntArray, FloatArray]



@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Row i of every array is region S_i.

    Examples
    --------
    >>> from planning.examples import demo_definition, demo_samples
    >>> statistics = build(demo_samples("sifter"), demo_definition("sifter"))
    >>> statistics.partition.regions, statistics.samples, statistics.query_count
    (16, 19984, 1000)
    >>> again = Statistics.from_document(statistics.to_document())
    >>> (again.region_qos == statistics.region_qos).all().item()
    True
    """

    partition: Partition
    counts: IntArray  # tuples seen per region
    frequency: FloatArray  # f(S_i) of tuples that may be dropped; sums to 1 - pinned
    region_qos: FloatArray  # A(S_i)
    queried: BoolArray  # Q(S_i) is not empty
    base_qos: float  # B
    samples: int  # tuples counted
    sample_size: int  # |U|
    query_count: int  # |Q|
    pinned_fraction: float = 0.0  # of the stream, never dropped
    shares: Shares | None = None  # of queries in regions, of what may be dropped

    def completeness(self, drop_thresholds: FloatArray) -> FloatArray:
        """Return the completeness to expect of every query, in the order they are written."""
        return self.known_shares.completeness(drop_thresholds)

    def by_query(
        self, plan: Plan, definition: Definition[Parameters], loads: Sequence[float]
    ) -> dict[str, FloatArray]:
        """Return the completeness to expect of every query at loads, by its name."""
        found = np.array([self.completeness(plan.at(load).drop_thresholds) for load in loads])
        names = [e.get("name") or f"query {i}" for i, e in enumerate(written_queries(definition))]
        return dict(zip(names, found.T, strict=True))

    @property
    def known_shares(self) -> Shares:
        """The shares, which statistics of earlier releases, and very large ones, do not have."""
        if self.shares is None:
            raise StatisticsError(
                "statistics must hold the queries' shares of the regions, got none; run the "
                f"statistics stage again, or ask for fewer regions if there are > {MOST_SHARES}"
            )
        return self.shares

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "partition": codec.partition_document(self.partition),
            "counts": self.counts.tolist(),
            "frequency": self.frequency.tolist(),
            "region_qos": self.region_qos.tolist(),
            "queried": self.queried.tolist(),
            "base_qos": self.base_qos,
            "samples": self.samples,
            "sample_size": self.sample_size,
            "query_count": self.query_count,
            "pinned_fraction": self.pinned_fraction,
        } | ({} if self.shares is None else {"shares": {
            "start": self.shares.start.tolist(),
            "region": self.shares.region.tolist(),
            "part": self.shares.part.tolist(),
        }})  # fmt: skip

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Statistics:
        """Read the JSON form back; earlier releases kept no shares."""
        shares = document.get("shares")
        return cls(
            partition=codec.read_partition(document["partition"], "sifter statistics"),
            counts=frozen_ints(document["counts"]),
            frequency=frozen(document["frequency"]),
            region_qos=frozen(document["region_qos"]),
            queried=np.array(document["queried"], dtype=np.bool_),
            base_qos=float(document["base_qos"]),
            samples=int(document["samples"]),
            sample_size=int(document["sample_size"]),
            query_count=int(document["query_count"]),
            pinned_fraction=float(document.get("pinned_fraction", 0.0)),
            shares=None if shares is None else Shares(
                frozen_ints(shares["start"]), frozen_ints(shares["region"]), frozen(shares["part"])
            ),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class RegionCounts:
    """Row i is region S_i: tuples counted in it, and how many of them are pinned."""

    tuples: IntArray
    pinned: IntArray

    @classmethod
    def of(cls, points: FloatArray, partition: Partition, pins: Pins) -> RegionCounts:
        """Count points region by region; NaN counts nowhere.

        >>> halves = Partition.from_nested((0, 0.5, None, None))
        >>> pin = Pins(frozen([[0.7]]), frozen([[1.0]]))
        >>> counts = RegionCounts.of(np.array([[0.1], [0.6], [0.8]]), halves, pin)
        >>> counts.tuples.tolist(), counts.pinned.tolist()
        ([1, 2], [0, 1])
        """
        must_keep = np.zeros(len(points), dtype=np.bool_)
        mark_pinned(np.ascontiguousarray(points.T), pins.low, pins.high, must_keep)
        return cls(partition.count(points), partition.count(points[must_keep]))


def build(samples: Columns, definition: Definition[Parameters]) -> Statistics:
    """Build the statistics of samples that fit in memory."""
    return of_points(Space.of(definition).matrix(samples), definition, queries.of(definition))


def of_points(points: FloatArray, definition: Definition[Parameters], asked: Queries) -> Statistics:
    """Build the statistics of points of the data space, with the queries as boxes in it."""
    sample = draw(points, definition.parameters.sample_size)
    divided = divide(sample, definition, asked)
    counts = RegionCounts.of(points, divided, queries.pins_of(definition))
    return assemble(divided, counts, definition, sample, asked)


def draw(points: FloatArray, size: int) -> FloatArray:
    """Return the bounded sample U: ``size`` of the points, whatever their order."""
    points = points[~np.isnan(points).any(axis=1)]
    if not len(points):
        raise StatisticsError(
            "samples must hold at least one tuple with a number in every attribute, got none; "
            "check the landing folder and the quarantine"
        )
    return np.asarray(points[sampling.draw(list(points.T), size)])


def assemble(
    partition: Partition,
    counts: RegionCounts,
    definition: Definition[Parameters],
    sample: FloatArray,
    asked: Queries,
) -> Statistics:
    """Turn region counts into f, A and B.

    Pinned tuples always pass: what they are worth to the queries moves from A to B, and only the
    rest of each region's frequency can be shed.
    """
    space = Space.of(definition)
    total = int(counts.tuples.sum())
    if total <= 0:
        raise StatisticsError("counts must hold at least one tuple, got none in any region")
    asked = queries.arranged(asked, partition.orders)
    frequency = counts.tuples / total
    known = sample if definition.parameters.calibrate else None
    if definition.parameters.calibrate:
        qos, _, _, _ = consolidate(partition, frequency, asked, space.low, space.high, known)
        frequency = calibrated(counts.tuples, partition.seen, qos)
    qos, queried, base, entries = consolidate(
        partition, frequency, asked, space.low, space.high, known
    )
    pinned = counts.pinned / np.maximum(counts.tuples, 1)  # share of each region's tuples
    shares = None
    if entries is not None:
        query, region, part = entries
        part = part * (1.0 - pinned[region])
        shares = Shares.of(query, region, part, (asked.count, partition.regions))
    return Statistics(
        partition=partition,
        counts=frozen_ints(counts.tuples),
        frequency=frozen(frequency * (1.0 - pinned)),
        region_qos=frozen(qos * (1.0 - pinned)),
        queried=queried,
        base_qos=base + sorted_sum(qos * pinned),
        samples=total,
        sample_size=len(sample),
        query_count=asked.count,
        pinned_fraction=sorted_sum(frequency * pinned),
        shares=shares,
    )


def calibrated(counts: IntArray, seen: IntArray, region_qos: FloatArray) -> FloatArray:
    """Return f(S_i) from all counts, those the partitioner has seen, and A(S_i).

    >>> calibrated(np.array([60, 40]), np.array([40, 10]), np.zeros(2)).round(3).tolist()
    [0.533, 0.467]
    """
    seen = np.zeros_like(counts) if seen.size != counts.size else np.minimum(seen, counts)
    weighted = (counts - seen) + SEEN_WEIGHT * seen
    prior = PRIOR_PER_REGION * len(counts)
    neutral = region_qos / region_qos.sum() if region_qos.sum() > 0 else np.zeros(len(counts))
    drawn = weighted + prior * neutral
    return np.asarray(drawn / drawn.sum())


def consolidate(
    partition: Partition,
    frequency: FloatArray,
    asked: Queries,
    low: FloatArray,
    high: FloatArray,
    sample: FloatArray | None = None,
) -> tuple[FloatArray, BoolArray, float, Entries | None]:
    """Return A(S_i) and whether any query intersects S_i, region by region; B; and the shares.

    Shares are query, region and C(q, S_i), box by box; None if there are very many.

    One query across the middle of [0, 1), two regions of equal size, alpha = 1. With sample points
    its share of a region is what it has of them, and ``PRIOR_PER_SHARE`` points spread evenly.

    >>> from planning.sifter.queries import boxes
    >>> halves = Partition.from_nested((0, 0.5, None, None))
    >>> one = boxes(np.array([[0.4]]), np.array([[0.6]]))
    >>> sizes = np.array([0.25, 0.75])
    >>> qos, _, base, shares = consolidate(halves, sizes, one, np.zeros(1), np.ones(1))
    >>> qos.round(12).tolist(), base, shares[2].round(12).tolist()
    ([0.25, 0.75], 0.0, [0.25, 0.75])
    """
    region_low, region_high = partition.bounds(low, high)
    points = partition.arranged(np.empty((0, len(low))) if sample is None else sample)
    region = partition.lookup(points if sample is None else sample)
    points = np.ascontiguousarray(points[np.argsort(region, kind="stable")])
    start = np.searchsorted(np.sort(region), np.arange(partition.regions + 1))
    qos = np.zeros(partition.regions)
    queried = np.zeros(partition.regions, dtype=np.bool_)
    expected = np.zeros(asked.count)
    query, place, part, found = _share_out(
        partition.dimension, partition.cut, partition.right, partition.leaf,
        region_low, region_high, np.ascontiguousarray(frequency, dtype=np.float64), points, start,
        asked.low, asked.high, asked.owner, asked.coefficient, expected, qos, queried,
    )  # fmt: skip
    without_data = sorted_sum(asked.coefficient[expected <= 0.0])
    shares = (query, place, part) if found <= MOST_SHARES else None
    return qos, queried, asked.base_qos + without_data, shares


@njit(cache=True)
def _share_out(
    dimension: Any, cut: Any, right: Any, leaf: Any, region_low: Any, region_high: Any,
    frequency: Any, points: Any, start: Any, box_low: Any, box_high: Any, owner: Any,
    coefficient: Any, expected: Any, qos: Any, queried: Any,
) -> Any:  # fmt: skip
    """Estimate each query's data, then give each region its share of it, by descent.

    Returns the shares: queries, regions and parts, unless there are more than ``MOST_SHARES``.
    """
    stack = np.empty(dimension.size + 1, np.int64)
    found = known = 0
    queries, regions, parts = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    for second in range(2):
        if second == 1 and found <= MOST_SHARES:
            queries, regions = np.empty(found, np.int64), np.empty(found, np.int64)
            parts = np.empty(found)
        for box in range(box_low.shape[0]):
            query = owner[box]
            if second == 1 and expected[query] <= 0.0:
                continue
            stack[0] = 0
            depth = 1
            while depth > 0:
                depth -= 1
                node = stack[depth]
                axis = dimension[node]
                if axis != LEAF:
                    if box_high[box, axis] > cut[node]:
                        stack[depth] = right[node]
                        depth += 1
                    if box_low[box, axis] < cut[node]:
                        stack[depth] = node + 1
                        depth += 1
                    continue
                region = leaf[node]
                share = frequency[region] * _share(
                    box_low[box], box_high[box], region_low[region], region_high[region],
                    points[start[region] : start[region + 1]],
                )  # fmt: skip
                if second == 0:
                    expected[query] += share
                    queried[region] = True
                    found += 1
                else:
                    share /= expected[query]
                    qos[region] += coefficient[query] * share
                    if parts.size:
                        queries[known], regions[known], parts[known] = query, region, share
                        known += 1
    return queries[:known], regions[:known], parts[:known], found


@njit(cache=True)
def _share(box_low: Any, box_high: Any, low: Any, high: Any, points: Any) -> float:
    """Return which part of a region's data lies in a box."""
    even = 1.0
    for k in range(low.size):
        overlap = min(box_high[k], high[k]) - max(box_low[k], low[k])
        even *= max(0.0, overlap) / (high[k] - low[k])
    if even == 1.0 or points.shape[0] == 0:
        return even
    inside = 0
    for i in range(points.shape[0]):
        here = True
        for k in range(low.size):
            here &= box_low[k] <= points[i, k] < box_high[k]
        inside += here
    return float((inside + PRIOR_PER_SHARE * even) / (points.shape[0] + PRIOR_PER_SHARE))
