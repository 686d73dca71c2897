"""The running shedder: the family's shedder with a plan that is kept up to date.

Plans are built and tried on the client's thread; what happens to a batch is in
:mod:`planning.runtime.data_path`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from planning.artifacts import Published
from planning.artifacts.status import plain
from planning.errors import ArtifactError, InvalidInput
from planning.families import Definition
from planning.runtime import metrics
from planning.runtime.client import PlanClient
from planning.runtime.compiling import at_hand
from planning.runtime.data_path import DataPath, Fallback
from planning.runtime.limits import Budget
from planning.runtime.marking import SampleMarker
from planning.runtime.preparing import Prepared, prepare
from planning.runtime.throttle import FixedThrottle, Observing, Throttle


class RunningShedder(DataPath):
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
    definition
        The stream's definition: it names the family and the parts that are shed, so that masks
        have one shape from the start. A plan of another family or of other parts is refused.
    family, parts
        The same without a definition.
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

    client: PlanClient

    def __init__(
        self,
        client: PlanClient,
        throttle: Throttle | None = None,
        load: float = 1.0,
        *,
        fallback: Fallback | None = None,
        definition: Definition[Any] | None = None,
        family: str | None = None,
        parts: Sequence[str] = (),
        item_units: float | None = None,
        key: str | Sequence[str] = (),
        salt: int | None = None,
        options: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        marker: SampleMarker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if fallback not in ("pass", "uniform", None):
            raise InvalidInput(f"fallback must be pass or uniform, got {fallback!r}")
        sheds = throttle is not None or budget is not None or load < 1.0
        if definition is not None:
            family = definition.family
            parts = definition.parameters.parts(definition.attribute_names)
        self.family = family
        self.options = dict(options or {})
        self.budget = budget
        super().__init__(
            client,
            FixedThrottle(load) if throttle is None else Observing.if_needed(throttle),
            budget,
            marker,
            fallback=fallback or ("uniform" if sheds else "pass"),
            parts=tuple(parts),
            item_units=item_units,
            key=(key,) if isinstance(key, str) else tuple(key),
            salt=salt,
            clock=clock,
        )
        metrics.watch(self)
        client.attach(self)

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
        return msgspec.structs.asdict(self.client.status(self))

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
        self.put(published.manifest.version, prepared)

    # On the thread that reports

    def measured(self) -> dict[str, Any]:
        """Return the fields of a status that only the data path knows."""
        return {
            "version": self.version,
            "load": dict(self.load) if isinstance(self.load, Mapping) else self.load,
            "fallback": self.fallback,
            "refused_batch": plain(self.last_refusal),
            "error": plain(self.last_error),
            "throttle_error": plain(self._limits.last_error),
            "counters": self.snapshot(),
        }
