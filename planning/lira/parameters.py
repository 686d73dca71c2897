"""LIRA's part of a stream definition, with the paper's defaults (Table 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from planning.errors import Mistake
from planning.families import Definition
from planning.sections import FamilyParameters

COLUMNS = ("object_id", "time", "x", "y", "speed")
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Parameters(FamilyParameters):
    """How shedding regions and update throttlers are made for a stream."""

    query_terms: ClassVar[frozenset[str]] = frozenset({"max_delta", "priority"})
    definition_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "samples": {"expectations": "positions"},
        "gate": {"holdout_by": ["object_id"]},
    }

    regions: int = Field(
        default=250, ge=1, le=1_000_000, description="l: how many shedding regions to make"
    )
    cells: int | None = Field(
        default=None, ge=1, le=8192,
        description="α: cells on each side of the statistics grid; empty: from regions",
    )  # fmt: skip
    lowest_threshold: Positive = Field(
        default=5.0, description="Δmin in metres: the ideal resolution of positions"
    )
    highest_threshold: Positive = Field(
        default=100.0, description="Δmax in metres: the coarsest resolution that still serves"
    )
    segments: int = Field(
        default=95, ge=1, le=4096,
        description="κ: pieces of the update-reduction function (Δmin + k·c)",
    )  # fmt: skip
    fairness_threshold: AtLeastZero = Field(
        default=50.0, description="largest difference of two throttlers, metres; 0 is Uniform Δ"
    )
    throttle_fraction: float = Field(
        default=0.5, gt=0, le=1,
        description="z: the operating point that the regions are made for",
    )  # fmt: skip
    partitioner: Literal["halving", "quadtree", "gridreduce", "grid"] = Field(
        default="halving",
        description="halving: best dyadic rectangles; quadtree: best quad-tree; gridreduce: the "
        "paper's; grid: even regions (Lira-Grid)",
    )
    objective: Literal["nodes", "paper"] = Field(
        default="nodes",
        description="nodes: what lowers the true errors; paper: queries by area, Σ m·Δ",
    )
    neighbour_importance: float = Field(
        default=0.3, ge=0, le=1,
        description="weight of a place just outside a query, relative to inside",
    )  # fmt: skip
    reach_m: Positive | None = Field(
        default=None, description="distance over which that weight fades, metres; empty: Δmax"
    )
    background: float = Field(
        default=0.001, gt=0, le=1,
        description="share of importance spread evenly over nodes; keeps throttlers even",
    )  # fmt: skip
    departure: AtLeastZero | None = Field(
        default=None,
        description="cost of leaving Δmin at all, in metres of threshold; empty: measured, "
        "0: the paper's",
    )
    speed_factor: bool = Field(
        default=False, description="weigh nodes by speed in the budget (Section 3.1.2); can hurt"
    )
    levels: int = Field(
        default=64, ge=2, le=256,
        description="distinct importance-to-weight ratios that nodes can be sent",
    )  # fmt: skip
    highest_speed: Positive = Field(
        default=100.0,
        description="metres per second; a faster move is a jump and carries no velocity",
    )

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Self:
        if not self.lowest_threshold < self.highest_threshold:
            given = f"{self.lowest_threshold:g} and {self.highest_threshold:g}"
            raise Mistake(
                "lowest_threshold", "below highest_threshold", given, at=("lowest_threshold",)
            )
        return self

    def check_definition(self, definition: Definition[Parameters]) -> None:
        """Refuse a definition whose attributes are not positions or whose queries are not areas."""
        missing = [c for c in COLUMNS if c not in definition.attribute_names]
        if missing:
            raise Mistake(
                "a lira stream", f"attributes {', '.join(COLUMNS)}",
                f"none called {', '.join(missing)}", verb="have", at=("attributes",),
            )  # fmt: skip
        for i, query in enumerate(definition.queries.inline):
            at: tuple[str | int, ...] = ("queries", "inline", i)
            check_query(f"queries.inline[{i}]", query.ranges, query.where, at)
            terms = {"max_delta": query.max_delta}
            self.check_terms(f"queries.inline[{i}].", terms, (*at, "max_delta"))

    def check_terms(
        self, label: str, terms: Mapping[str, Any], at: tuple[str | int, ...]
    ) -> None:
        """Refuse a ``max_delta`` that throttlers never go down to."""
        asked = terms.get("max_delta")
        if asked is not None and asked < self.lowest_threshold:
            raise Mistake(
                f"{label}max_delta",
                f"at least lowest_threshold, {self.lowest_threshold:g} m: no throttler is lower",
                f"{asked:g}", "raise it, or lower lowest_threshold", at=at,
            )  # fmt: skip


def check_query(
    field: str, ranges: Collection[str], where: str | None, at: tuple[str | int, ...]
) -> None:
    """Refuse a query that asks about more than places."""
    if where or not set(ranges) <= {"x", "y"}:
        given = "where" if where else ", ".join(ranges)
        remedy = "lira's queries ask about nothing else"
        raise Mistake(field, "ranges of x and y", given, remedy, at=at)
