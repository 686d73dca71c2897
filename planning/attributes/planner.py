"""From a profile to a plan: every method is a menu of options on one exact frontier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray, frozen, frozen_ints
from planning.attributes import frontier as frontiers
from planning.attributes import model, profile
from planning.attributes.frontier import Frontier
from planning.attributes.plan import NEVER, PERIODIC, Plan, Stream
from planning.attributes.statistics import AttributeProfile, Statistics, StreamProfile, window_of
from planning.errors import StatisticsError

RATE_UNITS = 4096  # measured rates are rounded up to this fraction of a report
THINNINGS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True, slots=True, eq=False)
class Menu:
    """The options every attribute has: a sending period and a dead band each.

    Option 0 is always "sent with every tuple". ``units`` divides the bytes of a report so that
    every option's cost is a whole number.
    """

    period: tuple[int, ...]
    band: tuple[float, ...]
    units: int

    def periodic(self) -> range:
        """Return the indices of the options without a dead band."""
        return range(sum(band == PERIODIC for band in self.band))

    def costs(self, attribute: AttributeProfile, size: int, options: range) -> list[int]:
        """Return each option's bytes per sent tuple, in units."""
        first = len(self.periodic())
        costs = []
        for o in options:
            if self.band[o] == PERIODIC:
                rate = self.units // self.period[o] if self.period[o] else 0
            else:
                measured = float(attribute.band_rate[o - first]) * self.units
                rate = min(self.units, math.ceil(measured - 1e-9))
            costs.append(size * rate)
        return costs

    def losses(self, attribute: AttributeProfile, options: range, thinning: int) -> list[float]:
        """Return each option's error when only every ``thinning``-th tuple is sent."""
        first = len(self.periodic())
        return [
            attribute.hold_error(self.period[o] * thinning)
            if self.band[o] == PERIODIC
            else float(attribute.band_error[o - first])
            for o in options
        ]


