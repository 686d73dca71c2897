"""From a profile to a plan: every method is a menu of options on one exact frontier.

A stream's frontier is the best over its attributes' options and over thinnings of its tuples; the
frontiers of several streams share the channel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, frozen, frozen_ints
from planning.attributes import path
from planning.attributes.kernels import HEADROOM
from planning.attributes.memory import MAX_ENTITIES
from planning.attributes.path import Frontier, Part
from planning.attributes.plan import NEVER, PERIODIC, Plan, Stream
from planning.attributes.printed import ranking
from planning.attributes.statistics import (
    AttributeProfile,
    Statistics,
    StreamProfile,
    profile_observed,
    window_of,
)
from planning.attributes.statistics.sums import BANDS
from planning.errors import StatisticsError

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters
    from planning.families import Definition

RATE_UNITS = 4096  # measured rates are rounded up to this fraction of a report
THINNINGS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
STATUS_DIGITS = 1e-3
MARGIN = 1.1  # what waiting for room in a window adds to the error of dead bands, on streams tried


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Make the plan of a stream, or of several that share a channel."""
    for stream in statistics.streams:
        names = tuple(a.name for a in stream.attributes)
        if names != definition.attribute_names:
            raise StatisticsError(
                f"statistics must profile the attributes {', '.join(definition.attribute_names)}, "
                f"got {', '.join(names)}; run the statistics stage again"
            )
    return plan_profiles(statistics, definition.parameters)


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Tell how close a plan is to the least loss, at any capacity.

    Every point of a frontier without rounding has the least loss for its bytes, and a plan that
    has all of them is exact. Points may have been left out between two that are published, and
    none of them can be better than the higher one: the plan is within the largest step of the loss.
    The paper's ranking and frontiers that were rounded or thinned before they were added up are
    heuristics. A plan that was read back does not know whether it is complete.

    >>> from planning.examples import demo_definition, demo_statistics
    >>> for points in (256, 4096):
    ...     machines = demo_definition("attributes").with_parameters({"frontier_points": points})
    ...     solver_status(plan(demo_statistics("attributes"), machines), machines)
    'within 0.032'
    'exact'
    """
    if plan.method == "paper":
        return "heuristic"
    if plan.complete:
        return "exact"
    pooled = len(plan.streams) > 1 and definition.parameters.inter_stream == "pooled"
    if pooled or _rounded(plan, definition.parameters):
        return "heuristic"
    step = -float(np.diff(plan.loss).min(initial=0.0))
    return f"within {math.ceil(step / STATUS_DIGITS) * STATUS_DIGITS:.3g}" if step else "exact"


def warnings(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> list[str]:
    """Return why the plan may be worse than it says, each with a remedy.

    >>> from planning.examples import demo_definition, demo_plan, demo_statistics
    >>> warnings(demo_plan("attributes"), demo_statistics("attributes"),
    ...          demo_definition("attributes"))
    []
    """
    found = []
    for profile, stream in zip(statistics.streams, plan.streams, strict=True):
        of = f" of {stream.name}" if plan.stream_attribute else ""
        if not stream.cid:
            shed = ", ".join(plan.attributes[j] for j in stream.items) or "nothing"
            found.append(
                f"no attribute{of} was found that names the entity of a tuple, so all tuples are "
                f"taken for reports of one entity, categories and texts are never shed, and {shed} "
                "may be; name the entity in parameters.cid"
            )
        if profile.tuples < plan.window:
            found.append(
                f"the window of {plan.window} tuples is longer than the {profile.tuples} samples"
                f"{of}, so nothing is known about a whole window; land more samples or lower "
                "parameters.window_tuples"
            )
        if profile.entities > MAX_ENTITIES:
            found.append(
                f"{profile.entities} entities{of} are more than the {MAX_ENTITIES} that a source "
                "remembers, so tuples of the others get whatever room is left; raise max_entities "
                "of the shedder or split the stream"
            )
    longest = max(stream.full_bytes for stream in plan.streams)
    room = plan.capacity_bytes(plan.capacity_ratio)
    if 0 <= room < longest:
        found.append(
            f"a window of {plan.window} tuples may carry {room} bytes at C/R "
            f"{plan.capacity_ratio:g}, less than a whole tuple of {longest}; raise "
            f"parameters.window_tuples to {math.ceil(plan.window * longest / max(room, 1))} or more"
        )
    return found


def _rounded(plan: Plan, parameters: Parameters) -> bool:
    """Whether the bytes of a stream may have been too many units for the exact frontier."""
    units = menu_of(parameters).units
    sizes = [stream.sizes[stream.items] for stream in plan.streams]
    return any(
        int(size.sum()) * units // max(1, int(np.gcd.reduce(size))) > path.MAX_UNITS
        for size in sizes
        if len(size)
    )


def plan_samples(samples: Mapping[str, Any], parameters: Parameters) -> Plan:
    """Make a plan straight from samples, without a definition: columns are what they seem to be.

    >>> from planning.attributes.parameters import Parameters
    >>> i = np.arange(600)
    >>> samples = {"station": i % 6, "level": i // 60, "load": (i * 7919) % 997}
    >>> stations = plan_samples(samples, Parameters(method="periods"))
    >>> stations.streams[0].cid, stations.shed_set(0.8)
    (('station',), ('level',))
    """
    return plan_profiles(profile_observed(samples, parameters), parameters)


def plan_profiles(statistics: Statistics, parameters: Parameters) -> Plan:
    """Make a plan from profiles and family parameters alone."""
    sources = sources_of(statistics, parameters)
    menu, weight = sources[0].menu, sources[0].weight
    if parameters.method == "paper":
        points = path.proportional([ranking.nested_schemes(source) for source in sources])
    else:
        parts = [source.best() for source in sources]
        share = path.pooled if parameters.inter_stream == "pooled" else path.proportional
        points = share(parts)
    points = points.thinned(parameters.frontier_points)
    return Plan(
        method=parameters.method,
        attributes=tuple(a.name for a in statistics.streams[0].attributes),
        kinds=tuple(a.kind for a in statistics.streams[0].attributes),
        weight=weight,
        stream_attribute=parameters.stream_attribute or "",
        streams=tuple(source.stream for source in sources),
        window=_window(statistics, parameters),
        tuple_bytes=tuple_bytes(sources),
        refresh=menu.refresh,
        capacity_ratio=parameters.capacity_ratio,
        option_period=frozen_ints(menu.period),
        option_band=frozen(menu.band),
        ratio=frozen(points.ratio),
        loss=frozen(points.loss / total_weight(sources)),
        choice=points.choice,
        thinning=frozen_ints(points.thinning),
        complete=points.complete,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Menu:
    """The options every attribute has: a sending period and a dead band each.

    Option 0 is always "sent with every tuple". ``units`` divides the bytes of a report so that
    every option's cost is a whole number.
    """

    period: tuple[int, ...]
    band: tuple[float, ...]
    units: int
    refresh: int = NEVER  # the longest silence that is promised
    thinnings: tuple[int, ...] = THINNINGS

    def periodic(self) -> range:
        """Return the indices of the options without a dead band."""
        return range(sum(band == PERIODIC for band in self.band))

    def within(self, thinning: int) -> list[int]:
        """Return the options that keep the promised refresh when tuples are thinned.

        Tuples that are thinned beyond it carry everything.
        """
        return [
            o
            for o in self.periodic()
            if o == 0 or not self.refresh or 0 < self.period[o] * thinning <= self.refresh
        ]

    def price(
        self, option: int, attribute: AttributeProfile, size: int, thinning: int
    ) -> tuple[int, int, float]:
        """Return how often an option sends, its bytes per sent tuple, in units, and its error.

        Only every ``thinning``-th tuple is sent.
        """
        period = self.period[option]
        if self.band[option] == PERIODIC:
            rate = self.units // period if period else 0
            return rate, size * rate, attribute.hold_error(period * thinning)
        band = option - len(self.periodic())
        rate = math.ceil(float(attribute.band_rate[band]) * self.units - 1e-9)
        rate = min(self.units, rate)
        error = float(attribute.band_error[band])
        return rate, size * rate, max(error, min(MARGIN * error, 1.0))


class Mode(NamedTuple):
    """What may be chosen together: a thinning and the options that it allows.

    The share of the tuples that are sent is at most ``always`` + ``each`` times the values that
    are due per tuple. Dead bands follow every report, so they are not combined with thinning.
    """

    thinning: int
    options: Sequence[int]
    always: float = 1.0
    each: float = 0.0


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
        periods += (refresh,) * len(BANDS)
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

    def best(self) -> Part:
        """Return the undominated points over all modes of the menu, each solved exactly."""
        solved = [self.part(path.solve(*self.table(mode)), mode) for mode in self.modes()]
        return path.stacked(solved).undominated()

    def modes(self) -> list[Mode]:
        """Return the modes: every thinning, and dead bands.

        Tuples with nothing due are not sent. The share of the others is measured for equal bands;
        it is a concave function of the values due, so a few of the lines that bound it from above
        are enough.
        """
        menu, periodic = self.menu, len(self.menu.periodic())
        modes = [Mode(n, menu.within(n)) for n in menu.thinnings]
        bands = range(periodic, len(menu.period))
        if bands:
            due = [self.profile.attributes[j].band_rate for j in self.stream.items]
            values = np.sum(due, axis=0) if due else np.zeros(len(bands))
            tuples = self.profile.band_tuples
            lines = path.lines_above(values, tuples if len(tuples) else np.minimum(values, 1.0))
            modes += [Mode(1, bands, always, each) for always, each in lines]
        return modes

    def table(self, mode: Mode) -> tuple[list[list[int]], list[list[float]]]:
        """Return (costs in units, losses) of every option of every attribute that may be shed.

        Where a tuple is sent because of a value, the value pays for the rest of the tuple.
        """
        rest = mode.each * (self.stream.kept_bytes + self.stream.header_bytes)
        costs, losses = [], []
        for j in self.stream.items:
            attribute, size = self.profile.attributes[j], int(self.stream.sizes[j])
            share = self.stream.share * float(self.weight[j])
            priced = [self.menu.price(o, attribute, size, mode.thinning) for o in mode.options]
            costs.append([cost + math.ceil(rest * rate - 1e-9) for rate, cost, _ in priced])
            losses.append([share * error for *_, error in priced])
        return costs, losses

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

    def part(self, frontier: Frontier, mode: Mode) -> Part:
        """Return a mode's frontier as shares of the channel: ratios of bytes, and losses."""
        choice = np.array(mode.options, dtype=np.uint8)[frontier.choice]
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


def sources_of(statistics: Statistics, parameters: Parameters) -> list[Source]:
    """Return the streams of the channel with their options."""
    total = sum(s.tuples for s in statistics.streams)
    names = tuple(a.name for a in statistics.streams[0].attributes)
    weight = frozen([parameters.weights.get(name, 1.0) for name in names])
    menu = menu_of(parameters)
    window = _window(statistics, parameters)
    sources = []
    for profile in statistics.streams:
        stream = _stream(profile, parameters, menu, profile.tuples / total)
        informative = stream.informative(names, parameters.stream_attribute or "")
        sources.append(Source(profile, stream, menu, weight, informative, window * stream.share))
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


def _window(statistics: Statistics, parameters: Parameters) -> int:
    """Return W: one cycle of every stream of the channel, unless the user says otherwise."""
    if parameters.window_tuples is not None:
        return parameters.window_tuples
    return sum(window_of(s.cycle, parameters) for s in statistics.streams)


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
