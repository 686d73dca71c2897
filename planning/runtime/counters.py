"""Accounting that adds up: every offered item is either kept or dropped, and counted once."""

from __future__ import annotations

DROPPED = ("dropped_by_plan", "dropped_by_limit", "dropped_by_fallback", "dropped_on_error")
"""The reasons; ``dropped_by_budget`` is none of them: it counts units that a limit cut."""

GAUGES = frozenset({"version", "load", "expired"})


class Counters:
    """Counters of one shedder; they survive every swap.

    Items dropped are counted by reason. ``dropped`` and ``offered`` are sums that are not stored,
    so a reader in another thread never sees one that does not add up, nor one that falls. The
    counts of what passed by reason are parts of ``kept``.

    Examples
    --------
    >>> counters = Counters()
    >>> counters.kept += 2
    >>> counters.dropped_by_plan += 1
    >>> counters.dropped, counters.offered
    (1, 3)
    """

    def __init__(self) -> None:
        self.kept = 0
        self.dropped_by_plan = 0
        self.dropped_by_limit = 0
        self.dropped_by_fallback = 0
        self.dropped_on_error = 0
        self.passed_without_plan = 0
        self.passed_on_error = 0
        self.passed_on_refusal = 0
        self.passed_on_expiry = 0
        self.marked = 0
        self.marks_skipped = 0
        self.offered_units = 0
        self.kept_units = 0
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
    def dropped(self) -> int:
        """Items dropped so far, for whatever reason."""
        return sum(getattr(self, name) for name in DROPPED)

    @property
    def offered(self) -> int:
        """Items offered so far."""
        return self.kept + self.dropped

    def snapshot(self) -> dict[str, int | float]:
        """Return all counters by name; offered = kept + dropped holds in every snapshot."""
        values: dict[str, int | float] = dict(vars(self))
        dropped = sum(values[name] for name in DROPPED)
        return {
            "offered": values["kept"] + dropped,
            "kept": values.pop("kept"),
            "dropped": dropped,
            **values,
        }