def menu_of(parameters: Any) -> Menu:
    """Return the options that a method offers.

    Send on change has the periods as well: below the capacity that its header and CID need in every
    tuple, sending whole cycles more rarely is better.
    """
    refresh = parameters.refresh_reports
    if parameters.method == "paper":
        periods: tuple[int, ...] = (1, NEVER)
    elif parameters.method == "selection":
        periods = (1, refresh) if refresh != 1 else (1,)
    else:
        periods = tuple(k for k in parameters.periods if not refresh or k <= refresh)
    units = math.lcm(*(k for k in periods if k))
    bands = (PERIODIC,) * len(periods)
    if parameters.method == "on_change":
        periods += (refresh,) * len(profile.BANDS)
        bands += profile.BANDS
        units *= -(-RATE_UNITS // units)
    return Menu(periods, bands, units)


def plan(statistics: Statistics, definition: Any) -> Plan:
    """Make the plan of a stream, or of several that share a channel."""
    return plan_profiles(statistics, definition.parameters)


def plan_profiles(statistics: Statistics, parameters: Any) -> Plan:
    """Make a plan from profiles and family parameters alone."""
    total = sum(s.tuples for s in statistics.streams)
    names = [a.name for a in statistics.streams[0].attributes]
    weight = frozen([parameters.weights.get(name, 1.0) for name in names])
    menu = menu_of(parameters)
    streams = [_stream(s, parameters, menu, s.tuples / total) for s in statistics.streams]
    tuple_bytes = math.fsum(s.share * s.full_bytes for s in streams)
    if tuple_bytes <= 0:
        raise StatisticsError("attributes must take bytes, got a stream of size 0; set sizes")
    grouped = parameters.stream_attribute and (
        parameters.inter_stream == "proportional" or parameters.method == "paper"
    )
    groups = [[s] for s in range(len(streams))] if grouped else [list(range(len(streams)))]
    parts = [_part(group, statistics, streams, menu, weight, parameters) for group in groups]
    merged = _merged(parts, parameters.frontier_points)
    return Plan(
        method=parameters.method,
        attributes=tuple(names),
        kinds=tuple(a.kind for a in statistics.streams[0].attributes),
        weight=weight,
        stream_attribute=parameters.stream_attribute or "",
        streams=tuple(streams),
        window=_window(statistics, parameters),
        tuple_bytes=tuple_bytes,
        refresh=parameters.refresh_reports if parameters.method != "paper" else NEVER,
        capacity_ratio=parameters.capacity_ratio,
        option_period=frozen_ints(menu.period),
        option_band=frozen(menu.band),
        ratio=frozen(merged.ratio),
        loss=frozen(merged.loss),
        choice=merged.choice,
        thinning=frozen_ints(merged.thinning),
    )


def _window(statistics: Statistics, parameters: Any) -> int:
    """Return W: one cycle of every stream of the channel, unless the user says otherwise."""
    if parameters.window_tuples is not None:
        return int(parameters.window_tuples)
    return sum(window_of(s.cycle, parameters) for s in statistics.streams)


def _stream(found: StreamProfile, parameters: Any, menu: Menu, share: float) -> Stream:
    names = [a.name for a in found.attributes]
    sizes = np.array([a.size for a in found.attributes], dtype=np.int64)
    shared = parameters.stream_attribute is not None
    # On a shared channel a column that a stream never fills belongs to another stream.
    present = np.array([not shared or a.present > 0 for a in found.attributes])
    always = {*found.cycle.cid, *parameters.must_keep, parameters.stream_attribute}
    kept = np.array([name in always for name in names]) | (sizes == 0)
    items = int((present & ~kept).sum())
    bare = set(menu.period) <= {1, NEVER} and set(menu.band) == {PERIODIC}
    return Stream(
        name=found.name,
        cid=found.cycle.cid,
        cycle_length=found.cycle.length,
        share=share,
        header_bytes=0 if bare else -(-items // 8),
        sizes=frozen_ints(sizes),
        present=present,
        kept=kept,
        scale=frozen([a.scale for a in found.attributes]),
        score=frozen([a.score for a in found.attributes]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The frontier of a group of streams, as ratios of the group's own rate."""

    ratio: FloatArray
    loss: FloatArray  # weighted, not yet divided by the channel's total weight
    choice: NDArray[np.uint8]
    thinning: IntArray
    total_weight: float

    def take(self, index: IntArray) -> _Part:
        """Return some of the points."""
        return _Part(
            self.ratio[index], self.loss[index], self.choice[index], self.thinning[index],
            self.total_weight,
        )  # fmt: skip


def _part(
    group: Sequence[int],
    statistics: Statistics,
    streams: Sequence[Stream],
    menu: Menu,
    weight: FloatArray,
    parameters: Any,
) -> _Part:
    """Solve one group of streams that share their bytes freely: the best over all thinnings."""
    problem = _Problem(group, statistics, streams, menu, weight, parameters)
    if parameters.method == "paper":
        return problem.solve(1, menu.periodic(), paper=True)
    solved = [problem.solve(n, menu.periodic()) for n in THINNINGS]
    if parameters.method == "on_change":
        solved.append(problem.solve(1, range(len(menu.periodic()), len(menu.period))))
    ratio = np.concatenate([p.ratio for p in solved])
    loss = np.concatenate([p.loss for p in solved])
    order = np.lexsort((loss, ratio))
    best = np.minimum.accumulate(np.append(np.inf, loss[order]))[:-1]
    index = order[loss[order] < best]
    whole = _Part(
        ratio, loss, np.concatenate([p.choice for p in solved]),
        np.concatenate([p.thinning for p in solved]), solved[0].total_weight,
    )  # fmt: skip
    return whole.take(index)


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """A group of streams, ready to be solved at any thinning of its tuples."""

    group: Sequence[int]
    statistics: Statistics
    streams: Sequence[Stream]
    menu: Menu
    weight: FloatArray
    parameters: Any

    def solve(self, thinning: int, options: range, *, paper: bool = False) -> _Part:
        """Return the frontier when every ``thinning``-th tuple is sent, with some options."""
        counts = [self.statistics.streams[s].tuples for s in self.group]
        divisor = math.gcd(*counts)
        costs: list[list[int]] = []
        losses: list[list[float]] = []
        lost = 0.0
        total = 0.0
        fixed = full = header = 0
        for s, count in zip(self.group, counts, strict=True):
            stream, per = self.streams[s], count // divisor
            fixed += stream.kept_bytes * per
            header += stream.header_bytes * per
            full += stream.full_bytes * per
            items = set(stream.items.tolist())
            for j, attribute in enumerate(self.statistics.streams[s].attributes):
                share = stream.share * float(self.weight[j])
                if j in items:
                    size = int(stream.sizes[j]) * per
                    costs.append(self.menu.costs(attribute, size, options))
                    found = self.menu.losses(attribute, options, thinning)
                    losses.append([share * loss for loss in found])
                    total += share
                elif self._counts(stream, j, attribute.name):
                    lost += share * attribute.hold_error(thinning)
                    total += share
        if paper:
            found_profile = self.statistics.streams[self.group[0]]
            points = _paper_frontier(found_profile, self.streams[self.group[0]], costs, losses)
        else:
            points = frontiers.solve(costs, losses)
        choice = (points.choice + options.start).astype(np.uint8)
        # A tuple with everything in it needs no header.
        heads = np.where((choice == 0).all(axis=1), 0, header)
        ratio = (points.weight / self.menu.units + fixed + heads) / full / thinning
        repeated = np.full(len(ratio), thinning, dtype=np.int64)
        return _Part(ratio, points.loss + lost, choice, repeated, total)

    def _counts(self, stream: Stream, j: int, name: str) -> bool:
        """Whether a kept attribute's error counts: it costs bytes and does not name anything."""
        named = name in (*stream.cid, self.parameters.stream_attribute)
        return bool(stream.present[j] and stream.sizes[j] > 0 and not named)


def _paper_frontier(
    found: StreamProfile, stream: Stream, costs: list[list[int]], losses: list[list[float]]
) -> Frontier:
    """Return the paper's nested schemes: attributes shed one by one, least deviation first."""
    items = stream.items
    order = model.shedding_order([found.attributes[j].deviation for j in items])
    choice = np.zeros((len(items) + 1, len(items)), dtype=np.uint8)
    for step, item in enumerate(order):
        choice[step + 1 :, item] = 1
    choice = choice[::-1]
    columns = np.arange(len(items))
    weight = np.array(costs, dtype=np.int64)[columns, choice].sum(axis=1)
    loss = np.array(losses)[columns, choice].sum(axis=1)
    return Frontier(weight, loss, choice)


def _merged(parts: Sequence[_Part], points: int) -> _Part:
    """Return one frontier over groups that each keep to the same ratio of their own rate.

    Groups share one thinning, because the runtime thins all tuples of the channel alike.
    """
    total = math.fsum(p.total_weight for p in parts) or 1.0
    ratio = np.unique(np.concatenate([p.ratio for p in parts]))
    if len(parts) > 1:
        parts = [p.take(np.flatnonzero(p.thinning == 1)) for p in parts]
        ratio = ratio[ratio >= max(float(p.ratio[0]) for p in parts)]
    if len(ratio) > points:
        goals = np.linspace(float(ratio[0]), float(ratio[-1]), points)
        ratio = ratio[np.unique(np.searchsorted(ratio, goals + 1e-12, side="right") - 1)]
    rows = [np.searchsorted(p.ratio, ratio + 1e-12, side="right") - 1 for p in parts]
    chosen = [p.take(r) for p, r in zip(parts, rows, strict=True)]
    return _Part(
        ratio,
        np.sum([p.loss for p in chosen], axis=0) / total,
        np.concatenate([p.choice for p in chosen], axis=1),
        chosen[0].thinning,
        total,
    )
