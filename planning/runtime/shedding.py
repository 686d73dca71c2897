"""The running shedder: the family's shedder with a plan that is kept up to date.

It never blocks and never raises into the data path. Plans are prepared on the client's thread; the
data path only takes over a finished shedder between two batches. Where no plan can decide, because
there is none yet, because it fails, or because a batch cannot be read, the node does what was named
at its construction, and counts it. Capacity and budget hold in every state.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from planning import batches, keys
from planning.arrays import BoolArray, FloatArray
from planning.artifacts import Published
from planning.batches import Batch, Refusal, Schema
from planning.errors import ArtifactError, InvalidInput
from planning.families import Shedder
from planning.runtime.budget import SharedBudget
from planning.runtime.client import PlanClient
from planning.runtime.compiling import at_hand
from planning.runtime.counters import Counters, prometheus
from planning.runtime.limits import Limits
from planning.runtime.marking import SampleMarker
from planning.runtime.preparing import Prepared, prepare
from planning.runtime.throttle import FixedThrottle, Load, Observing, Throttle
from planning.runtime.uniform import Uniform
from planning.shedder import Decision

Fallback = Literal["pass", "uniform"]
log = logging.getLogger(__name__)


class RunningShedder:
    """Sheds with a client's plan in force; several threads may use one.

    An expired plan does what its manifest states: ``keep`` keeps using it, ``pass`` lets everything
    pass, ``uniform`` thins evenly.

    Parameters
    ----------
    client
        Where plans come from.
    throttle
        Decides the load of every batch before it passes; without one the load is ``load``.
    load
        Fixed load, when there is no throttle.
    fallback
        What to do before the first plan, with batches that cannot be read, and when the shedder
        fails: ``pass``, or ``uniform``: thin evenly to the load, which is the default wherever a
        throttle, a load or a budget asks for shedding.
    family, parts
        The family, and the names of the parts that it sheds if it does, so that masks have one
        shape from the start; a plan of another family or of other parts is refused.
    item_units
        What an item counts before the first plan, in the family's unit: the bytes of a tuple where
        attributes are shed. By default 1, or the number of parts.
    key, salt
        Columns whose hash decides (:mod:`planning.keys`): equal in every process and at every
        replay. Without a key, items are dropped evenly by counters.
    options
        Further arguments of the family's shedder.
    budget
        Hard limit on what passes, shared by several shedders, in the family's unit.
    marker
        Marks monitoring samples, which bypass the plan and are charged to the load first;
        ``marked`` is the last batch's marks.
    clock
        Seconds that never decrease, for the throttle.

    Examples
    --------
    >>> from planning.examples import demo_samples, demo_store
    >>> store, _ = demo_store("sifter")
    >>> client = PlanClient(store, "ticks", node="edge-7")
    >>> shedder = RunningShedder(client, load=0.5, fallback="pass")
    >>> bool(shedder.offer(demo_samples("sifter")).all())  # no plan yet
    True
    >>> client.poll(), round(float(shedder.offer(demo_samples("sifter")).mean()), 2)
    (True, 0.5)
    """

    def __init__(
        self,
        client: PlanClient,
        throttle: Throttle | None = None,
        load: float = 1.0,
        *,
        fallback: Fallback | None = None,
        family: str | None = None,
        parts: Sequence[str] = (),
        item_units: float | None = None,
        key: str | Sequence[str] = (),
        salt: int | None = None,
        options: Mapping[str, Any] | None = None,
        budget: SharedBudget | None = None,
        marker: SampleMarker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        sheds = throttle is not None or budget is not None or load < 1.0
        self.fallback: Fallback = fallback or ("uniform" if sheds else "pass")
        if self.fallback not in ("pass", "uniform"):
            raise InvalidInput(f"fallback must be pass or uniform, got {fallback!r}")
        self.client = client
        self.throttle = FixedThrottle(load) if throttle is None else Observing.if_needed(throttle)
        self.family = family
        self.parts = tuple(parts)
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.salt = salt
        self.options = dict(options or {})
        self.budget = budget
        self.marker = marker
        self.clock = clock
        self.counters = Counters()
        self.marked: BoolArray = np.zeros(0, dtype=np.bool_)
        self.last_refusal = ""
        self.last_error = ""
        self._lock = threading.Lock()
        self._limits = Limits(self.throttle, budget, marker, self.counters)
        self._ready: tuple[Published, Prepared] | None = None
        self._taken: tuple[Published, Prepared] | None = None
        self._shedder: Shedder | None = None
        self._schema = Schema(())
        self._shadow: Shedder | None = None
        self._uniform = Uniform(self.parts)
        self._set: Any = None
        self._each = float(item_units or max(1, len(self.parts)))
        if self.key:
            keys.warm()
        client.attach(self)

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
        keep = self._offer([item], weighted=False).keep
        if keep.ndim > 1:
            return keep[0] if len(keep) else np.ones(keep.shape[1], dtype=np.bool_)
        return bool(keep[0]) if len(keep) else True

    def shadow(self, published: Published | None) -> None:
        """Let a candidate decide alongside the plan in force, only to be counted; None ends it."""
        candidate = None
        if published is not None:
            candidate = prepare(
                published.plan, published.manifest.family, options=self.options
            ).shedder
        with self._lock:
            self._shadow = candidate

    def snapshot(self) -> dict[str, int | float]:
        """Return the counters of shedder and client."""
        client = self.client
        return self.counters.snapshot() | {
            "polls": client.polls,
            "poll_errors": client.errors,
            "refused_plans": client.refusals,
        }

    def status(self) -> dict[str, Any]:
        """Return what an operator asks first: what is in force, and what went wrong last."""
        client = self.client
        newest = max(client.refused, default=0)
        return {
            "stream": client.stream,
            "node": client.node,
            "state": client.state if self._shedder is not None else "waiting",
            "version": self.version,
            "load": dict(self.load) if isinstance(self.load, Mapping) else self.load,
            "fallback": self.fallback,
            "refused_version": newest,
            "refused_reason": client.refused.get(newest, ""),
            "refused_batch": self.last_refusal,
            "error": self.last_error,
            "throttle_error": self._limits.last_error,
            "poll_error": str(client.last_error or ""),
            "counters": self.snapshot(),
        }

    def to_prometheus(self) -> str:
        """Return all counters in Prometheus' text format, labelled with stream and node."""
        return prometheus(self.snapshot(), {"stream": self.client.stream, "node": self.client.node})

    # On the client's thread

    def prepare(self, published: Published) -> Prepared:
        """Build and try a shedder for a version; raise if it cannot be used here."""
        family = published.manifest.family
        if self.family is not None and family != self.family:
            raise ArtifactError(f"family must be {self.family}, got a plan of {family}")
        with at_hand(family):
            prepared = prepare(published.plan, family, self._limits.share, options=self.options)
        parts = prepared.shedder.parts
        if self.parts and parts != self.parts:
            raise ArtifactError(
                f"parts must be {', '.join(self.parts)}, got a plan of {', '.join(parts)}"
            )
        return prepared

    def hand_over(self, published: Published, prepared: Prepared) -> None:
        """Leave a finished shedder for the data path to take over."""
        self._ready = (published, prepared)

    # On the data path

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
                self.counters.dropped += rows
                return Decision(nothing, 0)

    def _take_over(self) -> None:
        ready = self._ready
        if ready is self._taken or ready is None:
            return
        published, prepared = ready
        shedder = prepared.shedder
        if self._shedder is not None and type(self._shedder) is type(shedder):
            shedder.adopt(self._shedder)
        self._taken, self._shedder = ready, shedder
        self._schema = shedder.schema.also(self.key)
        self._uniform.parts = self.parts or shedder.parts
        self._set = None
        counters = self.counters
        counters.version = published.manifest.version
        counters.swaps += 1
        self.client.report_swap(counters.version, counters.snapshot())

    def _counted(self, batch: Any, weighted: bool) -> Decision:
        counters = self.counters
        read, rows, units = self._read(batch)
        most = self._limits.before(self.clock(), self._told(read, units), units)
        decision, why = self._decided(read, rows, units, most, weighted)
        kept = decision.keep if decision.keep.ndim == 1 else decision.keep.any(axis=1)
        passed = int(np.count_nonzero(kept))
        counters.kept += passed
        counters.dropped += rows - passed
        if why:
            setattr(counters, why, getattr(counters, why) + passed)
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
        self.marked = marked = self._marks(rows, units, most)
        count = int(np.count_nonzero(marked))
        if not count:
            return self._unmarked(read, rows, units, most, weighted)
        others, charged = None, math.ceil(count * self._each)
        if read is not None:
            others = read.take(~marked)
            if self._shedder is not None:
                charged = self._shedder.units(read.take(marked))
        decision, why = self._unmarked(
            others, rows - count, units - charged, most - charged, weighted
        )
        keep = np.ones((rows, *decision.keep.shape[1:]), dtype=np.bool_)
        keep[~marked] = decision.keep
        weight = None
        if decision.weight is not None:
            weight = np.ones(rows)
            weight[~marked] = decision.weight
        self.counters.marked += count
        return Decision(keep, decision.units + charged, decision.cut, weight), why

    def _marks(self, rows: int, units: int, most: int) -> BoolArray:
        """Mark samples, as many as may pass."""
        if self.marker is None or not rows:
            return np.zeros(rows, dtype=np.bool_)
        marked = self.marker.mark(rows)
        places = np.flatnonzero(marked)
        marked[places[max(most, 0) * rows // max(units, 1) :]] = False
        return marked

    def _unmarked(
        self, read: Batch | None, rows: int, units: int, most: int, weighted: bool
    ) -> tuple[Decision, str]:
        draws = None
        if self.key and read is not None:
            hashed = keys.hashes([read.columns[name] for name in self.key], self.salt)
            draws = keys.draws(hashed)
        why, rule = self._why(read)
        if not why:
            try:
                return self._by_plan(read, draws, most, weighted), ""
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

    def _by_plan(self, read: Batch | None, draws: Any, most: int, weighted: bool) -> Decision:
        assert self._shedder is not None
        assert self._taken is not None
        assert read is not None
        load = self.load
        if not isinstance(load, Mapping):
            left = self._limits.left
            load = self._taken[1].load_for(left) if self.throttle.of_share else left
        if load != self._set:
            self._follow(self._shedder, load)
        if not read.rows:
            return Decision(self._shedder.nothing(0), 0, 0, np.zeros(0) if weighted else None)
        decision = self._shedder.decide(read, draws=draws, most=max(most, 0), weighted=weighted)
        keep = decision.keep
        if keep.dtype != np.bool_ or keep.shape[:1] != (read.rows,):
            raise TypeError(f"a mask of {read.rows} items was due, got {keep.dtype}{keep.shape}")
        if self._shadow is not None:
            self._cast_shadow(self._shadow, load, read, keep)
        return decision

    def _follow(self, shedder: Shedder, load: Any) -> None:
        """Set a load; one that the plan does not accept leaves the last one in force."""
        try:
            shedder.set_load(load)
        except Exception as error:
            self._limits.doubt(error)
        self._set = load

    def _refuse(self, refusal: Refusal) -> None:
        self.counters.refused_items += refusal.rows
        self.counters.missing_columns += len(refusal.missing)
        self.last_refusal = str(refusal)

    def _told(self, read: Batch | None, units: int) -> Any:
        """Return what the throttle is told about a batch."""
        if not self.throttle.per_input:
            return units
        arrivals = getattr(self._shedder, "arrivals", None)
        return arrivals(read) if arrivals is not None and read is not None else {}

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
