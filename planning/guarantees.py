"""Guarantees: what a plan keeps up for a part of its stream, and from which load on.

The meaning is the same in every family. At every load where all guarantees can be met, they are.
Below, the most important priority comes first (a higher number is more important), and the
guarantees of one priority fall short together: the largest shortfall, as a share of what was asked
for, is as small as can be. What is left serves the less important priorities and then the quality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

NOWHERE = 2.0
"""``holds_from`` of a guarantee that holds at no load."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One guarantee, as the definition asks for it, and the load down to which it holds.

    >>> str(Guarantee("query alerts", "min_completeness", 0.95, priority=1, holds_from=0.21))
    'query alerts: min_completeness 0.95 down to load 0.21'
    """

    name: str
    """What it protects: ``query alerts``, ``tenant acme``, ``output fraud``."""
    limit: str
    """The field of the definition that asks for it."""
    value: float
    priority: int
    holds_from: float
    """The least load from which on it holds at every load."""

    def __str__(self) -> str:
        """Return it as people read it."""
        asked = f"{self.name}: {self.limit} {self.value:g}"
        if self.holds_from > 1.0:
            return f"{asked} at no load"
        return f"{asked} down to load {self.holds_from:.3g}"


@runtime_checkable
class Guarantees(Protocol):
    """Optional: a plan that keeps guarantees."""

    @property
    def guarantees(self) -> Sequence[Guarantee]:
        """The guarantees, the most important first."""

    def kept(self, load: float) -> Sequence[float]:
        """Return what the plan predicts for each guarantee at a load, in the limit's unit."""
