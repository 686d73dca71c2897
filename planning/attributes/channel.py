"""The streams of one channel: each stream's frontier, and how several share the capacity.

A stream's frontier is the best over its attributes' options and over thinnings of its tuples.
*Proportional* sharing (paper V) gives every stream the same drop rate (R − C)/R. *Pooled* sharing
adds the frontiers up: the bytes go where they save most, whichever stream that is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray
from planning.attributes import frontier as frontiers
from planning.attributes import model
from planning.attributes.frontier import Frontier
from planning.attributes.menu import Menu
from planning.attributes.plan import Stream
from planning.attributes.statistics import StreamProfile

THINNINGS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
POOL_POINTS = 512  # points per frontier when several are added up
SLACK = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A frontier of one or more streams: ratio and loss are shares of the whole channel's."""

    rate: float  # R of these streams, bytes per tuple of the channel
    ratio: FloatArray  # bytes sent over the rate, rising
    loss: FloatArray  # weighted, not yet divided by the channel's total weight
    choice: NDArray[np.uint8]
    thinning: IntArray  # (points, streams)

    def take(self, index: IntArray) -> Part:
        """Return some of the points."""
        return Part(
            self.rate, self.ratio[index], self.loss[index], self.choice[index], self.thinning[index]
        )

    def undominated(self) -> Part:
        """Return the points of which none is both cheaper and better."""
        order = np.lexsort((self.loss, self.ratio))
        best = np.minimum.accumulate(np.append(np.inf, self.loss[order]))[:-1]
        return self.take(order[self.loss[order] < best])

    def thinned(self, points: int) -> Part:
        """Return at most ``points`` points, spread evenly over the ratio; both ends stay."""
        if len(self.ratio) <= points:
            return self
        goals = np.linspace(float(self.ratio[0]), float(self.ratio[-1]), points)
        return self.take(np.unique(np.searchsorted(self.ratio, goals + SLACK, side="right") - 1))


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One stream with all that its frontier depends on."""

    found: StreamProfile
    stream: Stream
    menu: Menu
    weight: FloatArray
    informative: NDArray[np.bool_]  # whose error counts
    window: float  # tuples of this stream in a capacity window

    @property
    def total_weight(self) -> float:
        """Weight of all errors of the stream, by its share of the tuples."""
        return math.fsum(self.stream.share * self.weight[self.informative])

    def solve(self, thinning: int, options: Sequence[int]) -> Part:
        """Return the exact frontier when every ``thinning``-th tuple is sent."""
        costs, losses = self._table(thinning, options)
        return self._part(frontiers.solve(costs, losses), thinning, options)

    def ranked(self) -> Part:
        """Return the paper's nested schemes: attributes shed one by one, least deviation first."""
        costs, losses = self._table(1, self.menu.periodic())
        items = self.stream.items
        order = model.shedding_order([self.found.attributes[j].deviation for j in items])
        shed = np.zeros((len(items) + 1, len(items)), dtype=np.uint8)
        for step, item in enumerate(order):
            shed[step + 1 :, item] = 1
        shed = shed[::-1]
        columns = np.arange(len(items))
        table = (len(items), len(self.menu.periodic()))
        weight = np.array(costs, dtype=np.int64).reshape(table)[columns, shed].sum(axis=1)
        loss = np.array(losses, dtype=np.float64).reshape(table)[columns, shed].sum(axis=1)
        return self._part(Frontier(weight, loss, shed), 1, self.menu.periodic())

    def best(self, bands: bool) -> Part:
        """Return the undominated points over all thinnings and, with ``bands``, dead bands."""
        solved = [self.solve(n, self.menu.within(n)) for n in THINNINGS]
        if bands:
            periodic = len(self.menu.periodic())
            solved.append(self.solve(1, range(periodic, len(self.menu.period))))
        return _stacked(solved).undominated()

    def _table(
        self, thinning: int, options: Sequence[int]
    ) -> tuple[list[list[int]], list[list[float]]]:
        costs, losses = [], []
        for j in self.stream.items:
            attribute = self.found.attributes[j]
            share = self.stream.share * float(self.weight[j])
            costs.append(self.menu.costs(attribute, int(self.stream.sizes[j]), options))
            losses.append([share * x for x in self.menu.losses(attribute, options, thinning)])
        return costs, losses

    def _part(self, found: Frontier, thinning: int, options: Sequence[int]) -> Part:
        choice = np.array(options, dtype=np.uint8)[found.choice]
        # A tuple with everything in it needs no header.
        header = choice.any(axis=1) * self.stream.header_bytes
        bytes_sent = found.weight / self.menu.units + self.stream.kept_bytes + header
        kept = np.flatnonzero(self.informative & self.stream.kept)
        lost = math.fsum(
            self.stream.share * self.weight[j] * self.found.attributes[j].hold_error(thinning)
            for j in kept
        )
        full = self.stream.full_bytes
        share = 1.0
        if thinning > 1:
            # A window that slides over whole tuples may hold one more than its share.
            tuples = self.window / thinning
            share = (tuples + 1.0 if tuples > 1.0 else 1.0) / self.window
        thin = np.full((len(choice), 1), thinning, dtype=np.int64)
        return Part(
            self.stream.share * full, bytes_sent / full * share, found.loss + lost, choice, thin
        )


def _stacked(parts: Sequence[Part]) -> Part:
    return Part(
        parts[0].rate,
        np.concatenate([p.ratio for p in parts]),
        np.concatenate([p.loss for p in parts]),
        np.concatenate([p.choice for p in parts]),
        np.concatenate([p.thinning for p in parts]),
    )


def proportional(parts: Sequence[Part]) -> Part:
    """Return the frontier when every stream keeps to the same ratio of its own rate."""
    ratio = np.unique(np.concatenate([p.ratio for p in parts]))
    ratio = ratio[ratio >= max(float(p.ratio[0]) for p in parts)]
    chosen = [p.take(np.searchsorted(p.ratio, ratio + SLACK, side="right") - 1) for p in parts]
    return Part(
        math.fsum(p.rate for p in parts),
        ratio,
        np.sum([p.loss for p in chosen], axis=0),
        np.concatenate([p.choice for p in chosen], axis=1),
        np.concatenate([p.thinning for p in chosen], axis=1),
    )


def pooled(parts: Sequence[Part]) -> Part:
    """Return the frontier when streams share bytes freely: the sums of their points."""
    total = parts[0]
    for part in parts[1:]:
        total, part = total.thinned(POOL_POINTS), part.thinned(POOL_POINTS)
        rate = total.rate + part.rate
        spent = (total.ratio * total.rate)[:, None] + (part.ratio * part.rate)[None, :]
        loss = total.loss[:, None] + part.loss[None, :]
        first, second = (axis.ravel() for axis in np.indices(loss.shape))
        order = np.lexsort((loss.ravel(), spent.ravel()))
        best = np.minimum.accumulate(np.append(np.inf, loss.ravel()[order]))[:-1]
        index = order[loss.ravel()[order] < best]
        first, second = first[index], second[index]
        total = Part(
            rate,
            spent.ravel()[index] / rate,
            loss.ravel()[index],
            np.concatenate([total.choice[first], part.choice[second]], axis=1),
            np.concatenate([total.thinning[first], part.thinning[second]], axis=1),
        )
    return total
