"""LIRA's part of a stream definition, with the paper's defaults (Table 2)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

COLUMNS = ("object_id", "time", "x", "y", "speed")


class Parameters(BaseModel):
    """How shedding regions and update throttlers are made for a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    definition_defaults: ClassVar[dict[str, dict[str, Any]]] = {
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
    lowest_threshold: float = Field(
        default=5.0, gt=0, allow_inf_nan=False,
        description="Δmin in metres: the ideal resolution of positions",
    )  # fmt: skip
    highest_threshold: float = Field(
        default=100.0, gt=0, allow_inf_nan=False,
        description="Δmax in metres: the coarsest resolution that still serves",
    )  # fmt: skip
    segments: int = Field(
        default=95, ge=1, le=4096,
        description="κ: pieces of the update-reduction function (Δmin + k·c)",
    )  # fmt: skip
    fairness_threshold: float = Field(
        default=50.0, ge=0, allow_inf_nan=False,
        description="largest difference of two throttlers, metres; 0 is Uniform Δ",
    )  # fmt: skip
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
    reach_m: float | None = Field(
        default=None, gt=0, allow_inf_nan=False,
        description="distance over which that weight fades, metres; empty: Δmax",
    )  # fmt: skip
    background: float = Field(
        default=0.001, gt=0, le=1,
        description="share of importance spread evenly over nodes; keeps throttlers even",
    )  # fmt: skip
    departure: float | None = Field(
        default=None, ge=0, allow_inf_nan=False,
        description="cost of leaving Δmin at all, in metres of threshold; empty: measured, "
        "0: the paper's",
    )  # fmt: skip
    speed_factor: bool = Field(
        default=False, description="weigh nodes by speed in the budget (Section 3.1.2); can hurt"
    )
    levels: int = Field(
        default=64, ge=2, le=256,
        description="distinct importance-to-weight ratios that nodes can be sent",
    )  # fmt: skip
    highest_speed: float = Field(
        default=100.0, gt=0, allow_inf_nan=False,
        description="metres per second; a faster move is a jump and carries no velocity",
    )  # fmt: skip

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Self:
        if not self.lowest_threshold < self.highest_threshold:
            raise ValueError(
                "lowest_threshold below highest_threshold, got "
                f"{self.lowest_threshold:g} and {self.highest_threshold:g}"
            )
        return self

    def check_definition(self, definition: Any) -> None:
        """Refuse a definition whose attributes are not positions."""
        missing = [c for c in COLUMNS if c not in {a.name for a in definition.attributes}]
        if missing:
            raise ValueError(
                f"a lira stream with attributes {', '.join(COLUMNS)}, "
                f"got none called {', '.join(missing)}"
            )
        for i, query in enumerate(definition.queries.inline):
            if query.where or not set(query.ranges) <= {"x", "y"}:
                given = "where" if query.where else ", ".join(query.ranges)
                raise ValueError(
                    f"queries.inline[{i}] ranges of x and y, which are all that lira's queries ask "
                    f"about, got {given}"
                )
