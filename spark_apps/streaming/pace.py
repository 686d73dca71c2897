"""The load of a query from its own progress, its counters and its status: what the driver does.

After every micro-batch Spark tells listeners how many rows came, at what rate, and how long they
took. From that follows the load of the micro-batches to come.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from planning.artifacts import Reader, Status
from planning.artifacts.manifest import to_time
from planning.artifacts.status import State, check_node, plain
from planning.errors import InvalidInput, check_between
from planning.runtime.throttle import positive
from spark_apps.streaming.control import RETAINED, Control, Terms, Totals

HEARTBEAT_S = 30.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Law:
    """How the load follows from a micro-batch.

    With a ``capacity_per_s``, as many rows pass as can be processed: capacity / rate of arrival.
    Without, the time that a micro-batch took says how much that is. Rows that pass cost time, so at
    load z micro-batches that took T and must take at most S leave room for a load of z · S / T.
    S is the time between two micro-batches, because what arrives in it must be done in it, but at
    least ``batch_s``: a query without a trigger interval starts the next one at once, however
    little there is to do. Of S, ``utilisation`` is used, so that what waits is worked off.

    Examples
    --------
    Ten thousand rows every second; at a load of 0.5 they took two:

    >>> round(Law().next(0.5, arrived_per_s=10_000, every_s=1.0, took_s=2.0), 3)
    0.225
    >>> Law(capacity_per_s=4000).next(0.5, arrived_per_s=10_000, every_s=1.0, took_s=2.0)
    0.4
    """

    capacity_per_s: float | None = None
    batch_s: float = 1.0
    utilisation: float = 0.9
    floor: float = 0.01

    def __post_init__(self) -> None:
        if self.capacity_per_s is not None:
            positive("capacity_per_s", self.capacity_per_s)
        positive("batch_s", self.batch_s)
        check_between("utilisation", self.utilisation, 0.0, 1.0, open_low=True)
        check_between("floor", self.floor, 0.0, 1.0, open_low=True)

    def next(self, load: float, arrived_per_s: float, every_s: float, took_s: float) -> float:
        """Return the load after a micro-batch with this one."""
        if self.capacity_per_s is not None:
            wanted = self.capacity_per_s / arrived_per_s
        else:
            wanted = load * self.utilisation * max(every_s, self.batch_s) / took_s
        return min(1.0, max(self.floor, wanted))


class Pace(StreamingQueryListener):
    """Listens to one stream's queries: sets the load, adds up counters, reports the status.

    Parameters
    ----------
    control
        The control folder that ``shed`` was given.
    reader
        Where the status is written; one status per query.
    law
        How the load follows from a micro-batch; None for a fixed one.
    node
        The node's name in the status; by default ``spark-`` and the beginning of the query's id.
    """

    def __init__(
        self,
        control: str,
        stream: str,
        reader: Reader,
        law: Law | None = None,
        node: str | None = None,
    ) -> None:
        if node is not None:
            check_node(node)
        self.control = control
        self.stream = stream
        self.reader = reader
        self.law = law
        self.node = node
        self.last_error = ""
        self._started: dict[str, str] = {}
        self._told: dict[str, tuple[Any, float]] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Note when a query began."""
        self._started[str(event.id)] = to_time(datetime.now(UTC))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Follow a micro-batch that is done."""
        try:
            self.follow(event.progress)
        except Exception as error:  # a listener that raises would only fill Spark's log
            self._failed(error)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Let others know that the query waits for rows."""
        try:
            control = Control(self.control, str(event.id), self.stream)
            if control.there():
                self._report(str(event.id), control, control.totals(), 0.0)
        except Exception as error:
            self._failed(error)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Take leave."""
        try:
            control = Control(self.control, str(event.id), self.stream)
            if control.there():
                self._report(str(event.id), control, control.totals(), 0.0, "stopped")
        except Exception as error:
            self._failed(error)

    def follow(self, progress: Any) -> None:
        """Set the next load after a micro-batch, add its counters up, and report."""
        query, batch = str(progress.id), int(progress.batchId)
        control = Control(self.control, query, self.stream)
        terms = control.terms(batch)
        if terms is None:  # another query, or no rows
            return
        took_s = float(progress.durationMs.get("triggerExecution", 0)) / 1000.0
        arrived = float(progress.inputRowsPerSecond)
        if self.law is not None and took_s > 0 and math.isfinite(arrived) and arrived > 0:
            every_s = progress.numInputRows / arrived
            control.set_load(self.law.next(terms.load, arrived, every_s, took_s))
        totals = control.counted(batch)
        control.forget(batch - RETAINED)
        self._report(query, control, totals, took_s)

    def _report(
        self,
        query: str,
        control: Control,
        totals: Totals,
        took_s: float,
        state: State = "in force",
    ) -> None:
        terms = control.before(1 << 62)
        assert terms is not None
        now_s = time.monotonic()
        told = (terms.version, state, sorted(terms.refused), terms.problem)
        before, at_s = self._told.get(query, (None, -math.inf))
        heartbeat_s = max(HEARTBEAT_S, took_s)
        if told == before and now_s - at_s < heartbeat_s / 3.0:
            return
        self._told[query] = told, now_s
        self.reader.report(self.stream, self._status(query, terms, totals, state, heartbeat_s))

    def _status(
        self, query: str, terms: Terms, totals: Totals, state: State, heartbeat_s: float
    ) -> Status:
        if state == "in force" and not terms.version:
            state = "waiting"
        elif state == "in force" and terms.expired:
            state = "expired"
        return Status(
            node=self.node or f"spark-{query[:8]}",
            stream=self.stream,
            at=to_time(datetime.now(UTC)),
            state=state,
            version=terms.version,
            ready=terms.version,
            seen=terms.version,
            started_at=self._started.get(query),
            heartbeat_s=heartbeat_s,
            refused=terms.refused,
            problem=terms.problem,
            load=terms.load,
            fallback="uniform",
            error=plain(self.last_error),
            counters={**totals.counters, "micro_batch": totals.through},
        )

    def _failed(self, error: Exception) -> None:
        if not self.last_error:
            log.error("stream %s: the query's load and counters: %r", self.stream, error)
        self.last_error = repr(error)


def law_for(load: float | None, capacity_per_s: float | None, batch_s: float | None) -> Law | None:
    """Return how the load is to follow; None where it is fixed.

    >>> law_for(0.5, None, None) is None, law_for(None, 900.0, None).capacity_per_s
    (True, 900.0)
    """
    given = [name for name, value in (("load", load), ("capacity_per_s", capacity_per_s),
             ("batch_s", batch_s)) if value is not None]  # fmt: skip
    if len(given) > 1:
        raise InvalidInput(
            f"give one of load, capacity_per_s and batch_s, got {' and '.join(given)}"
        )
    if load is not None:
        check_between("load", load, 0.0, 1.0, remedy="pass a fraction")
        return None
    return Law(capacity_per_s) if batch_s is None else Law(batch_s=batch_s)
