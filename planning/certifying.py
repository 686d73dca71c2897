"""Certificates: a second opinion on a plan, from OR-Tools and the statistics alone.

A family's ``program`` room builds its problem as an OR-Tools model and compares a plan's settings
with it, load by load. Objectives are qualities: larger is better, and 1 means nothing lost. What a
check may find:

- the setting breaks a constraint, or is not worth what the plan claims: the plan is wrong;
- the setting is better than the solver's bound: the plan or the model is wrong;
- the solver found a better setting than a plan that calls itself exact: the plan is wrong;
- otherwise the dual bound says how far from the best the setting can be at most.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

from planning.errors import PlanningError

TOLERANCE = 1e-6
"""Differences in quality, and in parts of a budget, that are rounding."""

NOT_CERTIFIED = "not certified"

Load = float | tuple[float, ...] | Mapping[str, float]


class Contradiction(PlanningError):
    """A certificate contradicts the plan, which must not be published."""


@dataclass(frozen=True, slots=True)
class Check:
    """One setting of a plan against its family's program."""

    load: Load
    objective: float
    """Quality of the plan's setting, reckoned from the statistics."""
    claimed: float
    """Quality that the plan predicts."""
    best: float
    """Quality of the best setting that the solver found."""
    bound: float
    """No setting has a higher quality: the solver's dual bound."""
    violation: float = 0.0
    """By how much the setting breaks the constraint ``broken``, as a part of it."""
    broken: str = ""
    solver: str = "GLOP"
    tolerance: float = TOLERANCE
    """What the solver's own tolerance makes of a quality, where that is coarser."""
    admitted: float = 0.0
    """What the plan admits to lose by interpolating, as a part of full quality."""

    @property
    def gap(self) -> float:
        """How much better than the setting anything can be, as a part of the bound."""
        return max(0.0, self.bound - self.objective) / max(abs(self.bound), TOLERANCE)


class Certifier(Protocol):
    """A family's program for one plan, ready to be asked load by load."""

    @property
    def scope(self) -> str:
        """What is certified: ``optimal for these 48 regions`` leaves open how they were chosen."""

    @property
    def loads(self) -> Sequence[Load]:
        """Loads that cover the plan, the most telling first."""

    def check(self, load: Load, limit_s: float) -> Check:
        """Compare the plan's setting at a load with the solver's, within a time limit."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the checks of a plan came to."""

    status: str
    """``optimal``, ``within <gap>`` or ``not certified``."""
    scope: str
    reason: str
    gap: float
    loads: int
    of: int
    checks: tuple[Check, ...]
    solver: str
    seconds: float

    @property
    def violation(self) -> float:
        """The worst violation of a constraint."""
        return max((check.violation for check in self.checks), default=0.0)


def certify(certifier: Certifier, solver_status: str, limit_s: float) -> Certificate:
    """Check a plan at the loads that cover it, as far as the time allows.

    Each solution gets the time that is left; when it is over, a moment each until one load has a
    bound, because compiling may have taken the time of the first. Raises
    :class:`Contradiction` with both values where a check contradicts the plan.
    """
    begun = time.monotonic()
    checks: list[Check] = []
    unbounded: list[str] = []
    for load in certifier.loads:
        left = limit_s - (time.monotonic() - begun)
        if checks and left <= 0.0:
            break
        check = certifier.check(load, max(left, 0.05))
        contradict(check, solver_status)
        if math.isfinite(check.bound):
            checks.append(check)
        else:
            unbounded.append(f"{check.solver} reached no bound at load {at(load)}")
    seconds = time.monotonic() - begun
    solvers = ", ".join(sorted({check.solver for check in checks}))
    gap = max((check.gap for check in checks), default=1.0)
    coarse = max((check.tolerance for check in checks), default=TOLERANCE)
    status, reason = f"within {gap:.3g}", "; ".join(unbounded[:1])
    if len(checks) + len(unbounded) < len(certifier.loads):
        reason = f"the time limit of {limit_s:g} s ended the checks"
    if not checks:
        status, reason = NOT_CERTIFIED, reason or "no load could be checked"
    elif gap <= coarse:
        status = "optimal"
    return Certificate(
        status=status,
        scope=certifier.scope,
        reason=reason,
        gap=gap,
        loads=len(checks),
        of=len(certifier.loads),
        checks=tuple(checks),
        solver=f"OR-Tools {version('ortools')} {solvers}".strip(),
        seconds=round(seconds, 3),
    )


def contradict(check: Check, solver_status: str) -> None:
    """Raise :class:`Contradiction` if a check and a plan cannot both be right.

    >>> contradict(Check(0.5, objective=0.8, claimed=0.8, best=0.9, bound=0.9), "exact")
    Traceback (most recent call last):
    ...
    planning.certifying.Contradiction: the certificate contradicts the plan at load 0.5: its \
setting has quality 0.80000000, GLOP found one with 0.90000000; report this with its statistics
    """
    slack = max(check.tolerance, TOLERANCE)
    found = ""
    if not all(map(math.isfinite, (check.objective, check.claimed, check.violation))):
        found = f"it claims quality {check.claimed}, its setting has {check.objective}"
    elif check.violation > slack:
        found = f"its setting breaks {check.broken} by {check.violation:.3g} of it"
    elif abs(check.objective - check.claimed) > slack:
        found = f"it claims quality {check.claimed:.8f}, its setting has {check.objective:.8f}"
    elif check.objective > check.bound + slack:
        found = (
            f"its setting has quality {check.objective:.8f}, above the bound {check.bound:.8f} of "
            f"{check.solver}"
        )
    elif check.best - check.objective > slack + max(
        check.admitted, _allowed(solver_status) * abs(check.best)
    ):
        found = (
            f"its setting has quality {check.objective:.8f}, {check.solver} found one with "
            f"{check.best:.8f}"
        )
    if found:
        raise Contradiction(
            f"the certificate contradicts the plan at load {at(check.load)}: {found}; report this "
            "with its statistics"
        )


def _allowed(solver_status: str) -> float:
    """Return by how much a plan admits to be worse than the best.

    >>> _allowed("exact"), _allowed("within 0.1"), _allowed("within 0.1 expected")
    (0.0, 0.1, 1.0)
    """
    words = solver_status.split()
    if words[:1] == ["exact"]:
        return 0.0
    return float(words[1]) if words[:1] == ["within"] and len(words) == 2 else 1.0


def at(load: Any) -> str:
    """Return a load as people read it.

    >>> at(0.5), at((0.25, 3.0)), at({"i": 2.0})
    ('0.5', '(0.25, 3)', '(i 2)')
    """
    if isinstance(load, Mapping):
        return f"({', '.join(f'{name} {rate:.6g}' for name, rate in load.items())})"
    if isinstance(load, Sequence):
        return f"({', '.join(f'{z:.6g}' for z in load)})"
    return f"{load:.6g}"
