"""What the paper's methods cannot promise, and how they say so."""

from __future__ import annotations

import numpy as np

from planning.arrays import BoolArray
from planning.errors import InfeasiblePlan
from planning.fit.program import Program


class MethodLimit(InfeasiblePlan):
    """A method of the paper would break its error bound, or its size limit, on this network."""


def check_plain(program: Program, method: str) -> None:
    """Refuse networks beyond the paper's objective: its bounds are on one weighted sum."""
    network = program.network
    reasons = []
    if program.windowed:
        reasons.append("windowed aggregates (dropping whole windows is not proportional)")
    if any(o.minimum > 0 for o in network.outputs):
        reasons.append("minimum throughputs")
    if len({o.priority for o in network.outputs}) > 1:
        reasons.append("priorities")
    if reasons:
        raise MethodLimit(
            f"method must be exact (regions or simplex) for a network with {' and '.join(reasons)},"
            f" got {method}"
        )


def valued_inputs(program: Program) -> BoolArray:
    """Return which inputs contribute to any output.

    The others are dropped whole as soon as anything must be shed: their relative error has no
    meaning, and a quadtree over them would never end.
    """
    return np.asarray(program.full_throughput > 1e-15 * max(program.full_throughput.max(), 1e-300))
