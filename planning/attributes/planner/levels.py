"""The frontier with guarantees: load by load the least excesses, priority by priority, then loss.

An option breaks its guarantee by one of finitely many excesses, so there are finitely many caps
that a priority may be put under. Under given caps the options that are left have an exact frontier,
and it begins at the fewest bytes that they need. So every combination of caps is the best one can
have on one stretch of loads, a *cell*: from where its own bytes suffice up to where those of a
tighter cap do. Cells follow one another without overlap, and each is a piece of a plain frontier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from planning.attributes import path
from planning.attributes.path import Part
from planning.attributes.planner.menu import Source, Table

Caps = Mapping[int, float]  # the largest excess, by priority


class Cell(NamedTuple):
    """A stretch of loads, from ``low`` to below ``high``, and the excesses that it can keep to."""

    caps: Caps
    low: float
    high: float


class Levels:
    """The streams of a channel under caps on what their guarantees fall short.

    Parameters
    ----------
    share
        How the streams' frontiers become one: :func:`path.pooled` or :func:`path.proportional`.
    """

    def __init__(self, sources: Sequence[Source], share: Callable[[Sequence[Part]], Part]) -> None:
        self._sources, self._share = sources, share
        self._tables = [source.tables() for source in sources]
        self._solved: dict[tuple[int, Table], Part] = {}
        found: dict[int, set[float]] = {}
        for source, tables in zip(sources, self._tables, strict=True):
            for item, j in enumerate(source.stream.items.tolist()):
                if j in source.limits:
                    values = found.setdefault(source.limits[j].priority, set())
                    values.update(over for table in tables for over in table.excess[item])
        self._values = {p: sorted(found[p], reverse=True) for p in sorted(found, reverse=True)}

    def frontier(self, points: int) -> Part:
        """Return the points of all cells, at most ``points`` unless the cells have more ends."""
        parts, ends, first = [], [], 0
        for cell in self.cells({}, 0.0, math.inf):
            part = self._points(cell)
            parts.append(part)
            ends += [first, first + len(part.ratio) - 1]
            first += len(part.ratio)
        return path.stacked(parts).thinned(points, np.unique(ends))

    def cells(self, caps: Caps, low: float, high: float) -> Iterator[Cell]:
        """Yield the cells of a stretch of loads, under caps on the first priorities."""
        priority = next((p for p in self._values if p not in caps), None)
        if priority is None:
            yield Cell(caps, low, high)
            return
        starts: dict[float, float] = {}
        for value in self._values[priority]:
            start = self._least({**caps, priority: value})
            if start < high:
                starts[start] = value  # the tightest cap that begins there
        for start, stop in zip(starts, [*starts, high][1:], strict=True):
            yield from self.cells({**caps, priority: starts[start]}, start, stop)

    def _least(self, caps: Caps) -> float:
        """Return the least load that has room for any choice under caps."""
        cheapest = []
        for source, tables in zip(self._sources, self._tables, strict=True):
            allowed = [t for table in tables if (t := source.within(table, caps))]
            if not allowed:
                return math.inf
            few = path.stacked([source.cheapest(table) for table in allowed])
            cheapest.append(few.take(np.argsort(few.ratio, kind="stable")[:1]))
        return float(self._share(cheapest).ratio[0])

    def _points(self, cell: Cell) -> Part:
        """Return the frontier of a cell; modes that need more than its loads are left out."""
        parts = []
        for s, (source, tables) in enumerate(zip(self._sources, self._tables, strict=True)):
            points = []
            for table in tables:
                allowed = source.within(table, cell.caps)
                if allowed is None:
                    continue
                few = source.cheapest(allowed)
                points.append(few)
                if few.ratio[0] < cell.high or len(self._sources) > 1:
                    if (s, allowed) not in self._solved:
                        self._solved[s, allowed] = source.solved(allowed)
                    points.append(self._solved[s, allowed])
            parts.append(path.stacked(points).undominated())
        part = self._share(parts)
        slack = path.SLACK
        inside = (part.ratio >= cell.low - slack) & (part.ratio < cell.high - slack)
        return part.take(np.flatnonzero(inside))
