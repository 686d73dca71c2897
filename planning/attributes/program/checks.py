"""A plan's settings reckoned from the statistics, and compared with the program's optimum."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planning.attributes.plan import RATIO_SLACK, Plan, Setting, promised
from planning.attributes.planner.menu import Source, channel_window, total_weight, tuple_bytes
from planning.attributes.program.model import GAP, Model
from planning.attributes.statistics import Statistics
from planning.certifying import TOLERANCE, Check

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters
    from planning.families import Definition

MOST = 32  # loads
SPREAD = 8  # breakpoints that are checked on both sides
BESIDE = 4 * RATIO_SLACK  # where the point below a breakpoint is in force


class Reckoned(NamedTuple):
    """What a setting comes to, by the statistics."""

    ratio: float  # of the bytes that it needs
    quality: float
    excess: dict[int, float]  # by priority
    kept: list[float]  # of every guarantee, in its unit
    broken: dict[str, float]  # constraints, and by how much


class Certifier:
    """Compares a plan with the program of its statistics.

    Examples
    --------
    >>> from planning.examples import demo_definition, demo_statistics
    >>> from planning.attributes.planner import plan
    >>> definition = demo_definition("attributes").with_parameters({"frontier_points": 4096})
    >>> statistics = demo_statistics("attributes")
    >>> one = certifier(plan(statistics, definition), statistics, definition)
    >>> one.scope
    'optimal for these 34 options of 6 attributes'
    >>> one.check(0.5, 60.0).gap < 1e-6
    True
    """

    def __init__(
        self, plan: Plan, statistics: Statistics, definition: Definition[Parameters]
    ) -> None:
        self.plan, self.model = plan, Model(statistics, definition)
        self._pooled = definition.parameters.inter_stream == "pooled"
        self._paper = definition.parameters.method == "paper"
        sources = self._sources = self.model.sources
        self._tables = [source.tables() for source in sources]
        self._codes: dict[int, dict[tuple[int, float], int]] = {}
        self._kept_loss = [
            {n: source.kept_loss(n) for n in source.menu.thinnings} for source in sources
        ]
        self._weight, self._rate = total_weight(sources), tuple_bytes(sources)
        self._window = channel_window(statistics, definition.parameters)
        items = sum(len(source.stream.items) for source in sources)
        self.scope = (
            f"optimal for these {len(sources[0].menu.period)} options of {items} attributes"
        )
        self._alike = self._compared(definition)
        self.loads = self._cover(definition)

    def _compared(self, definition: Definition[Parameters]) -> dict[str, float]:
        """Return by how much what the plan says of its stream differs from the statistics."""
        plan, menu = self.plan, self._sources[0].menu
        asked = {
            (f"attribute {plan.name_of(s, j)}", name, value, limit.priority)
            for s, source in enumerate(self._sources)
            for j, limit in source.limits.items()
            for name, value in limit.asked().items()
        }
        given = [(one.name, one.limit, one.value, one.priority) for one in plan.guarantees]
        ranks = [one.priority for one in plan.guarantees]
        pairs: list[tuple[Any, Any]] = [
            (stream_part, plan_part)
            for source, stream in zip(self._sources, plan.streams, strict=True)
            for stream_part, plan_part in (
                (source.stream.sizes, stream.sizes), (source.stream.scale, stream.scale),
                (source.stream.score, stream.score), (source.stream.present, stream.present),
                (source.stream.kept, stream.kept),
                ([source.stream.share, source.stream.header_bytes],
                 [stream.share, stream.header_bytes]),
            )
        ]  # fmt: skip
        pairs += [(menu.period, plan.option_period), (menu.band, plan.option_band)]
        pairs += [(self._sources[0].weight, plan.weight)]
        pairs += [([self._window, self._rate], [plan.window, plan.tuple_bytes])]
        names = [s.stream.name for s in self._sources] == [s.name for s in plan.streams]
        same = names and plan.attributes == definition.attribute_names
        same = same and plan.refresh == menu.refresh and plan.method == definition.parameters.method
        return {
            "the stream of the statistics": max(_apart(a, b) for a, b in pairs) if same else 1.0,
            "the guarantees of the definition": float(
                asked != set(given) or len(given) != len(asked) or ranks != sorted(ranks)[::-1]
            ),
        }

    def _cover(self, definition: Definition[Parameters]) -> list[float]:
        """Return loads: those that look wrong, those in use, the ends, and beside breakpoints.

        At every point of the frontier the setting is reckoned. Where it takes fewer bytes than the
        point begins at, or two points begin together, something better may fit just below.
        """
        plan = self.plan
        breaks = [float(load) for load in plan.ratio if 0.0 <= load < 1.0]
        odd = []
        below = [b - BESIDE for a, b in itertools.pairwise(breaks) if b - a < BESIDE]
        for load in breaks:
            found = self.reckon(load)
            off = abs(found.quality - plan.predicted_quality(load))
            if max(off, *found.broken.values()) > TOLERANCE:
                odd.append(load)
            if len(self._sources) == 1 and found.ratio < load - BESIDE:
                below.append(load - BESIDE)
        floors = [one.holds_from for one in plan.guarantees if one.holds_from < 1.0]
        some = [breaks[k] for k in np.linspace(0, len(breaks) - 1, SPREAD).astype(int)]
        near = [load - step for load in (*floors, *some) for step in (0.0, BESIDE)]
        loads = [*odd, *below, plan.capacity_ratio, *definition.gate.loads, *near, 1.0]
        return list(dict.fromkeys(load for load in loads if load > 0.0))[:MOST]

    def reckon(self, load: float) -> Reckoned:
        """Return what the plan's setting at a load needs, loses and promises."""
        plan, setting = self.plan, self.plan.at(load)
        row = max(plan.point(load), 0)
        broken = dict(self._alike)
        room = math.floor(load * self._window * self._rate + RATIO_SLACK) if load < 1.0 else -1
        broken["the capacity of a window"] = abs(setting.capacity_bytes - room) / max(room, 1)
        if load >= 1.0:
            whole = (setting.period == 1).all() and (setting.band < 0).all()
            broken["everything passes"] = float(not (whole and (setting.tuple_rate == 1).all()))
            best = [promised(g.limit, g.value, 1, -1.0, 1.0) for g in plan.guarantees]
            return Reckoned(1.0, 1.0, {}, best, broken)
        spent, lost, excess = [], [], dict[int, float]()
        kept: dict[str, float] = {}
        for s, source in enumerate(self._sources):
            thinning = int(plan.thinning[row, s])
            options = self._options(setting, s, thinning)
            ratio, loss = self._price(source, s, thinning, options)
            header = source.stream.header_bytes if any(options) else 0
            broken[f"header[{s}]"] = float(setting.header_bytes[s] != header)
            spent.append(ratio)
            lost.append(loss)
            for j, option in zip(source.stream.items.tolist(), options, strict=True):
                if j in source.limits and option >= 0:
                    limit = source.limits[j]
                    over = source.excess(thinning, j, option)
                    excess[limit.priority] = max(excess.get(limit.priority, 0.0), over)
                    every, band = source.menu.period[option] * thinning, source.menu.band[option]
                    for name, value in limit.asked().items():
                        kept[f"attribute {plan.name_of(s, j)} {name}"] = promised(
                            name, value, every, band, float(source.stream.scale[j])
                        )
        needed = self._together(spent)
        quality = max(0.0, 1.0 - math.fsum(lost) / self._weight)
        slower = load / needed if plan.point(load) < 0 and needed > 0.0 else 1.0
        for s, stream in enumerate(plan.streams):
            rate = slower / plan.thinning[row, s]
            if rate < 1.0 == slower and len(plan.streams) == 1 and not plan.choice[row].any():
                fit = room // stream.full_bytes  # whole tuples, except the one a window may cut
                rate = max(rate, min(1.0, (fit - 1) / self._window))
            broken[f"thinning[{s}]"] = abs(setting.tuple_rate[s] / rate - 1.0) if rate else 0.0
        broken["an option of the menu"] = 0.0 if math.isfinite(needed) else 1.0
        if slower < 1.0:
            quality *= slower
        else:
            broken["capacity"] = (min(needed, 2.0) - load - RATIO_SLACK) / load
        given = [kept.get(f"{one.name} {one.limit}", math.inf) for one in plan.guarantees]
        return Reckoned(needed, quality, excess, given, broken)

    def _options(self, setting: Setting, s: int, thinning: int) -> list[int]:
        """Return the options of a stream's attributes, -1 for what is not in the menu."""
        source = self._sources[s]
        if thinning not in self._codes:
            options = zip(source.menu.period, source.menu.band, strict=True)
            coded = [(k * thinning if o else k, b) for o, (k, b) in enumerate(options)]
            self._codes[thinning] = {code: o for o, code in reversed(list(enumerate(coded)))}
        every, band = setting.period[s].tolist(), setting.band[s].tolist()
        return [
            self._codes[thinning].get((every[j], band[j]), -1) for j in source.stream.items.tolist()
        ]

    def _price(
        self, source: Source, s: int, thinning: int, options: Sequence[int]
    ) -> tuple[float, float]:
        """Return the share of a stream's bytes that a choice needs, and its loss.

        Of the modes that allow the choice, the one counts that says it takes the fewest.
        """
        best = math.inf, 0.0
        for table in self._tables[s]:
            allowed = all(o in menu for o, menu in zip(options, table.menus, strict=True))
            if table.mode.thinning != thinning or not allowed:
                continue
            places = [menu.index(o) for o, menu in zip(options, table.menus, strict=True)]
            cost = sum(c[k] for c, k in zip(table.costs, places, strict=True)) / source.menu.units
            rest = source.stream.kept_bytes + any(options) * source.stream.header_bytes
            share = source.tuple_share(table.mode) / source.stream.full_bytes
            lost = math.fsum(v[k] for v, k in zip(table.losses, places, strict=True))
            best = min(best, ((cost + table.mode.always * rest) * share, lost))
        return best[0], best[1] + self._kept_loss[s].get(thinning, 0.0)

    def _together(self, ratios: Sequence[float]) -> float:
        """Return the load that the streams need."""
        if not self._pooled or self._paper:
            return max(ratios)
        rates = [s.stream.share * s.stream.full_bytes for s in self._sources]
        return math.fsum(r * z for r, z in zip(rates, ratios, strict=True)) / self._rate

    def check(self, load: float, limit_s: float) -> Check:
        """Compare the plan's setting at a load with the solver's, within a time limit."""
        plan, found = self.plan, self.reckon(load)
        claimed, broken = plan.predicted_quality(load), found.broken
        best = None if load >= 1.0 else self.model.solve(load, limit_s)
        exact = plan.point(load) >= 0 and load < 1.0
        if best and exact:
            for priority, least in best.excess.items():
                own = found.excess.get(priority, math.inf)
                broken[f"the least excess of priority {priority}"] = abs(own - least)
        for one, said, own in zip(plan.guarantees, plan.kept(load), found.kept, strict=True):
            late = own > one.value * (1.0 + TOLERANCE) and load >= one.holds_from
            broken[str(one)] = own / one.value - 1.0 if late and exact else 0.0
            if exact and not plan.at(load).tuple_rate.min() < 1.0:
                broken[f"what is said of {one.name}"] = abs(said - own) / one.value
        worst = max(broken, key=lambda name: broken[name])
        quality, bound, top, name = found.quality, 1.0, found.quality, "CP-SAT"
        if best:
            bound = max(quality if best.status == "bound" else 0.0, 1.0 - best.bound)
            bound, name = min(bound, 1.0), "GLOP" if best.status == "bound" else name
            top = quality if best.status == "bound" else max(0.0, 1.0 - best.loss)
        elif load < 1.0:
            bound = quality if not exact else bound  # nothing that the program knows fits
            broken["any choice fits"] = 1.0 if exact else 0.0
        return Check(
            load, quality, claimed, top, bound, max(broken[worst], 0.0),
            worst if broken[worst] > 0.0 else "", name, TOLERANCE + GAP,
        )  # fmt: skip


def _apart(ours: Any, theirs: Any) -> float:
    """Return how far two lists of numbers are apart, as a part of the larger."""
    a, b = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if a.shape != b.shape:
        return 1.0
    larger = np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-12)
    return float((np.abs(a - b) / larger).max(initial=0.0))


def certifier(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> Certifier:
    """Return what compares a plan with the program of its statistics."""
    return Certifier(plan, statistics, definition)
