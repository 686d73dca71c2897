"""Devices on MQTT: bytes and error beside one dead band for all, and storms of reconnecting nodes.

Bytes are those of the packets that the nodes publish, with everything that MQTT adds. The dead band
is tuned in hindsight: of all bands that stay within the bytes of the plan, the narrowest. For
attributes it comes in three units: the same number for all, as a fraction of each attribute's span
(the usual percent dead band of OPC UA), and in units of each attribute's spread within a station,
which takes the plan's own statistics. The last two also with categories sent only once, because
their changes, all of one size, else come in together. For positions it is one Δ for all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.attributes import recorded as stations
from benchmarks.broker import MOSQUITTO
from benchmarks.lira import recorded as vehicles
from benchmarks.mqtt_fleet import storm
from benchmarks.rows import Row, measure, row
from planning import batches, keys
from planning.arrays import BoolArray, FloatArray
from planning.attributes import planner as attribute_planner
from planning.attributes import simulate
from planning.attributes import statistics as attribute_statistics
from planning.attributes.shedder import Shedder as AttributeShedder
from planning.lira import planner as lira_planner
from planning.lira import statistics as lira_statistics
from planning.lira.plan import Plan as LiraPlan
from planning.lira.queries import queries_of, query_errors
from planning.lira.shedder import Shedder as LiraShedder
from planning.lira.simulate import one_delta, server_view
from planning.runtime.mqtt import Twin, wire
from planning.runtime.mqtt.node import POSITION, Tracks, packet_bytes, topic_alias
from planning.streams import StreamDefinition, parse

ALIAS = topic_alias()
TRAINED = 17_520  # hours
MONTH = 720  # tuples of a station: the window in which its bytes are limited
VALUE_BYTES = 8  # of a value on the wire, with its share of a message of three
NEVER = 1e12  # a unit in which no change is large
NODES, PACE_S = 500, 5.0
Columns = dict[str, Any]


def run(quick: bool) -> list[Row]:
    return measure([readings, positions, storms], quick)


def message_bytes(report: bytes) -> int:
    """Return the bytes of a packet with one report."""
    return packet_bytes("", bytes(wire.DATA.size) + report, ALIAS)


def narrowest(most: int, low: float, high: float, cost: Callable[[float], int]) -> float:
    """Return the lowest band whose bytes are at most ``most``; bytes fall with the band."""
    for _ in range(12):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if cost(middle) > most else (low, middle)
    return high


# Attributes


class Readings:
    """Hours of the stations that the plan has not seen, as nodes of one station each."""

    def __init__(self, cycles: int) -> None:
        sizes = {"station": 0, "wind_direction": VALUE_BYTES}
        definition = stations.definition(
            number_bytes=VALUE_BYTES, sizes=sizes, refresh_reports=0, window_tuples=MONTH,
            cid=["station"],
        )  # fmt: skip
        past = attribute_statistics.build(stations.load(0, TRAINED), definition)
        self.plan = attribute_planner.plan(past, definition)
        self.samples = {
            name: column.astype(np.float32) if column.dtype.kind == "f" else column
            for name, column in stations.load(TRAINED, cycles).items()
        }  # as recorded
        self.trace = simulate.Trace.of(self.plan, self.samples)
        self.values = self.trace.values.reshape(cycles, stations.STATIONS, -1)
        self.names = [name for name in self.plan.attributes if name != "station"]
        self.places = [self.plan.attributes.index(name) for name in self.names]
        numbers = np.where(self.plan.numeric, self.trace.values, 0.0)
        span = np.nanmax(numbers, axis=0) - np.nanmin(numbers, axis=0)
        numeric, spread = self.plan.numeric, self.trace.scale[0]
        self.units = {
            "the same number": np.ones(len(span)),
            "of the span": np.where(numeric, span, 1.0),
            "of the span, categories once": np.where(numeric, span, NEVER),
            "of the spread": spread,
            "of the spread, categories once": np.where(numeric, spread, NEVER),
        }

    def loss(self, keep: BoolArray) -> float:
        """Return the hold error."""
        return simulate.measure(self.plan, self.trace, keep).loss

    def shed(self, load: float) -> BoolArray:
        """Return what the nodes send, each deciding by itself as :class:`Node` does."""
        keep = np.zeros(self.trace.values.shape, dtype=np.bool_)
        for place in range(stations.STATIONS):
            mine = slice(place, None, stations.STATIONS)
            shedder = AttributeShedder(self.plan, load)
            read = batches.read({n: c[mine] for n, c in self.samples.items()}, shedder.schema)
            hours = np.arange(read.rows) * 3600.0
            draws = keys.draws_of([self.samples["station"][mine], hours])
            keep[mine] = shedder.decide(read, draws=draws).keep
        return keep

    def banded(self, band: float, unit: FloatArray) -> BoolArray:
        """Return what one dead band for all sends: categories count 1 when they change."""
        keep = np.zeros(self.values.shape, dtype=np.bool_)
        last = np.full(self.values.shape[1:], np.inf)
        for hour, now in enumerate(self.values):
            with np.errstate(invalid="ignore"):
                apart = np.where(self.plan.numeric, np.abs(now - last), 1.0 * (now != last))
            apart[np.isinf(last)] = np.inf
            gone = np.isnan(now) | np.isnan(last)
            far = np.where(gone, np.isnan(now) != np.isnan(last), apart > band * unit)
            keep[hour] = far
            last = np.where(far, now, last)
        named = self.plan.attributes.index("station")
        keep[..., named] = False
        keep[..., named] = keep.any(axis=2)
        return keep.reshape(self.trace.values.shape)

    def bytes(self, keep: BoolArray) -> int:
        """Return the bytes that nodes publish."""
        twins = [Twin(tuple(self.names)) for _ in range(stations.STATIONS)]
        total = 0
        for i in np.flatnonzero(keep.any(axis=1)).tolist():
            hour, station = divmod(i, stations.STATIONS)
            values = {
                j: wire.plain(self.samples[name][i])
                for j, name in enumerate(self.names)
                if keep[i, self.places[j]]
            }
            named = (self.samples["station"][i],)
            total += message_bytes(twins[station].report(named, 3600.0 * hour, values))
        return total


def readings(quick: bool) -> list[Row]:
    """Compare plan and dead band on the stations of Beijing."""
    world = Readings(300 if quick else 720)
    whole = world.bytes(np.ones(world.trace.values.shape, dtype=np.bool_))
    rows = []
    for load in (0.1,) if quick else (0.03, 0.05, 0.1, 0.2, 0.35):
        keep = world.shed(load)
        sent, mine = world.bytes(keep), world.loss(keep)
        others = {}
        for name, unit in world.units.items():

            def banded(band: float, unit: FloatArray = unit) -> BoolArray:
                return world.banded(band, unit)

            band = narrowest(sent, 1e-3, 1e3, lambda band: world.bytes(banded(band)))  # noqa: B023
            mask = banded(band)
            others[name] = world.loss(mask)
        by_hand = {name: loss for name, loss in others.items() if "spread" not in name}
        for known, losses in (("", by_hand), (", with the plan's statistics", others)):
            best = min(losses, key=lambda name: losses[name])
            rows.append(
                row(
                    f"attributes, hold error with {sent / whole:.0%} of the bytes{known}",
                    f"at most that of the best single dead band, {losses[best]:.4f} ({best})",
                    f"{mine:.4f}",
                    mine <= losses[best],
                )
            )
    return rows


# Positions


class Positions:
    """Two hours of buses: a plan from the first, tried on the second, a node for each bus."""

    def __init__(self, minutes: int) -> None:
        recorded = vehicles.buses(datasets.find("lira/austin_buses.parquet"))
        trace = recorded.trace
        ticks = trace.positions.shape[1]
        self.definition = self._definition(recorded, trace)
        past = self._rows(trace, 0, ticks // 2)
        self.rows = self._rows(trace, ticks // 2, ticks // 2 + int(60 * minutes / trace.tick_s))
        built = lira_statistics.build(past, self.definition)
        self.plan = lira_planner.plan(built, self.definition)
        self.queries, self.weights = queries_of(self.definition)
        self.correct = server_view(self.rows, self.shed(self.plan, 1.0), 100.0)

    @staticmethod
    def _rows(trace: Any, start: int, stop: int) -> Columns:
        part = trace.positions[:, start:stop].astype(np.float64)
        tick, thing = np.nonzero(~np.isnan(part[:, :, 0]).T)
        places = part[thing, tick] - np.array(trace.bounds[:2])
        time = (start + tick) * trace.tick_s
        names = ("object_id", "time", "x", "y", "speed")
        speed = np.full(len(time), 5.0)
        columns = (thing.astype(np.float64), time, *places.T, speed)
        return dict(zip(names, columns, strict=True))

    @staticmethod
    def _definition(recorded: Any, trace: Any) -> StreamDefinition:
        x_low, y_low, x_high, y_high = trace.bounds
        space = {"x": x_high - x_low, "y": y_high - y_low}
        rows = Positions._rows(trace, 0, 60)
        rng = np.random.default_rng(1)
        inline = []
        for i in rng.integers(0, len(rows["x"]), recorded.query_count).tolist():
            ranges = {}
            for name, high in space.items():
                centre = float(np.clip(rows[name][i], 0.0, high))
                half = recorded.query_side_m / 2
                ranges[name] = [max(centre - half, 0.0), min(centre + half, high)]
            inline.append({"ranges": ranges})
        chosen = {
            "regions": 250, "lowest_threshold": 25, "highest_threshold": 1000,
            "fairness_threshold": 500,
        }  # fmt: skip
        attributes = [{"name": n, "domain": [0, space.get(n, 1e9)]} for n in rows]
        document = {
            "stream": "buses", "family": "lira", "attributes": attributes,
            "queries": {"inline": inline}, "parameters": chosen,
        }  # fmt: skip
        return parse(document, "benchmarks/mqtt.py")

    def shed(self, plan: LiraPlan, load: float) -> BoolArray:
        """Return what is reported; without correction each bus decides by itself."""
        return LiraShedder(plan, load, correct=False).offer(self.rows)

    def error_m(self, keep: BoolArray) -> float:
        """Return the position error in the results of the queries."""
        view = server_view(self.rows, keep, 100.0)
        _, errors = query_errors(self.queries, self.correct[None], view[None])
        return float(self.weights @ errors / self.weights.sum())

    def bytes(self, keep: BoolArray) -> int:
        """Return the bytes that nodes publish."""
        twins: dict[Any, Twin] = {}
        total = 0
        for report in Tracks(100.0).reports(self.rows, keep):
            twin = twins.setdefault(report.entity, Twin(POSITION, whole=True))
            total += message_bytes(twin.report(*report))
        return total


def positions(quick: bool) -> list[Row]:
    """Compare plan and one Δ on the buses of Austin."""
    world = Positions(10 if quick else 40)
    whole = world.bytes(world.shed(world.plan, 1.0))
    simple = one_delta(world.plan)
    rows = []
    for load in (0.5,) if quick else (0.3, 0.5, 0.75):
        keep = world.shed(world.plan, load)
        sent, mine = world.bytes(keep), world.error_m(keep)
        # A higher load is a lower Δ.
        share = 1.0 / narrowest(
            sent, 1.0, 100.0, lambda inverse: world.bytes(world.shed(simple, 1.0 / inverse))
        )
        mask = world.shed(simple, share)
        other = world.error_m(mask)
        rows.append(
            row(
                f"lira, position error with {sent / whole:.0%} of the bytes",
                f"at most that of the best single Δ, {other:.1f} m",
                f"{mine:.1f} m",
                mine <= other,
            )
        )
    return rows


# Storms


def storms(quick: bool) -> list[Row]:
    """Kill the broker under all nodes, then half of the nodes."""
    if not MOSQUITTO:
        return [row("storms", "a broker", "mosquitto is not installed", None)]
    nodes = 40 if quick else NODES
    with tempfile.TemporaryDirectory() as folder:
        counts = {"attributes": nodes // 2, "lira": nodes - nodes // 2}
        seen = storm(Path(folder), counts, nodes // 8 + 1, 1.0 if quick else PACE_S)
    wrong = seen.wrong + seen.strange + seen.current_in_outage
    whole = seen.dead + seen.alive == nodes
    return [
        row(f"{nodes} nodes on one machine", "all born", f"after {seen.born_s:.0f} s", whole),
        row(
            "broker killed and started again, then half of the nodes killed",
            "no wrong value",
            f"{wrong} wrong of {seen.shown:,} states shown as current; all born again after "
            f"{seen.reborn_s:.1f} s, the killed known as dead after {seen.dead_s:.1f} s",
            wrong == 0 and whole,
        ),
        row("messages lost on the way, all noticed", "reported", str(seen.lost), None),
    ]
