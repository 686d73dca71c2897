"""What a stream may choose from: the options of every attribute, what each costs and loses.

An option is a sending period and a dead band; a mode says which options go together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, frozen, frozen_ints
from planning.attributes import path
from planning.attributes.kernels import HEADROOM
from planning.attributes.path import Frontier, Part
from planning.attributes.plan import MORE_TURNS, NEVER, PERIODIC, WAITING, Stream, promised
from planning.attributes.statistics import AttributeProfile, Statistics, StreamProfile, window_of
from planning.attributes.statistics.sums import BANDS
from planning.errors import StatisticsError

if TYPE_CHECKING:
    from planning.attributes.parameters import Limit, Parameters

T = TypeVar("T")
RATE_UNITS = 4096  # measured rates are rounded up to this fraction of a report
THINNINGS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
CAP_SLACK = 1e-9  # of an excess
MARGIN = 1.1  # what waiting for room in a window adds to the error of dead bands, on streams tried


@dataclass(frozen=True, slots=True, eq=False)
class Menu:
    """The options every attribute has: a sending period and a dead band each.

    Option 0 is always "sent with every tuple". ``units`` divides the bytes of a report so that
    every option's cost is a whole number. Dead bands come once with the refresh as their period,
    and again for every guaranteed age below it, less what a value may wait for room.
    """

    period: tuple[int, ...]
    band: tuple[float, ...]
    units: int
    refresh: int = NEVER  # the longest silence that is promised
    thinnings: tuple[int, ...] = THINNINGS

    def periodic(self) -> range:
        """Return the indices of the options without a dead band."""
        return range(sum(band == PERIODIC for band in self.band))

    def banded(self, period: int) -> tuple[int, ...]:
        """Return the indices of the options with a dead band and a period."""
        first = len(self.periodic())
        return tuple(o for o in range(first, len(self.band)) if self.period[o] == period)

    def within(self, thinning: int) -> tuple[int, ...]:
        """Return the options that keep the promised refresh when tuples are thinned.

        Tuples that are thinned beyond it carry everything.
        """
        return tuple(
            o
            for o in self.periodic()
            if o == 0 or not self.refresh or 0 < self.period[o] * thinning <= self.refresh
        )

    def price(self, option: int, attribute: AttributeProfile, thinning: int) -> tuple[int, float]:
        """Return how often an option sends, in units per sent tuple, and its error.

        Only every ``thinning``-th tuple is sent.
        """
        period = self.period[option]
        if self.band[option] == PERIODIC:
            rate = self.units // period if period else 0
            return rate, attribute.hold_error(period * thinning)
        band = (option - len(self.periodic())) % len(BANDS)
        rate = math.ceil(float(attribute.band_rate[band]) * self.units - 1e-9)
        error = float(attribute.band_error[band])
        return min(self.units, rate), max(error, min(MARGIN * error, 1.0))


class Mode(NamedTuple):
    """What may be chosen together: a thinning and the options that it allows.

    The share of the tuples that are sent is at most ``always`` + ``each`` times the values that
    are due per tuple. Dead bands follow every report, so they are not combined with thinning.
    """

    thinning: int
    options: tuple[int, ...]
    always: float = 1.0
    each: float = 0.0


class Table(NamedTuple):
    """A mode with the options of every attribute that may be shed, and what each of them means."""

    mode: Mode
    menus: tuple[tuple[int, ...], ...]
    costs: tuple[tuple[int, ...], ...]  # bytes per sent tuple, in units
    losses: tuple[tuple[float, ...], ...]
    excess: tuple[tuple[float, ...], ...]  # beyond what is guaranteed, as a part of it


def menu_of(parameters: Parameters) -> Menu:
    """Return the options that a method offers.

    Send on change has the periods as well: below the capacity that its header and CID need in every
    tuple, sending whole cycles more rarely is better.
    """
    refresh = parameters.refresh_reports
    if parameters.method == "paper":
        return Menu((1, NEVER), (PERIODIC, PERIODIC), units=1, thinnings=(1,))
    if parameters.method == "selection":
        periods: tuple[int, ...] = (1, refresh) if refresh != 1 else (1,)
    else:
        periods = tuple(k for k in parameters.periods if not refresh or k <= refresh)
    units = math.lcm(*(k for k in periods if k))
    bands = (PERIODIC,) * len(periods)
    if parameters.method == "on_change":
        for age in (refresh, *(age - WAITING for age in parameters.young_ages)):
            periods += (age,) * len(BANDS)
            bands += BANDS
        units *= -(-RATE_UNITS // units)
    return Menu(periods, bands, units, refresh)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One stream with everything that its frontier depends on."""

    profile: StreamProfile
    stream: Stream
    menu: Menu
    weight: FloatArray
    informative: NDArray[np.bool_]  # whose error counts
    window: float  # tuples of this stream in a capacity window
    limits: Mapping[int, Limit]  # what is guaranteed, by attribute

    def best(self) -> Part:
        """Return the undominated points over all modes of the menu, each solved exactly."""
        return path.stacked([self.solved(table) for table in self.tables()]).undominated()

    def solved(self, table: Table) -> Part:
        """Return the exact frontier of a mode."""
        frontier = path.solve(table.costs, table.losses)
        if self.stream.header_bytes and all(menu[0] == 0 for menu in table.menus):
            # Whole tuples save the header, whatever else loses as little.
            frontier = Frontier(
                np.append(frontier.weight, sum(cost[0] for cost in table.costs)),
                np.append(frontier.loss, sum(loss[0] for loss in table.losses)),
                np.vstack([frontier.choice, np.zeros(len(table.menus), dtype=np.uint8)]),
                frontier.exact,
            )
        return self.part(frontier, table)

    def cheapest(self, table: Table) -> Part:
        """Return the point of a mode that takes the fewest bytes."""
        fewest = [int(np.lexsort(pair)[0]) for pair in zip(table.losses, table.costs, strict=True)]
        rows = np.array([fewest, [0] * len(fewest)], dtype=np.uint8)
        weight, loss = (
            [sum(of[o] for of, o in zip(values, row, strict=True)) for row in rows]
            for values in (table.costs, table.losses)
        )
        part = self.part(Frontier(np.array(weight, np.int64), np.array(loss), rows), table)
        return part.take(np.argsort(part.ratio, kind="stable")[:1])

    def modes(self) -> list[Mode]:
        """Return the modes: every thinning, and dead bands.

        Tuples with nothing due are not sent. The share of the others is measured for equal bands;
        it is a concave function of the values due, so a few of the lines that bound it from above
        are enough.
        """
        menu = self.menu
        modes = [Mode(n, menu.within(n)) for n in menu.thinnings]
        if len(menu.periodic()) < len(menu.period):
            due = [self.profile.attributes[j].band_rate for j in self.stream.items]
            values = np.sum(due, axis=0) if due else np.zeros(len(BANDS))
            tuples = self.profile.band_tuples
            lines = path.lines_above(values, tuples if len(tuples) else np.minimum(values, 1.0))
            bands = menu.banded(menu.refresh)
            modes += [Mode(1, bands, always, each) for always, each in lines]
        return modes

    def tables(self) -> list[Table]:
        """Return the modes with the options of every attribute that may be shed.

        Where dead bands are in force, what must be younger than the refresh may have a shorter
        period as well, with or without a band.
        """
        tables = []
        for mode in self.modes():
            banded = self.menu.band[mode.options[0]] != PERIODIC
            menus, priced = [], []
            for j in self.stream.items.tolist():
                menu = mode.options
                age = self.limits[j].max_age if j in self.limits else None
                if banded and age:
                    menu = (*self.menu.periodic(), *menu)
                    menu += self.menu.banded(age - WAITING)
                menus.append(menu)
                priced.append([self.priced(mode, banded, j, o) for o in menu])
            table = Table(
                mode,
                tuple(menus),
                tuple(tuple(cost for cost, _, _ in item) for item in priced),
                tuple(tuple(loss for _, loss, _ in item) for item in priced),
                tuple(tuple(excess for _, _, excess in item) for item in priced),
            )
            tables.append(table)
        return tables

    def priced(self, mode: Mode, banded: bool, j: int, option: int) -> tuple[int, float, float]:
        """Return an option's cost in units, its loss, and its excess.

        Where a tuple is sent because of a value, the value pays for the rest of the tuple. What is
        guaranteed has room for more turns in a window than its share.
        """
        attribute, size = self.profile.attributes[j], int(self.stream.sizes[j])
        rest = self.stream.kept_bytes + self.stream.header_bytes
        period, units = self.menu.period[option], self.menu.units
        rate, error = self.menu.price(option, attribute, mode.thinning)
        clocked = 0
        if j in self.limits and option:
            share = MORE_TURNS * mode.thinning / self.window
            if self.limits[j].max_age and period:
                share += 1.0 / period
                rate = rate if self.menu.band[option] != PERIODIC else 0
            clocked = math.ceil(min(1.0, share) * units - 1e-9)
        cost = size * min(units, rate + clocked) + math.ceil(mode.each * rest * rate - 1e-9)
        cost += rest * (clocked if option else units) if banded else 0
        loss = self.stream.share * float(self.weight[j]) * error
        return cost, loss, self.excess(mode.thinning, j, option)

    def excess(self, thinning: int, j: int, option: int) -> float:
        """Return by how much an option breaks what is guaranteed, as a part of it; 0: it does not.

        The larger excess counts where both the age and the error are limited.
        """
        if j not in self.limits:
            return 0.0
        period, band = self.menu.period[option] * thinning, self.menu.band[option]
        scale = float(self.stream.scale[j])
        over = (
            promised(name, value, period, band, scale) / value - 1.0
            for name, value in self.limits[j].asked().items()
        )
        return max(0.0, *over)

    def within(self, table: Table, caps: Mapping[int, float]) -> Table | None:
        """Return a mode with the options whose excess is within the cap of their priority."""
        chosen = []
        for j, excess in zip(self.stream.items.tolist(), table.excess, strict=True):
            cap = caps.get(self.limits[j].priority, np.inf) if j in self.limits else np.inf
            chosen.append([o for o, over in enumerate(excess) if over <= cap + CAP_SLACK])
        if not all(chosen):
            return None
        return Table(
            table.mode,
            _some(table.menus, chosen),
            _some(table.costs, chosen),
            _some(table.losses, chosen),
            _some(table.excess, chosen),
        )

    def kept_loss(self, thinning: int) -> float:
        """Return what thinning loses of the attributes that are in every sent tuple."""
        return math.fsum(
            self.stream.share * self.weight[j] * self.profile.attributes[j].hold_error(thinning)
            for j in np.flatnonzero(self.informative & self.stream.kept)
        )

    def tuple_share(self, mode: Mode) -> float:
        """Return the share of a window's tuples that a mode needs room for, if it sends all."""
        if mode.thinning == 1:
            return 1.0 if 0 in mode.options else 1.0 / HEADROOM
        # A window that slides over whole tuples may hold one more than its share.
        tuples = self.window / mode.thinning
        return (tuples + 1.0 if tuples > 1.0 else 1.0) / self.window

    def part(self, frontier: Frontier, table: Table) -> Part:
        """Return a mode's frontier as shares of the channel: ratios of bytes, and losses."""
        mode, choice = table.mode, frontier.choice.copy()
        for item, menu in enumerate(table.menus):
            choice[:, item] = np.array(menu, dtype=np.uint8)[frontier.choice[:, item]]
        # A tuple with everything in it needs no header.
        rest = self.stream.kept_bytes + choice.any(axis=1) * self.stream.header_bytes
        bytes_sent = frontier.weight / self.menu.units + mode.always * rest
        full = self.stream.full_bytes
        return Part(
            self.stream.share * full,
            bytes_sent / full * self.tuple_share(mode),
            frontier.loss + self.kept_loss(mode.thinning),
            choice,
            np.full((len(choice), 1), mode.thinning, dtype=np.int64),
            frontier.exact,
        )


