"""A node in miniature: what a plan does to a stream, through the code that nodes run.

The gate, the trial and the families' ``simulate`` offer samples to a :class:`Rehearsal`, which is
the data path of a running shedder without store, threads and wall clock. What a node would count
as an error or a refusal is raised here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from planning import families
from planning.arrays import BoolArray, Columns, FloatArray
from planning.errors import PlanningError
from planning.families import Plan
from planning.runtime.data_path import DataPath
from planning.runtime.preparing import Prepared, passed_table
from planning.runtime.throttle import FixedThrottle, Throttle

SIZES = (1, 100, 2_000, 20_000)
"""Batch sizes that are tried."""
USUAL = 2_000
"""The batch size that a quality is stated for."""
FEW = 2_000
"""Most items that are offered one by one."""

Load: TypeAlias = "float | tuple[float, ...]"
"""A load, or loads that follow one another over equal stretches of the stream."""


class _NoStore:
    """A source of plans that never expire."""

    stream = "rehearsal"
    expired = False
    fallback = "keep"

    def report_swap(self) -> None:
        """Nobody waits for it."""


class Rehearsal:
    """The data path of a node that follows a plan.

    Parameters
    ----------
    load
        The load, when there is no throttle; ``offer`` may change it.
    throttle
        Decides the load of every batch, by the clock ``now_s``, which the caller moves.
    options
        Of the family's shedder.

    Examples
    --------
    >>> from planning.examples import demo_plan, demo_samples
    >>> node = Rehearsal(demo_plan("sifter"), "sifter", load=0.5)
    >>> samples = demo_samples("sifter", batch=1)
    >>> [round(float(node.offer(samples, load).mean()), 2) for load in (None, 0.2)]
    [0.5, 0.2]
    """

    def __init__(
        self,
        plan: Plan,
        family: str,
        load: float = 1.0,
        *,
        throttle: Throttle | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.now_s = 0.0
        self.throttle = FixedThrottle(load) if throttle is None else throttle
        self._build = families.family(family).room("shedder").Shedder
        self._options = dict(options or {})
        self._version = 0
        self.path = DataPath(
            _NoStore(),
            self.throttle,
            None,
            None,
            fallback="uniform",
            parts=(),
            item_units=None,
            key=(),
            salt=None,
            clock=lambda: self.now_s,
        )
        self.put(plan)

    @property
    def shedder(self) -> Any:
        """The family's shedder in force."""
        return self.path.shedder

    def put(self, plan: Plan) -> None:
        """Put a plan in force, as a node does when a new version arrives."""
        self._version += 1
        passed = passed_table(plan) if self.throttle.of_share else None
        load = self.throttle.load
        shedder = self._build(plan, 1.0 if isinstance(load, Mapping) else load, **self._options)
        self.path.put(self._version, Prepared(shedder, passed))

    def offer(self, batch: Any, load: float | None = None) -> BoolArray:
        """Decide on a batch, from now on at another load if one is given."""
        if load is not None:
            self.throttle.load = load
        keep = self.path.offer(batch)
        self._check()
        return keep

    def _check(self) -> None:
        counters = self.path.counters
        if counters.errors or counters.throttle_errors:
            raise PlanningError(f"the shedder failed on samples: {self.path.trouble}")
        if counters.refused_items:
            raise PlanningError(f"the shedder refused samples: {self.path.last_refusal}")


def shed(
    plan: Plan,
    family: str,
    columns: Columns,
    load: Load,
    *,
    size: int = USUAL,
    options: Mapping[str, Any] | None = None,
) -> BoolArray:
    """Offer a stream in batches; return the mask of what passes.

    >>> from planning.examples import demo_plan, demo_samples
    >>> samples = demo_samples("sifter", batch=1)
    >>> round(float(shed(demo_plan("sifter"), "sifter", samples, (0.2, 1.0), size=100).mean()), 2)
    0.6
    """
    rows = len(next(iter(columns.values())))
    at = along(load, rows)
    node = Rehearsal(plan, family, float(at[0]) if rows else 1.0, options=options)
    return np.concatenate(
        [node.offer(batch, float(at[start])) for start, batch in batches(columns, size)]
    )


def batches(columns: Columns, size: int) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Cut columns into batches of ``size`` rows, each with the number of its first row."""
    rows = len(next(iter(columns.values())))
    for start in range(0, rows, size):
        yield start, {name: values[start : start + size] for name, values in columns.items()}


def along(load: Load, rows: int) -> FloatArray:
    """Return the load at every row.

    >>> along((0.5, 1.0), 4).tolist(), along(0.3, 2).tolist()
    ([0.5, 0.5, 1.0, 1.0], [0.3, 0.3])
    """
    steps = np.atleast_1d(np.asarray(load, dtype=np.float64))
    return steps[np.arange(rows) * len(steps) // max(rows, 1)]


def changing(loads: Sequence[float]) -> tuple[float, ...]:
    """Return loads that change as on a bad day: jumps, a little jitter, and spells at 1.

    >>> changing((0.25, 0.5))[:6]
    (0.25, 1.0, 0.5, 0.255, 0.49, 1.0)
    """
    rising = sorted(loads)
    jitter = [min(1.0, z * f) for z, f in zip(rising, [1.02, 0.98] * len(rising), strict=False)]
    return (*_between(rising), *jitter, 1.0, *_between(rising[::-1]), *jitter[::-1])


def _between(loads: Sequence[float]) -> Iterator[float]:
    """Yield loads with a spell at 1 in the middle."""
    for k, load in enumerate(loads):
        if k == len(loads) // 2:
            yield 1.0
        yield load


def by_size(rows: int, quality: Callable[[int, int], float]) -> dict[str, float]:
    """Return a plan's quality by batch size.

    Parameters
    ----------
    rows
        Items of the stream.
    quality
        The quality at a batch size, on so many of the first items.

    Examples
    --------
    Size 1 is tried on few items; what differs there from the usual size is added to the quality on
    all of them.

    >>> by_size(100_000, lambda size, rows: 0.5 + 0.1 * (size == 1) + 1e-6 * rows)
    {'1': 0.7, '100': 0.6, '2000': 0.6, '20000': 0.6}
    """
    tried = {str(size): quality(size, rows) for size in SIZES if size > 1 or rows <= FEW}
    if rows > FEW:
        few = quality(1, FEW) - quality(USUAL, FEW)
        tried = {"1": round(tried[str(USUAL)] + few, 12)} | tried
    return tried
