"""Adaptive re-evaluation: which scheduled runs plan anew, and which skip (paper IV-C3).

The interval doubles while the set of attributes to shed stays the same and returns to the original
one when it changes. The state is one small file below the home, written whole or not at all, so it
survives any restart.

A pipeline asks ``due`` before it plans and calls ``record`` with the new plan:

>>> state = start(("A",), now_s=300.0, original_s=300.0)
>>> [state := state.after(now, ("A",)) for now in (600.0, 1200.0)][-1].next_s
2400.0
>>> state.after(2400.0, ("B",)).next_s
2700.0
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from upath import UPath

from planning.artifacts import files
from planning.errors import InvalidInput

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters
    from planning.attributes.plan import Plan
    from planning.families import Definition
    from planning.home import Home

FOLDER = "state"


@dataclass(frozen=True, slots=True)
class Reevaluation:
    """When a stream's set to shed was last looked at, and when it will be again."""

    shed: tuple[str, ...]
    original_s: float  # the original time interval
    interval_s: float  # Δt now
    last_s: float
    longest_s: float = math.inf
    evaluations: int = 1
    changes: int = 0

    @property
    def next_s(self) -> float:
        """The time of the next re-evaluation."""
        return self.last_s + self.interval_s

    def due(self, now_s: float) -> bool:
        """Whether it is time to re-evaluate. A clock set back does not delay it forever."""
        return now_s >= self.next_s or now_s < self.last_s

    def after(self, now_s: float, shed: Sequence[str]) -> Reevaluation:
        """Return the state after a re-evaluation that found ``shed``."""
        same = set(shed) == set(self.shed)
        interval = min(2 * self.interval_s, self.longest_s) if same else self.original_s
        return replace(
            self,
            shed=tuple(shed),
            interval_s=interval,
            last_s=now_s,
            evaluations=self.evaluations + 1,
            changes=self.changes + (0 if same else 1),
        )


def start(
    shed: Sequence[str], now_s: float, original_s: float, longest_s: float = math.inf
) -> Reevaluation:
    """Return the state after the first scheme was made: wait for the original interval."""
    if not 0 < original_s <= longest_s:
        raise InvalidInput(
            f"reevaluate_s must lie in (0, reevaluate_max_s = {longest_s:g}], got {original_s:g}"
        )
    return Reevaluation(tuple(shed), original_s, original_s, now_s, longest_s)


def path_of(home: Home, stream: str) -> UPath:
    """Return where a stream's state is stored below the home."""
    return UPath(home.root) / FOLDER / f"{stream}.reevaluation.json"


def load(home: Home, stream: str) -> Reevaluation | None:
    """Read a stream's state; None if there is none yet or it cannot be read."""
    try:
        document = json.loads(path_of(home, stream).read_text(encoding="utf-8"))
        document["shed"] = tuple(document["shed"])
        return Reevaluation(**document)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def due(home: Home, definition: Definition[Parameters], now_s: float) -> tuple[bool, str]:
    """Return whether a scheduled run should plan, and why.

    True for streams without adaptive re-evaluation, without state, or with parameters other than
    those that the state was made for.
    """
    original = definition.parameters.reevaluate_s
    if original is None:
        return True, "the stream has no adaptive re-evaluation"
    state = load(home, definition.stream)
    if state is None or state.original_s != original:
        return True, "first evaluation"
    if state.due(now_s):
        return True, f"the interval of {state.interval_s:g} s is over"
    return False, (
        f"the set to shed has been the same; next look in {state.next_s - now_s:g} s"
    )


def record(
    home: Home, definition: Definition[Parameters], plan: Plan, now_s: float
) -> Reevaluation | None:
    """Record what a run found; return the new state (None without adaptive re-evaluation)."""
    parameters = definition.parameters
    if parameters.reevaluate_s is None:
        return None
    shed = plan.shed_set(parameters.capacity_ratio)
    state = load(home, definition.stream)
    longest = max(parameters.reevaluate_max_s, parameters.reevaluate_s)
    if state is None or state.original_s != parameters.reevaluate_s:
        state = start(shed, now_s, parameters.reevaluate_s, longest)
    else:
        state = replace(state, longest_s=longest).after(now_s, shed)
    path = path_of(home, definition.stream)
    files.make(path.parent)
    files.replace(path, json.dumps(asdict(state)).encode())
    return state