def _some(
    items: Sequence[Sequence[T]], chosen: Sequence[Sequence[int]]
) -> tuple[tuple[T, ...], ...]:
    """Return the chosen options of every item."""
    return tuple(tuple(of[o] for o in some) for of, some in zip(items, chosen, strict=True))


def sources_of(statistics: Statistics, parameters: Parameters) -> list[Source]:
    """Return the streams of the channel with their options."""
    total = sum(s.tuples for s in statistics.streams)
    names = tuple(a.name for a in statistics.streams[0].attributes)
    weight = frozen([parameters.weights.get(name, 1.0) for name in names])
    menu = menu_of(parameters)
    window = channel_window(statistics, parameters)
    sources = []
    for profile in statistics.streams:
        stream = _stream(profile, parameters, menu, profile.tuples / total)
        informative = stream.informative(names, parameters.stream_attribute or "")
        limits = _limits(profile, stream, parameters)
        sources.append(
            Source(profile, stream, menu, weight, informative, window * stream.share, limits)
        )
    if tuple_bytes(sources) <= 0:
        raise StatisticsError("attributes must take bytes, got a stream of size 0; set sizes")
    return sources


def tuple_bytes(sources: Sequence[Source]) -> float:
    """Return R per tuple of the channel."""
    return math.fsum(s.stream.share * s.stream.full_bytes for s in sources)


