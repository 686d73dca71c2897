"""A plan is tried before it is in force: built, set to several loads, and run on made-up items.

All of it happens on the client's thread. What fails here is a refused plan, and what has to be
compiled is compiled here, so that the data path only takes over a finished shedder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planning import batches, families, keys
from planning.arrays import FloatArray
from planning.errors import ArtifactError
from planning.families import ChargesMarks, CountsInputs, PassesFraction, Plan, Shedder

LOADS = (0.0, 0.05, 0.3, 0.5, 0.8, 1.0)
ROWS = 64
SHARES = np.linspace(0.0, 1.0, 33)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A shedder that is ready, and how much its plan lets pass at each of :data:`SHARES`."""

    shedder: Shedder
    passed: FloatArray | None

    def load_for(self, share: float) -> float:
        """Return the load at which the plan lets this share pass."""
        if self.passed is None or share >= 1.0:
            return share
        return float(np.interp(share, self.passed, SHARES))


def prepare(
    plan: Plan, family: str, load: Any = 1.0, *, options: Mapping[str, Any] | None = None
) -> Prepared:
    """Build a shedder for a plan, having tried another one like it.

    Raises whatever is wrong with the plan. The shedder returned has seen no item.

    >>> from planning.examples import demo_plan
    >>> prepare(demo_plan("sifter"), "sifter", 0.5).shedder.load
    0.5
    """
    build = families.family(family).room("shedder").Shedder
    given = dict(options or {})
    keys.warm()
    attempt(build(plan, 1.0, **given), build(plan, 1.0, **given))
    return Prepared(build(plan, load, **given), passed_table(plan))


def passed_table(plan: Plan) -> FloatArray | None:
    """Return how much a plan lets pass at each of :data:`SHARES`, if it can say so."""
    if not isinstance(plan, PassesFraction):
        return None
    # A plan may waver by rounding; the table must not.
    passed = np.maximum.accumulate([plan.passed_fraction(float(z)) for z in SHARES])
    if not np.isfinite(passed).all():
        raise ArtifactError(f"the plan's passed_fraction must be numbers, got {passed}")
    return passed


def attempt(shedder: Shedder, successor: Shedder) -> None:
    """Let a shedder do all that it may be asked for; its successor takes over at the end."""
    columns = shedder.probe(ROWS)
    parts = shedder.parts
    whole = batches.read(columns, shedder.schema)
    draws = keys.draws(keys.hashes([np.arange(ROWS)]))
    loads: tuple[Any, ...] = (*LOADS, *_rates(shedder, whole))
    for load in loads:
        shedder.set_load(load)
        _checked(shedder.decide(whole), ROWS, parts)
        _checked(shedder.decide(whole, most=ROWS // 4), ROWS, parts, ROWS // 4)
        _checked(shedder.decide(whole, draws=draws), ROWS, parts)
    if shedder.WEIGHTED:
        shedder.decide(whole, weighted=True)
        shedder.decide(whole, draws=draws, weighted=True)
    if isinstance(shedder, ChargesMarks):
        marks = np.arange(ROWS) % 8 == 0
        _checked(shedder.decide_marked(whole, marks, ahead=7), ROWS, parts)
    for form in forms(columns):
        _shaped(shedder.offer(form), ROWS, parts)
    one = {name: column[0] for name, column in columns.items()}
    shedder.offer_one(one)
    shedder.offer_one(tuple(one.values()))
    successor.adopt(shedder)
    _shaped(successor.offer(columns), ROWS, parts)


def forms(columns: Mapping[str, Any]) -> Iterator[Any]:
    """Yield columns in every form that can arrive: frames only of libraries that are loaded."""
    named = {name: np.asarray(column) for name, column in columns.items()}
    rows = list(zip(*(column.tolist() for column in named.values()), strict=True))
    yield named
    yield {name: column.tolist() for name, column in named.items()}
    yield rows
    yield [dict(zip(named, row, strict=True)) for row in rows]
    yield np.array(rows, dtype=object)
    if all(column.dtype.kind in "fiub" for column in named.values()):
        yield np.column_stack(list(named.values()))
    if "pyarrow" in sys.modules:
        arrow = sys.modules["pyarrow"]
        table = arrow.table({name: column.tolist() for name, column in named.items()})
        yield table
        yield table.to_batches()[0]
    if "pandas" in sys.modules:
        yield sys.modules["pandas"].DataFrame(named)
    if "polars" in sys.modules:
        yield sys.modules["polars"].DataFrame(
            {name: column.tolist() for name, column in named.items()}
        )


def _rates(shedder: Shedder, batch: batches.Batch) -> tuple[Mapping[str, float], ...]:
    if not isinstance(shedder, CountsInputs):
        return ()
    return ({name: float(count) for name, count in shedder.arrivals(batch).items()},)


def _checked(decision: Any, rows: int, parts: tuple[str, ...], most: int | None = None) -> None:
    _shaped(decision.keep, rows, parts)
    if not 0 <= decision.units or (most is not None and decision.units > most):
        raise ArtifactError(f"at most {most} units were to pass, got {decision.units}")


def _shaped(keep: Any, rows: int, parts: tuple[str, ...]) -> None:
    shape = (rows, len(parts)) if parts else (rows,)
    if keep.dtype != np.bool_ or keep.shape != shape:
        raise ArtifactError(f"a mask of booleans {shape} was due, got {keep.dtype} {keep.shape}")
