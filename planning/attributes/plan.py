"""The attribute plan: one frontier of loss against bytes that serves every capacity.

Row p of the frontier gives every sheddable attribute one option: a sending period and, for send on
change, a dead band; at low capacities also a thinning n, where only every n-th tuple of an entity
is sent. ``plan.at(C/R)`` is a binary search. Below the first row tuples are thinned further. At
C/R = 1 everything passes unchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.attributes import codec
from planning.attributes.codec import PlanDocument
from planning.errors import InvalidInput, check_between
from planning.guarantees import Guarantee

__all__ = ["NEVER", "PERIODIC", "Plan", "PlanDocument", "Setting", "Stream"]

NEVER = 0  # a period: not sent because of its age
PERIODIC = -1.0  # a band: not sent because of a change
RATIO_SLACK = 1e-9
UNBOUNDED = 1e9  # times what is asked for: nothing is promised
WAITING = 1  # reports that what is guaranteed may wait for room in a full window
MORE_TURNS = 2.0  # than their share of guaranteed values may fall into one window
SLOWEST = 1e-6  # tuples are not spread further apart than this fraction
MIN_BAND = 0.01  # narrower dead bands count as this one, so that control can widen a band of 0


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """One stream of the channel; arrays have one entry per attribute of the plan."""

    name: str
    cid: tuple[str, ...]
    cycle_length: int
    share: float  # of the channel's tuples
    header_bytes: int  # presence bits of a tuple from which something may be missing
    sizes: IntArray  # s_j, bytes charged per value (text: its expected length)
    present: BoolArray  # the stream has the attribute
    kept: BoolArray  # the CID, must-keep and free attributes: never shed
    scale: FloatArray
    score: FloatArray  # information score

    @property
    def items(self) -> IntArray:
        """Indices of the attributes that may be shed."""
        return np.flatnonzero(self.present & ~self.kept)

    @property
    def kept_bytes(self) -> int:
        """Bytes of a tuple that carries only what is never shed."""
        return int(self.sizes[self.present & self.kept].sum())

    @property
    def full_bytes(self) -> int:
        """Bytes of a tuple before shedding."""
        return int(self.sizes[self.present].sum())

    def informative(self, attributes: tuple[str, ...], stream_attribute: str) -> BoolArray:
        """Return which attributes' errors count: those that cost bytes and name nothing."""
        named = np.isin(attributes, (*self.cid, stream_attribute))
        return np.asarray(self.present & (self.sizes > 0) & ~named)


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What a shedder needs right now: rows are streams, columns attributes.

    ``capacity_bytes`` of -1 means that everything passes.
    """

    load: float
    capacity_bytes: int
    tuple_rate: FloatArray  # per stream; below 1: whole tuples are dropped, evenly
    period: IntArray  # sent when it is this many reports old; 0: never due to age
    band: FloatArray  # sent when it moved further than this; -1: never due to a change
    header_bytes: IntArray

    def shed(self) -> BoolArray:
        """Return which attributes are not sent with every tuple."""
        thinned = self.tuple_rate[:, None] < 1
        return np.asarray((self.period != 1) | (self.band >= 0) | thinned)


class Promises(NamedTuple):
    """What a shedder keeps up at a setting, ahead of everything else: (streams, attributes)."""

    slot: IntArray  # one of so many tuples of its entity that are not thinned has it; 0: none
    limit: FloatArray  # a change beyond this, measured like a dead band, is sent; infinite: none
    rank: FloatArray  # by priority, from 1; 0: nothing is guaranteed
    cycle: FloatArray  # tuples of the channel between two reports of an entity; 0: no slots
    window_bytes: int  # what it may take in a window


@dataclass(frozen=True, eq=False)
class Plan:
    """Attribute shedding for every capacity of one channel.

    Six stations report a level that creeps and a load that jumps; at four fifths of the bytes the
    level is sent every fourth time:

    >>> from planning.attributes.parameters import Parameters
    >>> from planning.attributes.planner import plan_samples
    >>> i = np.arange(600)
    >>> samples = {"station": i % 6, "level": i // 60, "load": (i * 7919) % 997}
    >>> plan = plan_samples(samples, Parameters(method="periods"))
    >>> plan.attributes, plan.at(0.8).period.tolist(), plan.shed_set(0.8)
    (('station', 'level', 'load'), [[1, 4, 1]], ('level',))
    """

    method: str
    attributes: tuple[str, ...]
    kinds: tuple[str, ...]
    weight: FloatArray
    stream_attribute: str
    streams: tuple[Stream, ...]
    window: int  # W, tuples in which the capacity must hold
    tuple_bytes: float  # R per tuple
    refresh: int
    capacity_ratio: float
    option_period: IntArray
    option_band: FloatArray
    ratio: FloatArray  # the smallest C/R at which a point of the frontier may be used
    loss: FloatArray
    choice: NDArray[np.uint8]
    thinning: IntArray
    complete: bool = False  # no point was left out: known to the planner, but not published
    guarantees: tuple[Guarantee, ...] = ()  # the most important first

    @cached_property
    def numeric(self) -> BoolArray:
        """Which attributes are compared as numbers."""
        return np.array([kind == "number" for kind in self.kinds], dtype=np.bool_)

    @cached_property
    def informative(self) -> BoolArray:
        """Which attributes' errors count, as (streams, attributes)."""
        return np.stack(
            [s.informative(self.attributes, self.stream_attribute) for s in self.streams]
        )

    def capacity_bytes(self, load: float) -> int:
        """Return C in bytes per window for a capacity ratio; -1 if everything passes."""
        if load >= 1.0:
            return -1
        return math.floor(load * self.window * self.tuple_bytes + RATIO_SLACK)

    def ratio_of(self, capacity_bytes: float) -> float:
        """Return C/R for a capacity in bytes per window."""
        if not capacity_bytes >= 0:
            raise InvalidInput(
                f"capacity_bytes must lie in [0, inf), got {capacity_bytes:g}; 0 sends nothing"
            )
        return min(1.0, capacity_bytes / (self.window * self.tuple_bytes))

    def at(self, load: float) -> Setting:
        """Return the setting at capacity ratio ``load`` = C/R."""
        ratio = check_between("load", load, 0.0, 1.0, remedy="pass C/R, a fraction of the rate")
        point = self.point(ratio)
        period = np.ones((len(self.streams), len(self.attributes)), dtype=np.int64)
        band = np.full(period.shape, PERIODIC)
        header = np.zeros(len(self.streams), dtype=np.int64)
        rate = np.ones(len(self.streams))
        if ratio < 1.0:
            row = max(point, 0)
            options, thinning = self.choice[row], self.thinning[row]
            stream, attribute = self._places
            # Option 0 goes with every tuple that is sent; the others count reports.
            every = self.option_period[options] * np.where(options > 0, thinning[stream], 1)
            period[stream, attribute] = every
            band[stream, attribute] = self.option_band[options]
            partial = np.bincount(stream[options > 0], minlength=len(header)) > 0
            header[partial] = self._headers[partial]
            rate = 1.0 / thinning
            if point < 0:
                rate *= ratio / float(self.ratio[0])
            elif len(self.streams) == 1 and rate[0] < 1 and not options.any():
                # Whole tuples: as many as fit into a window, except the one it may cut.
                fit = self.capacity_bytes(ratio) // self.streams[0].full_bytes
                rate = np.maximum(rate, min(1.0, (fit - 1) / self.window))
        return Setting(ratio, self.capacity_bytes(ratio), rate, period, band, header)

    @cached_property
    def _places(self) -> IntArray:
        """Stream and attribute of everything that may be shed: the columns of ``choice``."""
        places = [(s, j) for s, stream in enumerate(self.streams) for j in stream.items]
        return np.array(places, dtype=np.int64).reshape(-1, 2).T

    @cached_property
    def _headers(self) -> IntArray:
        return np.array([stream.header_bytes for stream in self.streams])

    def point(self, ratio: float) -> int:
        """Return the frontier's point for a ratio, -1 below the first."""
        return int(np.searchsorted(self.ratio, ratio + RATIO_SLACK, side="right")) - 1

    def predicted_quality(self, load: float) -> float:
        """Return 1 minus the predicted loss at capacity ratio ``load``."""
        ratio = check_between("load", load, 0.0, 1.0)
        if ratio >= 1.0:
            return 1.0
        point = self.point(ratio)
        if point < 0:
            return max(0.0, 1.0 - float(self.loss[0])) * min(1.0, ratio / float(self.ratio[0]))
        return max(0.0, 1.0 - float(self.loss[point]))

    def kept(self, load: float) -> list[float]:
        """Return what is predicted for each guarantee: its age in reports, or its largest error."""
        setting = self.at(load)
        found = []
        for guarantee, (s, j) in zip(self.guarantees, self.protected, strict=True):
            every, band, rate = int(setting.period[s, j]), setting.band[s, j], setting.tuple_rate[s]
            reports = every
            if rate < 1.0:  # the first of the tuples that are sent at which it is old enough
                apart = 1.0 / rate if rate > 0.0 else math.inf
                tuples = max(1, math.ceil(every / apart - RATIO_SLACK))
                reports = math.ceil(apart * tuples - RATIO_SLACK) if every and rate > 0.0 else NEVER
                band = PERIODIC
            scale = float(self.streams[s].scale[j])
            found.append(promised(guarantee.limit, guarantee.value, reports, float(band), scale))
        return found

    @cached_property
    def _no_promises(self) -> Promises:
        shape = len(self.streams), len(self.attributes)
        limit, rank = np.full(shape, np.inf), np.zeros(shape)
        return Promises(np.zeros(shape, dtype=np.int64), limit, rank, np.zeros(shape[0]), 0)

    def promises(self, setting: Setting) -> Promises:
        """Return what guarantees ask of a shedder at a setting, as far as its options go."""
        if not self.guarantees:
            return self._no_promises
        nothing = self._no_promises
        slot, limit, rank = nothing.slot.copy(), nothing.limit.copy(), nothing.rank.copy()
        order = sorted({guarantee.priority for guarantee in self.guarantees})
        for guarantee, (s, j) in zip(self.guarantees, self.protected, strict=True):
            scale, band = self.streams[s].scale[j], setting.band[s, j]
            rate, every = float(setting.tuple_rate[s]), int(setting.period[s, j])
            if guarantee.limit == "max_age" or every == rate == 1:
                slot[s, j] = math.ceil(every * rate - RATIO_SLACK)
            if guarantee.limit == "max_error" and band >= 0.0:  # without a scale, a change counts 1
                limit[s, j] = max(band, guarantee.value / scale) if scale > 0.0 else 0.5
            if slot[s, j] or limit[s, j] < np.inf:
                rank[s, j] = 1.0 + order.index(guarantee.priority)
        taken, cycle = 0.0, np.zeros(len(self.streams))
        for s, stream in enumerate(self.streams):
            mine = np.flatnonzero(rank[s])
            rate = float(setting.tuple_rate[s])
            tuples = self.window * stream.share * rate + (rate < 1.0)
            share = np.divide(1.0, slot[s, mine], out=np.zeros(len(mine)), where=slot[s, mine] > 0)
            turns = np.minimum(tuples * share + MORE_TURNS, tuples)
            rest = stream.kept_bytes + int(setting.header_bytes[s])
            taken += float(turns @ stream.sizes[mine] + min(turns.sum(), tuples) * rest)
            if slot[s].any() and stream.cycle_length > 1:
                cycle[s] = stream.cycle_length / stream.share
        return Promises(slot, limit, rank, cycle, math.ceil(taken))

    @cached_property
    def protected(self) -> list[tuple[int, int]]:
        """Stream and attribute of every guarantee."""
        places = {f"attribute {self.name_of(s, j)}": (int(s), int(j)) for s, j in self._places.T}
        return [places[guarantee.name] for guarantee in self.guarantees]

    def shed_set(self, load: float) -> tuple[str, ...]:
        """Return the attributes that are not sent with every tuple, for re-evaluation."""
        shed = self.at(load).shed()
        return tuple(self.name_of(s, j) for s, j in self._places.T if shed[s, j])

    def passed_fraction(self, load: float) -> float:
        """Return the share of bytes that passes at a load: the load itself."""
        return check_between("load", load, 0.0, 1.0)

    @cached_property
    def not_nested(self) -> tuple[str, ...]:
        """The attributes that are sent less often somewhere as the load rises.

        What a lower load sends of any other attribute, a higher one sends as well: neither its
        period nor its dead band grows with the load, nor are tuples of its stream thinned more.
        """
        breaks = self.ratio[self.ratio < 1.0]
        loads = {*breaks.tolist(), *np.maximum(breaks - 2 * RATIO_SLACK, 0.0).tolist()}
        falls = np.zeros((len(self.streams), len(self.attributes)), dtype=np.bool_)
        before = None
        for load in sorted({*loads, 1.0 - 2 * RATIO_SLACK}):
            setting = self.at(load)
            apart = np.repeat(
                1.0 / np.maximum(setting.tuple_rate, SLOWEST)[:, None], len(falls.T), 1
            )
            always = setting.period == 1
            every = np.where(always, apart, np.where(setting.period > 0, setting.period, np.inf))
            band = np.where(setting.band < 0, np.inf, np.maximum(setting.band, MIN_BAND))
            band[always] = 0.0
            if before is not None:
                less = (every > before[0]) | (band > before[1])
                falls |= less | ((apart > before[2]) & np.isfinite(band))
            before = every, band, apart
        falls &= np.stack([stream.present for stream in self.streams])
        return tuple(self.name_of(s, j) for s, j in np.argwhere(falls))

    def name_of(self, stream: int, attribute: int) -> str:
        """Return an attribute's name; on a shared channel its stream's comes first."""
        prefix = f"{self.streams[stream].name}." if self.stream_attribute else ""
        return prefix + self.attributes[attribute]

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know at a glance."""
        ratio = self.capacity_ratio
        return {
            "method": self.method,
            "streams": len(self.streams),
            "attributes": len(self.attributes),
            "cid": [", ".join(stream.cid) for stream in self.streams],
            "cycle_length": [stream.cycle_length for stream in self.streams],
            "tuple_bytes": round(self.tuple_bytes, 3),
            "frontier_points": len(self.ratio),
            "capacity_ratio": ratio,
            "shed": list(self.shed_set(ratio)),
            "predicted_quality": round(self.predicted_quality(ratio), 6),
            "not_nested": list(self.not_nested),
        }

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form, as :class:`PlanDocument` describes it."""
        return codec.to_document(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Plan:
        """Read the JSON form back; refuse what does not fit together."""
        return codec.from_document(document)

    def to_bytes(self) -> bytes:
        """Return the compact binary form; it decodes to an equal plan."""
        return codec.to_bytes(self)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Plan:
        """Read the compact binary form back."""
        return codec.from_bytes(payload)


def promised(limit: str, value: float, reports: int, band: float, scale: float) -> float:
    """Return the age, or the largest error, that an option promises, in the limit's unit.

    What is not sent with every report may wait for room, a report longer than its period. What is
    never sent because of its age has no largest one; without a dead band, what is not sent with
    every report has no largest error.

    >>> [promised("max_age", 4, k, PERIODIC, 0.5) for k in (1, 6, NEVER)]
    [1.0, 7.0, 4000000000.0]
    >>> [promised("max_error", 2, k, b, 0.5) for k, b in ((1, PERIODIC), (6, 0.1), (6, PERIODIC))]
    [0.0, 0.05, 2000000000.0]
    """
    if limit == "max_age":
        wait = WAITING if reports > 1 else 0
        return float(reports + wait) if reports != NEVER else UNBOUNDED * value
    if band != PERIODIC:
        return band * scale
    return 0.0 if reports == 1 else UNBOUNDED * value