def total_weight(sources: Sequence[Source]) -> float:
    """Return the weight of all errors, by which losses are divided; 1 if nothing counts.

    A stream's errors weigh by its share of the tuples.
    """
    of_streams = (math.fsum(s.stream.share * s.weight[s.informative]) for s in sources)
    return math.fsum(of_streams) or 1.0


def channel_window(statistics: Statistics, parameters: Parameters) -> int:
    """Return W: one cycle of every stream of the channel, unless the user says otherwise."""
    if parameters.window_tuples is not None:
        return parameters.window_tuples
    return sum(window_of(s.cycle, parameters) for s in statistics.streams)


def _limits(profile: StreamProfile, stream: Stream, parameters: Parameters) -> dict[int, Limit]:
    """Return what is guaranteed for a stream; refuse to for what goes with every tuple."""
    limits: dict[int, Limit] = {}
    for j, attribute in enumerate(profile.attributes):
        asked = parameters.limit(attribute.name, profile.name)
        if asked is None or not stream.present[j]:
            continue
        if stream.kept[j]:
            raise StatisticsError(
                f"guarantees must be for attributes that may be shed, got {attribute.name}, which "
                f"is in every tuple that is sent; remove parameters.guarantees.{attribute.name}"
            )
        limits[j] = asked
    return limits


def _stream(profile: StreamProfile, parameters: Parameters, menu: Menu, share: float) -> Stream:
    names = [a.name for a in profile.attributes]
    sizes = np.array([a.size for a in profile.attributes], dtype=np.int64)
    shared = parameters.stream_attribute is not None
    # On a shared channel a column that a stream never fills belongs to another stream.
    present = np.array([not shared or a.present > 0 for a in profile.attributes])
    always = {*profile.cycle.cid, *parameters.must_keep, parameters.stream_attribute}
    kept = np.array([name in always for name in names]) | (sizes == 0)
    if not profile.cycle.cid:  # one of them may name the entity, and must not be missing
        kept |= np.array([a.kind != "number" for a in profile.attributes])
    items = int((present & ~kept).sum())
    bare = set(menu.period) <= {1, NEVER} and set(menu.band) == {PERIODIC}
    return Stream(
        name=profile.name,
        cid=profile.cycle.cid,
        cycle_length=profile.cycle.length,
        share=share,
        header_bytes=0 if bare else -(-items // 8),
        sizes=frozen_ints(sizes),
        present=present,
        kept=kept,
        scale=frozen([a.scale for a in profile.attributes]),
        score=frozen([a.score for a in profile.attributes]),
    )
