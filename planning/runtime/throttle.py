"""Throttles: controllers that decide how much of a batch may pass, before it passes.

Before every batch a throttle is told how much arrives and answers with a load; it may also limit
the batch hard (``allowed``). Afterwards it learns how much has passed, and what passed too much is
owed. Amounts are in the unit of the family: items, bytes, or basic windows. Time is passed in, so a
throttle gives the same answers to the same observations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from planning.errors import InvalidInput, check_between
from planning.pacing import UNLIMITED

Load: TypeAlias = "float | Mapping[str, float]"
"""A fraction in [0, 1], or rates by input."""


class Throttle:
    """A throttle; the base class lets everything pass.

    Examples
    --------
    A load that a timetable prescribes:

    >>> class Timetable(Throttle):
    ...     def before(self, now_s, offered):
    ...         self.load = 0.3 if 9 <= now_s / 3600 % 24 < 17 else 1.0
    ...         return self.load
    >>> throttle = Timetable()
    >>> [throttle.before(hour * 3600.0, 100) for hour in (8, 12, 17)]
    [1.0, 0.3, 1.0]
    """

    of_share: ClassVar[bool] = False
    """Whether the load is the share of what arrives, rather than the plan's own parameter."""

    per_input: ClassVar[bool] = False
    """Whether what arrives is told by input, and the load is a rate by input."""

    load: Load = 1.0
    """The load that is in force now."""

    def before(self, now_s: float, offered: float) -> Load:
        """Return the load for a batch that is about to be decided on."""
        return self.load

    def allowed(self) -> int:
        """Return how much of this batch may pass at most."""
        return UNLIMITED

    def after(self, passed: float, cut: float = 0.0) -> None:
        """Record how much passed, and how much the limit cut from what the plan had kept."""


class FixedThrottle(Throttle):
    """A load that something else has decided.

    Examples
    --------
    >>> FixedThrottle(0.5).before(0.0, 1000)
    0.5
    """

    def __init__(self, load: float) -> None:
        self.load = check_between("load", load, 0.0, 1.0, remedy="pass a fraction")


class Observing(Throttle):
    """A throttle that only looks back: ``observe(now_s, offered, kept)`` gives the next load."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.load = inner.load
        self._seen = (0.0, 0.0)

    @classmethod
    def if_needed(cls, throttle: Any) -> Throttle:
        """Return the throttle as it is, or wrapped if it can only look back."""
        if isinstance(throttle, Throttle):
            return throttle
        if callable(getattr(throttle, "observe", None)) and hasattr(throttle, "load"):
            return cls(throttle)
        raise InvalidInput(
            "throttle must be a planning.runtime.Throttle, or have a load and observe(now_s, "
            f"offered, kept), got {type(throttle).__name__}"
        )

    def before(self, now_s: float, offered: float) -> Load:
        """Return the load that the last observation gave."""
        self._seen = (now_s, offered)
        return self.load

    def after(self, passed: float, cut: float = 0.0) -> None:
        """Let it observe the batch."""
        self.load = self.inner.observe(*self._seen, passed)


def positive(field: str, value: float) -> float:
    """Return a parameter that must be a positive number."""
    if not (value > 0 and math.isfinite(value)):
        raise InvalidInput(f"{field} must be a positive number, got {value}")
    return float(value)
