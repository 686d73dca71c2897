"""What a published version promises at a load, and within which interval.

A plan's model knows the samples that it was made from. The gate measures what the plan achieves on
samples that were held out; that is what is promised, at the loads of the gate. Between them the
model is moved by what it missed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from planning.artifacts.manifest import Prediction

MARGIN = 0.025
"""How far from the promise a quality may lie: half an interval."""


class Promise(NamedTuple):
    """The quality to expect, and the interval that it is promised to lie in, if it was measured."""

    quality: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """Return it as people read it.

        >>> str(promise(0.8)), str(Promise(0.8))
        ('0.800 (0.775 to 0.825)', '0.800')
        """
        if self.low is None or self.high is None:
            return f"{self.quality:.3f}"
        return f"{self.quality:.3f} ({self.low:.3f} to {self.high:.3f})"


def promise(quality: float, error: float = 0.0) -> Promise:
    """Return the interval around a quality that was measured on held-out samples.

    A quality whose standard error is above half the margin is not promised: it has no interval.

    >>> promise(0.99), promise(0.99, error=0.03)
    (Promise(quality=0.99, low=0.965, high=1.0), Promise(quality=0.99, low=None, high=None))
    """
    if error > MARGIN / 2.0:
        return Promise(quality)
    low, high = max(0.0, quality - MARGIN), min(1.0, quality + MARGIN)
    return Promise(quality, round(low, 12), round(high, 12))


def promised(
    plan: Any,
    measured: Sequence[Prediction],
    load: float | Mapping[str, float],
    model: float | None = None,
) -> Promise:
    """Return what a plan promises at a load, given what was measured when it was published.

    Parameters
    ----------
    measured
        What was promised at some loads, with what the plan's model had said.
    model
        What the model says here, where it depends on more than the load.

    Examples
    --------
    >>> from planning.examples import demo_plan
    >>> plan = demo_plan("sifter")
    >>> model = plan.predicted_quality(0.5)
    >>> measured = [Prediction(load=0.5, quality=model - 0.1, low=0.0, high=1.0, model=model)]
    >>> [round(plan.predicted_quality(z) - promised(plan, measured, z).quality, 3)
    ...  for z in (0.5, 0.75)]
    [0.1, 0.05]
    """
    model = float(plan.predicted_quality(load)) if model is None else model
    missed = {
        p.load: p.quality - p.model
        for p in measured
        if isinstance(p.model, float) and isinstance(p.load, float)
    }
    if not missed:
        return Promise(model)
    at = float(plan.affordable(load)) if isinstance(load, Mapping) else float(load)
    missed = {1.0: 0.0} | missed
    loads = sorted(missed)
    quality = min(1.0, max(0.0, model + float(np.interp(at, loads, [missed[z] for z in loads]))))
    nearest = min(measured, key=lambda p: (abs(np.mean(p.load) - at), p.load))
    return Promise(quality) if nearest.low is UNSET else promise(quality)
