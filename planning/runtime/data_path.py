"""What happens to a batch: it is read, given a load and a limit, decided on, and counted.

Nothing here blocks, compiles, opens or raises. A plan is a finished shedder that is taken over
between two batches. Where no plan can decide, because there is none yet, because it fails, or
because a batch cannot be read, the node does what was named at its construction, and counts it.
Capacity and budget hold in every state.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np

from planning import batches, keys
from planning.arrays import BoolArray, FloatArray
from planning.batches import Batch, Refusal, Schema
from planning.families import ChargesMarks, CountsInputs, Shedder
from planning.runtime.counters import Counters
from planning.runtime.limits import Budget, Limits
from planning.runtime.marking import SampleMarker
from planning.runtime.preparing import Prepared
from planning.runtime.throttle import Load, Throttle
from planning.runtime.uniform import Uniform
from planning.shedder import Decision

Fallback = Literal["pass", "uniform"]
NUMBERS = frozenset((float, int))
log = logging.getLogger(__name__)


class Source(Protocol):
    """Where the plan in force comes from, and what holds when it has expired."""

    @property
    def stream(self) -> str:
        """Name of the stream."""

    @property
    def expired(self) -> bool:
        """Whether the plan in force is too old."""

    @property
    def fallback(self) -> str:
        """What an expired plan does: ``keep``, ``pass`` or ``uniform``."""

    def report_swap(self) -> None:
        """Take note that another plan is in force."""


class DataPath:
    """Decides on batches with the plan in force; see ``RunningShedder`` for its parameters."""

    def __init__(
        self,
        client: Source,
        throttle: Throttle,
        budget: Budget | None,
        marker: SampleMarker | None,
        *,
        fallback: Fallback,
        parts: tuple[str, ...],
        item_units: float | None,
        key: tuple[str, ...],
        salt: int | None,
        clock: Callable[[], float],
    ) -> None:
        self.client = client
        self.throttle = throttle
        self.marker = marker
        self.fallback = fallback
        self.parts = parts
        self.key = key
        self.salt = salt
        self.clock = clock
        self.counters = Counters()
        self.marked: BoolArray = np.zeros(0, dtype=np.bool_)
        self.last_refusal = ""
        self.last_error = ""
        self._lock = threading.Lock()
        self._limits = Limits(throttle, budget, marker, self.counters)
        self._ready: tuple[int, Prepared] | None = None
        self._taken: tuple[int, Prepared] | None = None
        self._shedder: Shedder | None = None
        self._charges: ChargesMarks | None = None
        self._schema = Schema(())
        self._shadow: Shedder | None = None
        self._uniform = Uniform(parts)
        self._set: Any = None
        self._direct = not (key or budget or marker or throttle.per_input)
        self._each = float(item_units or max(1, len(parts)))
        if key:
            keys.warm()

    @property
    def shedder(self) -> Shedder | None:
        """The family's shedder in force, with its own counters; None before the first plan."""
        return self._shedder

    @property
    def version(self) -> int:
        """Version in force; 0 before the first plan."""
        return self.counters.version

    @property
    def load(self) -> Load:
        """The load of the last batch: a fraction, or rates by input."""
        return self._limits.load

    @property
    def trouble(self) -> str:
        """The last error of the shedder or the throttle; empty if there was none."""
        return self.last_error or self._limits.last_error

    def put(self, version: int, prepared: Prepared) -> None:
        """Leave a finished shedder, to be taken over between two batches."""
        self._ready = (version, prepared)

    def withdraw(self) -> None:
        """Go on without a plan, from the next batch on."""
        self._ready = None

    def offer(self, batch: Any) -> BoolArray:
        """Decide on a batch of any form: True where the item is kept.

        A family that sheds parts of items returns a mask with one column per part; such an item
        counts as kept if any part is.
        """
        return self._offer(batch, weighted=False).keep

    def offer_weighted(self, batch: Any) -> tuple[BoolArray, FloatArray]:
        """Decide, and return 1 / (probability of being kept) of every kept item, 0 elsewhere.

        NaN where the family has no such probability.
        """
        decision = self._offer(batch, weighted=True)
        if decision.weight is None:
            return decision.keep, np.full(len(decision.keep), np.nan)
        return decision.keep, decision.weight

    def offer_one(self, item: Any) -> bool | BoolArray:
        """Decide on one item, or on every part of it."""
        if self._direct:
            with self._lock, suppress(Exception):  # whatever fails is counted on the way of a batch
                self._take_over()
                plain = self._plain(item)
                if plain is not None:
                    return self._one(plain)
        keep = self._offer([item], weighted=False).keep
        return keep[0] if keep.ndim > 1 else bool(keep[0])

    def _offer(self, batch: Any, weighted: bool) -> Decision:
        with self._lock:
            try:
                self._take_over()
                return self._counted(batch, weighted)
            except Exception as error:
                # The last resort: something that has no name yet must not stop the stream.
                self._failed("the running shedder failed", error)
                rows = batches.size(batch)
                nothing = np.zeros((rows, len(self.parts)) if self.parts else rows, dtype=np.bool_)
                self.counters.dropped_on_error += rows
                return Decision(nothing, 0)

    def _take_over(self) -> None:
        ready = self._ready
        if ready is self._taken:
            return
        if ready is None:
            self._taken = self._shedder = self._set = None
            self.counters.version = 0
            self.client.report_swap()
            return
        version, prepared = ready
        shedder = prepared.shedder
        if self._shedder is not None and type(self._shedder) is type(shedder):
            try:
                shedder.adopt(self._shedder)
            except Exception as error:
                self._failed("the new plan starts without what the old one knew", error)
        self._taken, self._shedder = ready, shedder
        self._charges = shedder if isinstance(shedder, ChargesMarks) else None
        self._schema = shedder.schema.also(self.key)
        self._uniform.parts = self.parts or shedder.parts
        self._set = None
        counters = self.counters
        counters.version = version
        counters.swaps += 1
        self.client.report_swap()

    def _plain(self, item: Any) -> tuple[float, ...] | None:
        """Return an item's numbers if the family's own way with single items will do, else None."""
        self.counters.expired = int(self.client.expired)
        if self._shedder is None or self._shedder.parts or self._shadow or self.counters.expired:
            return None
        names = self._schema.columns
        values: Any = tuple(map(item.get, names)) if type(item) is dict else item
        # Anything but numbers is read as a batch, where it can be refused and counted.
        plain = type(values) is tuple and len(values) == len(names) > 0
        return values if plain and NUMBERS.issuperset(map(type, values)) else None

    def _one(self, item: Any) -> bool:
        assert self._shedder is not None
        most = self._limits.before(self.clock(), 1, 1)
        if most < 1:
            read, rows, units = self._read([item])
            return bool(self._settled(read, rows, units, most, weighted=False).keep[0])
        self._follow()
        kept = bool(self._shedder.offer_one(item))
        self.counters.kept += kept
        self.counters.dropped_by_plan += not kept
        self._limits.after(Decision(self.marked, int(kept)))
        return kept

    def _counted(self, batch: Any, weighted: bool) -> Decision:
        shedder = self._shedder
        read, rows, units = self._read(batch)
        most = self._limits.before(self.clock(), self._told(read, units), units)
        if self.marker and isinstance(self.load, Mapping) and isinstance(shedder, CountsInputs):
            self._limits.charge_marks(shedder.affordable(self.load))
        return self._settled(read, rows, units, most, weighted)

    def _settled(
        self, read: Batch | None, rows: int, units: int, most: int, weighted: bool
    ) -> Decision:
        counters = self.counters
        decision, why = self._decided(read, rows, units, most, weighted)
        kept = decision.keep if decision.keep.ndim == 1 else decision.keep.any(axis=1)
        passed = int(np.count_nonzero(kept))
        dropped = rows - passed
        counters.kept += passed
        # A limit cuts units: only where these are items is it known how many it dropped.
        if decision.cut and decision.keep.ndim == 1 and self._each == 1.0:
            cut = min(max(decision.cut, 0), dropped)
            counters.dropped_by_limit += cut
            dropped -= cut
        if why:
            setattr(counters, why, getattr(counters, why) + passed)
            counters.dropped_by_fallback += dropped
        else:
            counters.dropped_by_plan += dropped
        self._limits.after(decision)
        return decision

    def _read(self, batch: Any) -> tuple[Batch | None, int, int]:
        """Read a batch; return it, its items and its units.

        The batch is None if it is refused, or if there is no plan that says how to read it.
        """
        counters, shedder = self.counters, self._shedder
        rows = batches.size(batch)
        try:
            if shedder is not None:
                read = batches.read(batch, self._schema)
                counters.missing_columns += len(read.missing)
                if not read.rows:
                    return read, 0, 0
                units = shedder.units(read)
                self._each = units / read.rows
                return read, read.rows, units
            if self.key and rows:
                read = batches.read(batch, Schema(self.key))
                return read, read.rows, math.ceil(read.rows * self._each)
        except Refusal as refusal:
            if shedder is not None:
                self._refuse(refusal)
                rows = refusal.rows
        return None, rows, math.ceil(rows * self._each)

    def _decided(
        self, read: Batch | None, rows: int, units: int, most: int, weighted: bool
    ) -> tuple[Decision, str]:
        """Decide with or without a plan; the second value is what lets items pass without one."""
        self.marked = marked = self._marks(rows)
        due = int(np.count_nonzero(marked))
        if self.marker and self._charges and read is not None and not self._why(read)[0]:
            decision, why = self._unmarked(read, rows, units, most, weighted, marked)
            if why:  # it failed, and none of them was told apart
                marked &= decision.keep.reshape(rows, -1).any(axis=1)
        elif not due:
            return self._unmarked(read, rows, units, most, weighted)
        else:
            decision, why = self._beside(marked, read, rows, units, most, weighted)
        count = int(np.count_nonzero(marked))
        self.counters.marked += count
        self.counters.marks_skipped += due - count
        return decision, why

    def _marks(self, rows: int) -> BoolArray:
        if self.marker is None or not rows:
            return np.zeros(rows, dtype=np.bool_)
        return self.marker.mark(rows)

    def _beside(
        self, marked: BoolArray, read: Batch | None, rows: int, units: int, most: int,
        weighted: bool,
    ) -> tuple[Decision, str]:  # fmt: skip
        """Let marked items pass, as many as may, and decide on the others without them."""
        places = np.flatnonzero(marked)
        count = min(len(places), max(most, 0) * rows // max(units, 1))
        while True:
            marked[places[count:]] = False
            charged = math.ceil(count * self._each)
            if read is not None and self._shedder is not None:
                charged = self._shedder.units(read.take(marked))
            if charged <= most or not count:
                break
            count = count * max(most, 0) // charged  # these weigh more than the average
        decision, why = self._unmarked(
            read and read.take(~marked), rows - count, units - charged, most - charged, weighted
        )
        keep = np.ones((rows, *decision.keep.shape[1:]), dtype=np.bool_)
        keep[~marked] = decision.keep
        weight = None
        if decision.weight is not None:
            weight = np.ones(rows)
            weight[~marked] = decision.weight
        return Decision(keep, decision.units + charged, decision.cut, weight), why

    def _unmarked(
        self, read: Batch | None, rows: int, units: int, most: int, weighted: bool,
        marked: BoolArray | None = None,
    ) -> tuple[Decision, str]:  # fmt: skip
        draws = None
        if self.key and read is not None:
            draws = keys.draws_of([read.columns[name] for name in self.key], self.salt)
        why, rule = self._why(read)
        if not why:
            try:
                return self._by_plan(read, draws, most, weighted, marked), ""
            except Refusal as refusal:
                self._refuse(refusal)
                why, rule = "passed_on_refusal", self.fallback
            except Exception as error:
                self._failed("the shedder failed", error)
                why, rule = "passed_on_error", self.fallback
        share = self._limits.left if rule == "uniform" else 1.0
        return self._uniform.decide(rows, units, share, most, draws, weighted), why

    def _why(self, read: Batch | None) -> tuple[str, str]:
        """Return the counter of what passes without a plan, and by which rule; '' with a plan."""
        if self._shedder is None:
            return "passed_without_plan", self.fallback
        if read is None:
            return "passed_on_refusal", self.fallback
        expired = self.counters.expired = int(self.client.expired)
        if expired and self.client.fallback != "keep":
            return "passed_on_expiry", self.client.fallback
        return "", ""

    def _by_plan(
        self, read: Batch | None, draws: Any, most: int, weighted: bool, marked: BoolArray | None
    ) -> Decision:
        assert self._shedder is not None
        assert read is not None
        self._follow()
        if not read.rows:
            return Decision(self._shedder.nothing(0), 0, 0, np.zeros(0) if weighted else None)
        decide: Any = self._shedder.decide
        if marked is not None and self._charges:
            assert self.marker is not None
            decide = partial(self._charges.decide_marked, marks=marked, ahead=self.marker.ahead)
        decision: Decision = decide(read, draws=draws, most=max(most, 0), weighted=weighted)
        keep = decision.keep
        if keep.dtype != np.bool_ or keep.shape[:1] != (read.rows,):
            raise TypeError(f"a mask of {read.rows} items was due, got {keep.dtype}{keep.shape}")
        if self._shadow is not None:
            self._cast_shadow(self._shadow, self._set[0], read, keep)
        return decision

    def _follow(self) -> None:
        """Follow the load; one that the plan does not accept leaves the last one in force."""
        assert self._shedder is not None
        assert self._taken is not None
        load, marks = self.load, self.marker.fraction if self.marker else 0.0
        if isinstance(load, Mapping):
            load = self._beyond(load)
        else:
            load = self._limits.share if self._charges else self._limits.left
            load = self._taken[1].load_for(load) if self.throttle.of_share else load
        if (load, marks) == self._set:
            return
        try:
            if self._charges:
                self._charges.set_marks(marks)
            self._shedder.set_load(load)  # type: ignore[arg-type]
        except Exception as error:
            self._limits.doubt(error)
        self._set = load, marks

    def _beyond(self, rates: Mapping[str, float]) -> Mapping[str, float]:
        """Return the rates at which the plan leaves room for marked items.

        If they take a fraction f of everything, and the busiest server can take the share k, then
        (k - f) / (1 - f) is left of the others: as if rates were so much higher.
        """
        if self.marker is None or not isinstance(self._shedder, CountsInputs):
            return rates
        factor = self._shedder.affordable(rates) / max(self._limits.left, 1e-6)
        return {name: rate * factor for name, rate in rates.items()} if factor > 1.0 else rates

    def _refuse(self, refusal: Refusal) -> None:
        self.counters.refused_items += refusal.rows
        self.counters.missing_columns += len(refusal.missing)
        self.last_refusal = str(refusal)

    def _told(self, read: Batch | None, units: int) -> Any:
        """Return what the throttle is told about a batch."""
        if not self.throttle.per_input:
            return units
        if read is None or not isinstance(self._shedder, CountsInputs):
            return {}
        return self._shedder.arrivals(read)

    def _cast_shadow(self, candidate: Shedder, load: Any, read: Batch, keep: BoolArray) -> None:
        try:
            candidate.set_load(load)
            other = candidate.decide(read).keep
            self.counters.shadow_kept += int(np.count_nonzero(other))
            self.counters.shadow_disagreed += int(np.count_nonzero(other != keep))
        except Exception:
            self.counters.shadow_errors += 1

    def _failed(self, what: str, error: Exception) -> None:
        self.counters.errors += 1
        self.last_error = f"{what}: {error!r}"
        if self.counters.errors == 1:
            log.error("stream %s: %s; %s: %r", self.client.stream, what, self.fallback, error)
