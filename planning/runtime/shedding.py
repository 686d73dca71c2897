"""The running shedder: the family's shedder with a plan that is kept up to date.

It never blocks and never raises into the data path: whatever fails, the items pass and the failure
is counted. Between two batches it looks, without I/O, whether its client has a newer plan.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from planning import families
from planning.arrays import BoolArray
from planning.artifacts import Published
from planning.families import Shedder
from planning.pacing import Pacer
from planning.runtime.budget import SharedBudget
from planning.runtime.client import PlanClient
from planning.runtime.counters import Counters, prometheus
from planning.runtime.marking import SampleMarker
from planning.runtime.throttle import FixedThrottle, Throttle
from planning.shedder import batch_size

log = logging.getLogger(__name__)


class RunningShedder:
    """Sheds with a client's plan in force; for use by one thread.

    Before the first plan everything passes (the trivial filter F0). An expired plan does what its
    manifest states: ``keep`` keeps using it, ``pass`` lets everything pass, ``uniform`` drops
    evenly down to the load. A budget, if there is one, holds in every state.

    Parameters
    ----------
    client
        Where plans come from.
    throttle
        Decides the load from what arrives; without one the load is ``load``.
    load
        Fixed load, when there is no throttle.
    budget
        Hard limit on the items that pass, shared by several shedders; no use to a family that
        sheds parts of items.
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
    >>> shedder = RunningShedder(client, load=0.5)
    >>> bool(shedder.offer(demo_samples("sifter")).all())  # no plan yet: everything passes
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
        budget: SharedBudget | None = None,
        marker: SampleMarker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.throttle = FixedThrottle(load) if throttle is None else throttle
        self.budget = budget
        self.marker = marker
        self.clock = clock
        self.counters = Counters()
        self.counters.load = self.throttle.load
        self.marked: BoolArray = np.zeros(0, dtype=np.bool_)
        self._published: Published | None = None
        self._refused: Published | None = None
        self._family = ""
        self._shedder: Shedder | None = None
        self._shadow: Shedder | None = None
        self._uniform = Pacer(1.0)

    @property
    def shedder(self) -> Shedder | None:
        """The family's shedder in force, with its own counters; None before the first plan."""
        return self._shedder

    @property
    def version(self) -> int:
        """Version in force; 0 before the first plan."""
        return self.counters.version

    def offer(self, batch: Any) -> BoolArray:
        """Decide on a batch: True where the item is kept.

        A family that sheds parts of items returns a mask with further axes; such an item counts as
        kept if any part is.
        """
        try:
            size = batch_size(batch)
        except Exception as error:
            self._failed("a batch without a length", error)
            return np.ones(0, dtype=np.bool_)
        counters = self.counters
        try:
            self._refresh()
            keep = self._decide(batch, size)
            keep = self._within_budget(keep)
        except Exception as error:
            self._failed("the shedder failed", error)
            counters.passed_on_error += size
            self.marked = np.zeros(size, dtype=np.bool_)
            keep = np.ones(size, dtype=np.bool_)
        kept = int(np.count_nonzero(keep if keep.ndim == 1 else keep.reshape(size, -1).any(axis=1)))
        counters.kept += kept
        counters.dropped += size - kept
        self._adjust(size, kept)
        return keep

    def offer_one(self, item: Any) -> bool:
        """Decide on one item: True if it is kept."""
        counters = self.counters
        try:
            self._refresh()
            keep = self._decide_one(item)
            if self.budget is not None:
                granted = self.budget.take(1, int(keep), counters.load)
                counters.dropped_by_budget += int(keep) - granted
                keep = bool(granted)
        except Exception as error:
            self._failed("the shedder failed", error)
            counters.passed_on_error += 1
            keep = True
        if keep:
            counters.kept += 1
        else:
            counters.dropped += 1
        self._adjust(1, int(keep))
        return keep

    def shadow(self, published: Published | None) -> None:
        """Let a candidate decide alongside the plan in force, only to be counted; None ends it."""
        self._shadow = None
        if published is not None:
            room = families.family(published.manifest.family).room("shedder")
            self._shadow = room.Shedder(published.plan, self._plan_load())

    def snapshot(self) -> dict[str, int | float]:
        """Return the counters of shedder and client."""
        client = {"polls": self.client.polls, "poll_errors": self.client.errors}
        return self.counters.snapshot() | client

    def to_prometheus(self) -> str:
        """Return all counters in Prometheus' text format, labelled with stream and node."""
        return prometheus(
            self.snapshot(), {"stream": self.client.stream, "node": self.client.node}
        )

    def _refresh(self) -> None:
        """Swap if the client has another plan; a plan that cannot be used leaves the old one."""
        published = self.client.current
        if published is self._published or published is self._refused or published is None:
            return
        try:
            family = published.manifest.family
            if self._shedder is not None and family == self._family:
                self._shedder.swap(published.plan)
            else:
                room = families.family(family).room("shedder")
                self._shedder = room.Shedder(published.plan, self._plan_load())
        except Exception as error:
            self._refused = published
            self._failed(f"version {published.manifest.version} cannot be used", error)
            return
        self._published, self._family = published, family
        self.counters.version = published.manifest.version
        self.counters.swaps += 1
        self.client.report_swap(self.counters.version, self.counters.snapshot())

    def _decide(self, batch: Any, size: int) -> BoolArray:
        if self.marker is None:
            self.marked = np.zeros(size, dtype=np.bool_)
            return self._filter(batch, size)
        self.marked = marked = self.marker.mark(size)
        count = int(np.count_nonzero(marked))
        if not count:
            return self._filter(batch, size)
        others = self._filter(select(batch, ~marked), size - count)
        keep = np.ones((size, *others.shape[1:]), dtype=np.bool_)
        keep[~marked] = others
        self.counters.marked += count
        return keep

    def _filter(self, batch: Any, size: int) -> BoolArray:
        counters = self.counters
        if self._shedder is None:
            counters.passed_without_plan += size
            return np.ones(size, dtype=np.bool_)
        counters.expired = int(self.client.expired)
        if counters.expired and self.client.fallback == "pass":
            counters.passed_on_expiry += size
            return np.ones(size, dtype=np.bool_)
        if counters.expired and self.client.fallback == "uniform":
            self._uniform.fraction = self._plan_load()
            return self._uniform.next(size)
        keep = np.asarray(self._shedder.offer(batch))
        if keep.dtype != np.bool_ or keep.shape[:1] != (size,):
            raise TypeError(f"a mask of {size} booleans was due, got {keep.dtype}{keep.shape}")
        if self._shadow is not None:
            self._cast_shadow(self._shadow, batch, keep)
        return keep

    def _decide_one(self, item: Any) -> bool:
        counters = self.counters
        if self.marker is not None and self.marker.mark_one():
            counters.marked += 1
            return True
        if self._shedder is None:
            counters.passed_without_plan += 1
            return True
        counters.expired = int(self.client.expired)
        if counters.expired and self.client.fallback == "pass":
            counters.passed_on_expiry += 1
            return True
        if counters.expired and self.client.fallback == "uniform":
            self._uniform.fraction = self._plan_load()
            return self._uniform.next_one()
        keep = self._shedder.offer_one(item)
        return keep if isinstance(keep, bool) else bool(np.any(keep))

    def _within_budget(self, keep: BoolArray) -> BoolArray:
        """Drop what the budget does not allow: its last items, marks last of all."""
        if self.budget is None or keep.ndim > 1:
            return keep
        wanted = int(np.count_nonzero(keep))
        granted = self.budget.take(len(keep), wanted, self.counters.load)
        if granted >= wanted:
            return keep
        candidates = np.flatnonzero(keep)
        order = np.argsort(~self.marked[candidates], kind="stable")
        allowed = np.zeros(len(keep), dtype=np.bool_)
        allowed[candidates[order[:granted]]] = True
        self.counters.dropped_by_budget += wanted - granted
        return allowed

    def _adjust(self, offered: int, kept: int) -> None:
        """Let the throttle see what arrived; follow its load."""
        try:
            load = self.throttle.observe(self.clock(), offered, kept)
            if load == self.counters.load:
                return
            self.counters.load = load
            for shedder in (self._shedder, self._shadow):
                if shedder is not None:
                    shedder.set_load(self._plan_load())
        except Exception as error:
            self._failed("the throttle failed", error)

    def _plan_load(self) -> float:
        """Return the load that is left for what is not marked."""
        load = self.counters.load
        return load if self.marker is None else self.marker.share(load)

    def _cast_shadow(self, candidate: Shedder, batch: Any, keep: BoolArray) -> None:
        try:
            other = np.asarray(candidate.offer(batch), dtype=np.bool_)
            self.counters.shadow_kept += int(np.count_nonzero(other))
            self.counters.shadow_disagreed += int(np.count_nonzero(other != keep))
        except Exception:
            self.counters.shadow_errors += 1

    def _failed(self, what: str, error: Exception) -> None:
        self.counters.errors += 1
        if self.counters.errors == 1:
            log.error("stream %s: %s; items pass: %r", self.client.stream, what, error)


def select(batch: Any, mask: BoolArray) -> Any:
    """Return the items of a batch where ``mask`` is True."""
    if isinstance(batch, Mapping):
        return {name: np.asarray(column)[mask] for name, column in batch.items()}
    if isinstance(batch, np.ndarray):
        return batch[mask]
    return [batch[i] for i in np.flatnonzero(mask)]
