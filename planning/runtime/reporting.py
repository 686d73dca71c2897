"""What a node says about itself, and when: at once if it has changed, else at every heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from planning.artifacts import Published, Status
from planning.artifacts.manifest import to_time
from planning.artifacts.status import plain
from planning.runtime.counters import GAUGES

if TYPE_CHECKING:
    from planning.runtime.client import PlanClient


class Consumer(Protocol):
    """What a client hands plans to."""

    def prepare(self, published: Published) -> Any:
        """Get ready for a version, off the data path; raise if it cannot be used."""

    def hand_over(self, published: Published, prepared: Any) -> None:
        """Put what was prepared into force; called once all consumers are ready."""

    def withdraw(self) -> None:
        """Stop using the plan in force: it is no longer trusted, and there is no other."""

    def measured(self) -> Mapping[str, Any]:
        """Return the fields of a status that only the data path knows."""


class Reporter:
    """Reports for one client."""

    def __init__(self, client: PlanClient) -> None:
        self.client = client
        self.news = threading.Event()
        self.error = ""
        self._lock = threading.Lock()
        self._told: tuple[Any, ...] = ()
        self._told_at_s = float("-inf")

    def status(self, *consumers: Consumer) -> Status:
        """Return what this node has to say, of all its shedders or of some."""
        client, memory = self.client, self.client.memory
        measured = [consumer.measured() for consumer in consumers or client.consumers]
        known: dict[str, Any] = _together(measured) if measured else {"version": client.version}
        remembered = memory.problem if memory else ""
        return Status(
            node=client.node,
            stream=client.stream,
            at=to_time(datetime.fromtimestamp(client.clock(), UTC)),
            state=client.state if known["version"] or client.state == "stopped" else "waiting",
            ready=client.version,
            seen=client.seen,
            started_at=_moment(client.started_at_s),
            since=_moment(client.taken_at_s),
            heartbeat_s=client.heartbeat_s,
            refused=dict(client.refused),
            problem=client.problem or client.store.trusted.unusable or remembered,
            problem_since=_moment(client.problem_since_s),
            reached_at=_moment(client.reached_at_s),
            clock_skew_s=client.store.clock_skew_s,
            report_error=self.error,
            **known,
        )

    def report(self) -> None:
        """Tell the store how this node is, if that has changed or a heartbeat is due.

        Never raises: a node that may not report must still follow new plans.
        """
        client = self.client
        with self._lock:
            now_s = client.clock()
            try:
                status = self.status()
                told = (status.version, status.ready, status.state, client.refusals, status.problem)
                if told == self._told and 0 <= now_s - self._told_at_s < client.heartbeat_s:
                    return
                self._told, self._told_at_s = told, now_s
                client.store.report(client.stream, status)
                self.error = ""
            except Exception as error:
                self.error = plain(error)

    def tell(self, stop: threading.Event) -> None:
        """Report until stopped; what a thread of its own does, so that no look delays a word."""
        while not stop.is_set():
            self.news.wait(self.client.heartbeat_s)
            self.news.clear()
            self.report()


def _moment(at_s: float | None) -> str | None:
    return None if at_s is None else to_time(datetime.fromtimestamp(at_s, UTC))


def _together(measured: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one node's fields from those of its shedders: the sum, the worst, or the first."""
    if len(measured) == 1:
        return dict(measured[0])
    counters: dict[str, float] = {}
    for one in measured:
        for name, value in one["counters"].items():
            if name not in GAUGES:
                counters[name] = counters.get(name, 0) + value
    shares = [one["load"] for one in measured if not isinstance(one["load"], dict)]
    said = ("fallback", "refused_batch", "error", "throttle_error")
    return {name: next((one[name] for one in measured if one[name]), "") for name in said} | {
        "version": min(one["version"] for one in measured),
        "load": min(shares) if shares else measured[0]["load"],
        "counters": counters,
    }
