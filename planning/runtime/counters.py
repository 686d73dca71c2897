"""Accounting that adds up: every offered item is either kept or dropped, and counted once."""

from __future__ import annotations

from collections.abc import Mapping

HELP = {
    "offered": "Items offered to the shedder.",
    "kept": "Items that passed.",
    "dropped": "Items that were dropped.",
    "passed_without_plan": "Items that passed while there was no plan yet.",
    "passed_on_error": "Items that passed although the shedder failed.",
    "passed_on_refusal": "Items that passed although their batch could not be read.",
    "passed_on_expiry": "Items that passed although the plan had expired.",
    "marked": "Items that passed as monitoring samples.",
    "dropped_by_budget": "Units that the plan kept but capacity or budget did not allow.",
    "refused_items": "Items in batches that could not be read.",
    "missing_columns": "Columns that were missing, over all batches.",
    "errors": "Failures inside the shedder.",
    "throttle_errors": "Answers of the throttle that were no load; the last sound one stays.",
    "swaps": "Plans taken into force.",
    "polls": "Times the client looked for a new plan.",
    "poll_errors": "Times that this failed.",
    "refused_plans": "Versions that were refused; the plan in force stays.",
    "version": "Version of the plan in force; 0 without one.",
    "load": "The load that the plan is evaluated at.",
    "expired": "1 while the plan in force has expired.",
    "shadow_kept": "Items that the candidate in shadow would have kept.",
    "shadow_disagreed": "Items that the candidate in shadow would have decided otherwise.",
    "shadow_errors": "Failures of the candidate in shadow.",
}
GAUGES = frozenset({"version", "load", "expired"})


class Counters:
    """Counters of one shedder; they survive every swap.

    ``offered`` is not stored but the sum of kept and dropped, so a reader in another thread never
    sees a sum that does not add up. The counts by reason are parts of kept or dropped.

    Examples
    --------
    >>> counters = Counters()
    >>> counters.kept += 2
    >>> counters.dropped += 1
    >>> counters.offered
    3
    """

    def __init__(self) -> None:
        self.kept = 0
        self.dropped = 0
        self.passed_without_plan = 0
        self.passed_on_error = 0
        self.passed_on_refusal = 0
        self.passed_on_expiry = 0
        self.marked = 0
        self.dropped_by_budget = 0
        self.refused_items = 0
        self.missing_columns = 0
        self.errors = 0
        self.throttle_errors = 0
        self.swaps = 0
        self.version = 0
        self.load = 1.0
        self.expired = 0
        self.shadow_kept = 0
        self.shadow_disagreed = 0
        self.shadow_errors = 0

    @property
    def offered(self) -> int:
        """Items offered so far."""
        return self.kept + self.dropped

    def snapshot(self) -> dict[str, int | float]:
        """Return all counters by name; offered = kept + dropped holds in every snapshot."""
        values: dict[str, int | float] = dict(vars(self))
        return {"offered": values["kept"] + values["dropped"], **values}

    def to_prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """Return the counters in Prometheus' text format."""
        return prometheus(self.snapshot(), labels or {})


def prometheus(values: Mapping[str, int | float], labels: Mapping[str, str]) -> str:
    """Return named values in Prometheus' text exposition format.

    >>> print(prometheus({"kept": 3, "load": 0.5}, {"stream": "ticks"}), end="")
    # HELP headgate_kept_total Items that passed.
    # TYPE headgate_kept_total counter
    headgate_kept_total{stream="ticks"} 3
    # HELP headgate_load The load that the plan is evaluated at.
    # TYPE headgate_load gauge
    headgate_load{stream="ticks"} 0.5
    """
    tags = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    lines = []
    for name, value in values.items():
        gauge = name in GAUGES
        metric = f"headgate_{name}" if gauge else f"headgate_{name}_total"
        lines += [
            f"# HELP {metric} {HELP[name]}",
            f"# TYPE {metric} {'gauge' if gauge else 'counter'}",
            f"{metric}{{{tags}}} {value!r}" if tags else f"{metric} {value!r}",
        ]
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
