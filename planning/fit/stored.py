"""The tables a plan may carry; plain arrays, so that reading one needs no solver."""

from __future__ import annotations

from dataclasses import dataclass

from planning.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CriticalRegions:
    """All critical regions with their rules; rates are in units of ``max_rate``."""

    value: FloatArray  # (1 + inputs, regions): the loss; the region at hand has the largest
    rule: FloatArray  # (regions, locations, 1 + inputs): dropped rates
    facets: FloatArray  # (all facets, 1 + inputs): >= 0 inside
    starts: IntArray  # facets of region k are starts[k] … starts[k + 1]

    @property
    def plan_count(self) -> int:
        """How many regions there are."""
        return int(self.value.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory of all tables."""
        return int(sum(a.nbytes for a in (self.value, self.rule, self.facets, self.starts)))


@dataclass(frozen=True, slots=True, eq=False)
class Quadtree:
    """Cell k is a leaf with plan ``plan[k]``, feasible (-1), or divided (-2) from ``child[k]``."""

    valued: BoolArray  # inputs that contribute to an output; the tree divides these only
    plan: IntArray
    child: IntArray
    fractions: FloatArray  # one row per plan: drop fraction per location at the lowest corner
    bound: FloatArray  # error bound per plan

    @property
    def plan_count(self) -> int:
        """How many load shedding plans are stored."""
        return len(self.fractions)

    @property
    def nbytes(self) -> int:
        """Memory of index and plans."""
        return int(sum(a.nbytes for a in (self.plan, self.child, self.fractions, self.bound)))


@dataclass(frozen=True, slots=True, eq=False)
class PointQuadtree:
    """Rows of ``points`` in descending order of score; children are linked lists by orthant."""

    points: FloatArray
    first: IntArray  # first child of each row
    following: IntArray  # next sibling
    orthant: IntArray  # bit k: coordinate k is at least the parent's

    @property
    def nbytes(self) -> int:
        """Memory of the index."""
        return int(
            sum(a.nbytes for a in (self.points, self.first, self.following, self.orthant))
        )


@dataclass(frozen=True, slots=True, eq=False)
class FitPlans:
    """The input server's table, compiled into drop fractions for every arc of the network."""

    index: PointQuadtree
    arcs: tuple[str, ...]
    drops: FloatArray  # (rows, arcs), before the inputs are scaled down
    valued: BoolArray

    @property
    def plan_count(self) -> int:
        """How many load shedding plans are stored."""
        return len(self.drops)

    @property
    def nbytes(self) -> int:
        """Memory of index and plans."""
        return self.index.nbytes + int(self.drops.nbytes)


Stored = CriticalRegions | Quadtree | FitPlans
