"""The runtime of FIT: drop operators on the arcs of a query network.

An item belongs to an arc (column ``arc``) or to a stream (column ``element``, ``stream`` or
``input``); the drops of a stream are nested over its arcs, so an item of a stream is dropped only
where all arcs drop it. Items of unknown arcs pass. ``offer`` never raises.

On an arc before an aggregate with a declared window, whole windows are dropped: batches of windows
pass or not, and a kept batch keeps the tuples that its last windows need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.errors import InvalidInput
from planning.fit.network import Rates
from planning.fit.plan import Plan
from planning.pacing import ONE, spread_credits
from planning.shedder import BaseShedder, ItemCounters, batch_size

COLUMNS = ("arc", "element", "stream", "input")


@dataclass(frozen=True, slots=True, eq=False)
class Counters(ItemCounters):
    """Items offered and dropped per name; the last entry counts items of unknown arcs."""

    names: tuple[str, ...]


class DropOperators(NamedTuple):
    """Row i of every array is the drop operator of name i: what it should do, and where it is."""

    step: IntArray  # credit per span
    span: IntArray  # items that are dropped or kept together
    tail: IntArray  # items that a kept span needs from the next one
    credit: IntArray
    position: IntArray  # within the span
    dropping: BoolArray
    left: IntArray  # of the tail
    offered: IntArray
    dropped: IntArray


class Shedder(BaseShedder[Plan, dict[str, float], float | Rates]):
    """Applies the drops of a plan at a load: a scalar z, or measured input rates.

    With ``server``, only the drops that this server applies; other items pass.

    Examples
    --------
    >>> from planning.fit.demo import figure_1
    >>> from planning.fit.planner import plan_network
    >>> shedder = Shedder(plan_network(figure_1()), {"i1": 1.0, "i2": 1.0})
    >>> keep = shedder.offer({"input": ["i1", "i2"] * 1000})
    >>> int(keep[::2].sum()), int(keep[1::2].sum())  # 80 % of i1 and 60 % of i2 must go
    (200, 400)
    """

    def __init__(self, plan: Plan, load: float | Rates = 1.0, *, server: str | None = None) -> None:
        self.server = server
        super().__init__(plan, load)

    @property
    def setting(self) -> dict[str, float]:
        """The drop fraction per arc in force."""
        return dict(self._setting)

    @property
    def counters(self) -> Counters:
        """Items offered and dropped since this plan came into force."""
        drops = self._drops
        return Counters(drops.offered.copy(), drops.dropped.copy(), (*self._names, ""))

    def set_load(self, load: float | Rates) -> None:
        """Follow a new load; credits and counters continue."""
        if self.server is None:
            drops = self._plan.at(load)
        else:
            servers = self._plan.server_drops(load)
            if self.server not in servers:
                raise InvalidInput(f"server must be one of {', '.join(servers)}, got {self.server}")
            drops = servers[self.server]
        self._load = load
        self._setting = drops
        self._drops.step[:] = np.ceil(self._fractions(drops) * ONE - 1e-6)

    def offer(self, batch: Mapping[str, Any] | Iterable[str]) -> BoolArray:
        """Decide on a batch: True where the item is kept."""
        from planning.fit.kernels.drops import decide

        codes = self._codes(batch)
        keep = np.empty(len(codes), dtype=np.bool_)
        decide(codes, self._drops, keep)
        return keep

    def offer_one(self, item: Mapping[str, Any] | str) -> bool:
        """Decide on one item, given as its arc or stream, or as a mapping with such a column."""
        if isinstance(item, str):
            return bool(self.offer([item])[0])
        return bool(self.offer({name: [value] for name, value in item.items()})[0])

    def pass_counts(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Pass whole counts of tuples per arc, as offering them one by one would."""
        from planning.fit.kernels.drops import kept_of

        given = np.zeros(len(self._names) + 1, dtype=np.int64)
        for name, count in counts.items():
            given[self._code[name]] = count
        kept = np.empty_like(given)
        kept_of(given, self._drops.step, self._drops.credit, kept)
        self._drops.offered[:] += given
        self._drops.dropped[:] += given - kept
        return {name: int(kept[self._code[name]]) for name in counts}

    def _codes(self, batch: Any) -> IntArray:
        unknown = len(self._names)
        try:
            items = _labels(batch)
        except (TypeError, ValueError, KeyError):
            return np.full(batch_size(batch), unknown, dtype=np.int64)
        labels, places = np.unique(items, return_inverse=True)
        known = np.array([self._code.get(str(label), unknown) for label in labels.tolist()])
        return known.astype(np.int64)[places]

    def _fractions(self, drops: dict[str, float]) -> FloatArray:
        """Drop fraction per name: arcs as they are, streams by their least dropping arc."""
        network = self._plan.network
        arcs = [drops.get(arc.name, 0.0) for arc in network.arcs]
        streams = [min((arcs[a] for a in network.arcs_from[s]), default=0.0) for s in self._streams]
        return np.array([*arcs, *streams, 0.0])

    def _install(self, plan: Plan) -> None:
        """Take the plan's arcs; they count from zero."""
        network = plan.network
        self._plan = plan
        self._streams = (*network.input_ids, *(o.id for o in network.operators))
        self._names = (*(arc.name for arc in network.arcs), *self._streams)
        self._code = {name: code for code, name in enumerate(self._names)}
        size = len(self._names) + 1
        step, position, left, offered, dropped = np.zeros((5, size), dtype=np.int64)
        span, tail = np.ones(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for code, window in enumerate(network.arc_windows):
            if window is not None:
                span[code] = max(round(window.batch * window.slide), 1)
                tail[code] = max(round(window.size - window.slide), 0)
        credit, dropping = spread_credits(size), np.zeros(size, dtype=np.bool_)
        self._drops = DropOperators(
            step, span, tail, credit, position, dropping, left, offered, dropped
        )


def _labels(batch: Any) -> Any:
    if isinstance(batch, Mapping):
        column = next((name for name in COLUMNS if name in batch), COLUMNS[0])
        return np.asarray(batch[column]).astype(str)
    return np.asarray(list(batch), dtype=str)
