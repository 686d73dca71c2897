"""Every error Headgate raises on purpose.

A message names the field, what is allowed, what it got, and what to do about it. All errors derive
from :class:`PlanningError`, so a caller can catch one type; those about bad values are also
``ValueError``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


class PlanningError(Exception):
    """Base of all errors raised by Headgate."""


class InvalidInput(PlanningError, ValueError):
    """A value is outside what is allowed."""


class Mistake(InvalidInput):
    """A value outside what is allowed, split into parts that a page or a form can show separately.

    Parameters
    ----------
    field
        What people call it: ``query cheap``, ``cost of operator f``, ``gate.holdout_by``.
    allowed, got, remedy
        What is allowed, what was given, and what to do.
    verb
        ``field must <verb> allowed``.
    at
        Where it is, as steps below the part of the definition that was checked:
        ``("queries", "inline", 0, "ranges")``. Empty: the part itself.

    Examples
    --------
    >>> raise Mistake("cost of operator f", "a number >= 0", "-1", at=("operators", 2, "cost"))
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: cost of operator f must be a number >= 0, got -1
    """

    def __init__(
        self,
        field: str,
        allowed: str,
        got: str,
        remedy: str = "",
        *,
        verb: str = "be",
        at: tuple[str | int, ...] = (),
    ) -> None:
        self.field, self.allowed, self.got, self.remedy = field, allowed, got, remedy
        self.verb, self.at = verb, at
        super().__init__(_sentence(field, verb, allowed, got, remedy))


class StatisticsError(InvalidInput):
    """Samples or statistics from which no sound plan can be made."""


class InfeasiblePlan(PlanningError):
    """No plan meets the constraints; the message says how far it gets."""


class ArtifactError(PlanningError):
    """A published artifact cannot be trusted: corrupt, truncated, unsigned or of the wrong kind."""


class SignatureError(ArtifactError):
    """The manifest has no signature by a trusted key."""


class StoreError(PlanningError):
    """The artifact store cannot be reached or written."""


class NoPlan(PlanningError, LookupError):
    """The stream has no published plan, or no such version."""


class BatchRejected(PlanningError):
    """A batch of samples broke a batch-level rule; nothing may be published from it."""


class MissingExtra(PlanningError, ImportError):
    """An optional dependency is absent; the message gives the command that installs it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a stream definition, and where it is; line 0 if it has no line.

    >>> print(Problem("ticks.yaml", 7, "gate.holdout", "a number in (0, 1)", "1.5"))
    ticks.yaml:7: gate.holdout must be a number in (0, 1), got 1.5
    """

    file: str
    line: int
    field: str
    allowed: str
    got: str
    remedy: str = ""
    verb: str = "be"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {_sentence(self.field, self.verb, self.allowed, self.got, self.remedy)}"


class DefinitionError(InvalidInput):
    """A stream definition with mistakes: all of them, not only the first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def _sentence(field: str, verb: str, allowed: str, got: str, remedy: str) -> str:
    text = f"{field} must {verb} {allowed}, got {got}"
    return f"{text}; {remedy}" if remedy else text


def check_between(
    field: str, value: float, low: float, high: float, *, remedy: str = "", open_low: bool = False
) -> float:
    """Return ``value`` as float if it is in [low, high] (or (low, high] with ``open_low``).

    >>> check_between("throttle_fraction", 0.5, 0, 1)
    0.5
    >>> check_between("throttle_fraction", 1.4, 0, 1, remedy="pass a fraction, not a percentage")
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: throttle_fraction must lie in [0, 1], got 1.4; pass a fraction, \
not a percentage
    >>> check_between("load", "half", 0, 1)
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: load must be a number, got 'half'
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Mistake(field, "a number", repr(value)) from None
    above = number > low if open_low else number >= low
    if math.isnan(number) or not above or number > high:
        bracket = "(" if open_low else "["
        allowed = f"in {bracket}{low:g}, {high:g}]"
        raise Mistake(field, allowed, f"{number:g}", remedy, verb="lie")
    return number
