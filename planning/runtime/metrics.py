"""Metrics: what runs in this process, read when Prometheus or OpenTelemetry asks for it.

Nothing is counted for the sake of metrics. The thread that asks reads what the data path counts
anyway, and takes no lock. Shedders of one stream on one node are shown as one: counts are added,
of everything else the worst is shown. What a shedder has counted stays after its end.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.artifacts.manifest import from_time
from planning.errors import MissingExtra
from planning.families import HasMeasures

if TYPE_CHECKING:
    from planning.artifacts import Reader
    from planning.runtime.marking import SampleWriter
    from planning.runtime.shedding import RunningShedder

MOST_PARTS = 50
METRICS = {
    "offered_items_total": "Items offered: those kept and those dropped.",
    "kept_items_total": "Items that passed, whole or in part.",
    "dropped_items_total": "Items dropped, by reason.",
    "passed_items_total": "Items that passed for another reason than the plan; part of those kept.",
    "marks_skipped_total": "Monitoring samples that were due but did not fit the load or a limit.",
    "offered_units_total": "What was offered, in the family's unit.",
    "kept_units_total": "What passed, in the family's unit.",
    "cut_units_total": "Units that capacity or budget cut of what would have passed.",
    "refused_items_total": "Items in batches that could not be read.",
    "missing_columns_total": "Columns that were missing, over all batches.",
    "errors_total": "Failures inside the shedder.",
    "throttle_errors_total": "Answers of the throttle that were no load; the last sound one stays.",
    "swaps_total": "Plans taken into force.",
    "shadow_kept_items_total": "Items that the candidate in shadow would have kept.",
    "shadow_disagreed_items_total": "Decisions of the candidate in shadow that differ.",
    "shadow_errors_total": "Failures of the candidate in shadow.",
    "load_ratio": "The load that the plan is evaluated at; for rates by input, the share.",
    "plan_version": "Version that decides on items; 0 without one.",
    "plan_expired": "1 while the plan that decides has expired.",
    "plan_info": "The plan that decides: version, family, and the unit of loads and capacities.",
    "plan_created_timestamp_seconds": "When the plan at hand was made.",
    "plan_taken_timestamp_seconds": "When this process took the plan at hand.",
    "newest_version": "Highest version that this node has ever verified.",
    "polls_total": "Times the client looked for a new plan.",
    "poll_errors_total": "Times that this failed.",
    "refused_plans_total": "Versions that were refused; the plan in force stays.",
    "store_problem": "1 while something keeps the node from following new versions.",
    "store_reached_timestamp_seconds": "When plans could last be looked up.",
    "clock_skew_seconds": "How far the node's clock is ahead of the server's that it asks.",
    "part_offered_items_total": "Items offered of a part, as far as the family counts them.",
    "part_dropped_items_total": "Items dropped of a part, as far as the family counts them.",
    "part_sent_values_total": "Values of an attribute that were sent.",
    "part_drop_ratio": "Share of a part that the plan drops at the present load.",
    "part_throttler_meters": "Deviation that a level's nodes may have before they report.",
    "hidden_parts": "Parts that are not shown because others are larger.",
    "samples_landed_total": "Monitoring samples that were written.",
    "samples_lost_total": "Monitoring samples that will never be written, by reason.",
    "samples_buffered": "Monitoring samples in memory.",
    "lease_share_ratio": "Part of the fleet's capacity that this member may use.",
    "lease_lost": "1 while a member cannot renew its share of the fleet's capacity.",
    "published_version": "Newest version in the store.",
    "node_version": "Version that the node reports to have in force.",
    "node_refused_version": "Newest version that the node reports to refuse, above its own, or 0.",
    "node_status_age_seconds": "Time since the node's last status.",
    "node_silent": "1 if the node should have been heard of since.",
}
"""All metrics, without ``headgate_``; those that end in ``_total`` are counters, others gauges."""

COUNTED = {
    "offered": ("offered_items_total", ""),
    "kept": ("kept_items_total", ""),
    "dropped_by_plan": ("dropped_items_total", "plan"),
    "dropped_by_limit": ("dropped_items_total", "limit"),
    "dropped_by_fallback": ("dropped_items_total", "fallback"),
    "dropped_on_error": ("dropped_items_total", "error"),
    "passed_without_plan": ("passed_items_total", "no plan"),
    "passed_on_error": ("passed_items_total", "error"),
    "passed_on_refusal": ("passed_items_total", "refusal"),
    "passed_on_expiry": ("passed_items_total", "expiry"),
    "marked": ("passed_items_total", "marked"),
    "dropped_by_budget": ("cut_units_total", ""),
    "shadow_kept": ("shadow_kept_items_total", ""),
    "shadow_disagreed": ("shadow_disagreed_items_total", ""),
} | {
    name: (f"{name}_total", "")
    for name in (
        "offered_units", "kept_units", "refused_items", "missing_columns", "errors",
        "throttle_errors", "swaps", "shadow_errors", "marks_skipped",
    )
}  # fmt: skip
"""The metric of every counter, and its reason."""
LOWEST = {"load_ratio", "plan_version"} | {n for n in METRICS if "timestamp" in n}
"""Gauges of which the lowest is the worst."""
UNITS = {"items": "{item}", "seconds": "s", "meters": "m", "ratio": "1"}

_running: weakref.WeakValueDictionary[int, RunningShedder] = weakref.WeakValueDictionary()
_ended: dict[tuple[str, str], Counter[str]] = {}
_writers: weakref.WeakValueDictionary[int, SampleWriter] = weakref.WeakValueDictionary()


def watch(shedder: RunningShedder) -> None:
    """Show a shedder as long as it lives, and what it counted ever after: counters never fall."""
    _running[id(shedder)] = shedder
    whose = shedder.client.stream, shedder.client.node
    weakref.finalize(shedder, _end, whose, shedder.counters.snapshot).atexit = False


def watch_samples(writer: SampleWriter) -> None:
    """Show a writer of monitoring samples as long as it lives."""
    _writers[id(writer)] = writer


def _end(whose: tuple[str, str], snapshot: Callable[[], dict[str, Any]]) -> None:
    _ended.setdefault(whose, Counter()).update(snapshot())


class Readings(dict[str, dict[tuple[tuple[str, str], ...], float]]):
    """Values by metric and labels."""

    def add(self, name: str, value: float | None, labels: dict[str, str]) -> None:
        """Add a value, or combine it with the one that is there; None is not known."""
        if value is None:
            return
        rows, key = self.setdefault(name, {}), tuple(labels.items())
        if key not in rows:
            rows[key] = value
        elif name.endswith("_total"):
            rows[key] += value
        else:
            rows[key] = (min if name in LOWEST else max)(rows[key], value)

    def add_counts(self, counts: dict[str, Any], labels: dict[str, str]) -> None:
        """Add the counters of a shedder."""
        for counter, (name, reason) in COUNTED.items():
            self.add(name, counts[counter], labels | ({"reason": reason} if reason else {}))


def read(store: Reader | None = None, max_parts: int = MOST_PARTS) -> Readings:
    """Return all metrics of this process, and of the nodes that report to a store if given.

    >>> from planning.examples import demo_samples, demo_store
    >>> from planning.runtime import PlanClient, RunningShedder
    >>> client = PlanClient(demo_store("sifter")[0], "ticks", node="edge-metrics", memory=False)
    >>> shedder = RunningShedder(client, load=0.5, fallback="pass")
    >>> client.poll(), len(shedder.offer(demo_samples("sifter")))
    (True, 19984)
    >>> labels = (("stream", "ticks"), ("node", "edge-metrics"))
    >>> metrics = read()
    >>> metrics["offered_items_total"][labels], metrics["plan_version"][labels]
    (19984, 1)
    """
    readings = Readings()
    running = _alive(_running)
    for shedder in running:
        _read_shedder(readings, shedder, max_parts)
    for client in {id(shedder.client): shedder.client for shedder in running}.values():
        _read_client(readings, client)
    for (stream, node), counts in list(_ended.items()):
        readings.add_counts(counts, {"stream": stream, "node": node})
    for writer in _alive(_writers):
        _read_writer(readings, writer)
    if store is not None:
        _read_nodes(readings, store)
    return readings


def _alive(things: weakref.WeakValueDictionary[int, Any]) -> list[Any]:
    return [thing for ref in things.valuerefs() if (thing := ref()) is not None]


def _read_shedder(readings: Readings, shedder: RunningShedder, max_parts: int) -> None:
    labels = {"stream": shedder.client.stream, "node": shedder.client.node}
    counts = shedder.counters.snapshot()
    readings.add_counts(counts, labels)
    readings.add("load_ratio", counts["load"], labels)
    readings.add("plan_version", counts["version"], labels)
    readings.add("plan_expired", counts["expired"], labels)
    lease = getattr(shedder.throttle, "lease", getattr(shedder.budget, "lease", None))
    if lease is not None:
        member = {"capacity": lease.name, "member": lease.member}
        readings.add("lease_share_ratio", lease.share, member)
        readings.add("lease_lost", int(lease.state != "held"), member)
    inner, at_hand = shedder.shedder, shedder.client.current
    if inner is not None and at_hand is not None:
        info = {"version": str(counts["version"]), "family": at_hand.manifest.family}
        readings.add("plan_info", 1, labels | info | {"unit": getattr(inner, "UNIT", "items")})
    if not isinstance(inner, HasMeasures):
        return
    kind, names, size, values = inner.measures()
    shown = np.sort(np.argsort(-size, kind="stable")[:max_parts]).tolist()
    labels["kind"] = kind
    readings.add("hidden_parts", len(size) - len(shown), labels)
    for name, column in values.items():
        for place in shown:
            part = {**labels, "part": str(names[place])}
            readings.add(f"part_{name}", float(column[place]), part)


def _read_client(readings: Readings, client: Any) -> None:
    labels = {"stream": client.stream, "node": client.node}
    readings.add("polls_total", client.polls, labels)
    readings.add("poll_errors_total", client.errors, labels)
    readings.add("refused_plans_total", client.refusals, labels)
    readings.add("newest_version", client.seen, labels)
    readings.add("store_problem", int(bool(client.problem)), labels)
    readings.add("store_reached_timestamp_seconds", client.reached_at_s, labels)
    readings.add("clock_skew_seconds", client.store.clock_skew_s, labels)
    published = client.current
    if published is not None:
        created_s = from_time("created_at", published.manifest.created_at).timestamp()
        readings.add("plan_created_timestamp_seconds", created_s, labels)
        readings.add("plan_taken_timestamp_seconds", client.taken_at_s, labels)


def _read_writer(readings: Readings, writer: SampleWriter) -> None:
    labels = {"node": writer.node}
    readings.add("samples_landed_total", writer.landed, labels)
    readings.add("samples_buffered", writer.buffered, labels)
    for reason, count in writer.lost_by.items():
        readings.add("samples_lost_total", count, labels | {"reason": reason})


def _read_nodes(readings: Readings, store: Reader) -> None:
    for stream in store.streams():
        readings.add("published_version", store.newest(stream), {"stream": stream})
        for status in store.nodes(stream):
            labels = {"stream": stream, "node": status.node}
            readings.add("node_version", status.version, labels)
            readings.add("node_refused_version", status.refuses, labels)
            readings.add("node_status_age_seconds", status.age_s, labels)
            readings.add("node_silent", int(status.silent), labels)


class Collector:
    """All metrics, for a registry of ``prometheus_client``.

    Parameters
    ----------
    store
        A store: the statuses of its nodes are shown too. For one process, not for every node.
    max_parts
        Regions, attributes, windows, arcs or levels that are shown of each shedder.

    Examples
    --------
    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> registry = CollectorRegistry()
    >>> registry.register(Collector())
    >>> exposition = generate_latest(registry).decode()
    """

    def __init__(self, store: Reader | None = None, max_parts: int = MOST_PARTS) -> None:
        self.store, self.max_parts = store, max_parts
        self._metric = _extra("prometheus_client.core", "prometheus").Metric

    def describe(self) -> Iterable[Any]:
        """Return nothing, so that registering reads nothing."""
        return ()

    def collect(self) -> Iterator[Any]:
        """Yield every metric with its samples."""
        for name, rows in read(self.store, self.max_parts).items():
            bare = name.removesuffix("_total")
            kind = "gauge" if bare == name else "counter"
            metric = self._metric(f"headgate_{bare}", METRICS[name], kind)
            for labels, value in rows.items():
                metric.add_sample(f"headgate_{name}", dict(labels), value)
            yield metric


def observe(provider: Any, store: Reader | None = None, max_parts: int = MOST_PARTS) -> None:
    """Let a meter provider of OpenTelemetry observe all metrics; names have no ``_total`` there."""
    observation = _extra("opentelemetry.metrics", "opentelemetry").Observation
    meter = provider.get_meter("headgate")
    latest = Readings()

    def observing(name: str) -> Callable[[Any], list[Any]]:
        def look(_: Any) -> list[Any]:
            nonlocal latest
            if name == next(iter(METRICS)):  # instruments are asked in this order, one by one
                latest = read(store, max_parts)
            return [observation(value, dict(key)) for key, value in latest.get(name, {}).items()]

        return look

    for name, help in METRICS.items():
        bare = name.removesuffix("_total")
        create = meter.create_observable_gauge if bare == name else meter.create_observable_counter
        unit = UNITS.get(bare.rpartition("_")[2], "")
        create(f"headgate_{bare}", [observing(name)], unit=unit, description=help)


def _extra(module: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"{error}; pip install 'headgate[{extra}]'") from None
