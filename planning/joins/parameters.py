"""The join family's part of a stream definition, with the paper's defaults (Section 6.1).

A joins stream is a *pair* of streams: one row per sampled tuple, a category attribute says which of
the two it belongs to. A set-valued attribute is spread over several integer attributes (``items``),
-1 standing for "no further item"; a single-valued one is one attribute.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from planning.joins.layout import automatic_sizes
from planning.joins.model import Combine, Condition, ConditionKind, Windows


class Parameters(BaseModel):
    """How a windowed join is planned."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    uses_queries: ClassVar[bool] = False
    definition_defaults: ClassVar[dict[str, dict[str, Any]]] = {
        "samples": {"expectations": "pairs"},
    }

    stream: str = Field(
        default="stream",
        description="Category attribute with two values: which of the two streams.",
    )
    time: str = Field(default="time_s", description="Attribute with the time of arrival, seconds.")
    type: str | None = Field(
        default=None, description="Category attribute with the type of a tuple; none: one type."
    )
    items: tuple[str, ...] = Field(
        default=("item",),
        min_length=1,
        max_length=64,
        description="Integer attributes that hold the items of a tuple's set; -1 is no item.",
    )
    weights: tuple[str, ...] = Field(
        default=(), description="Attributes with the items' weights, in the order of items."
    )
    condition: ConditionKind = Field(default="overlap", description="When two tuples match.")
    threshold: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Common items an overlap needs, or the least inner product.",
    )
    window_s: tuple[float, float] = Field(
        default=(20.0, 20.0), description="Sizes of the two windows, in seconds (w_1, w_2)."
    )
    basic_window_s: float = Field(
        default=1.0, gt=0, description="Size of a basic window, in seconds (b)."
    )
    origin_s: float = Field(
        default=0.0, allow_inf_nan=False, description="A time at which a basic window begins."
    )
    utilities: tuple[float, ...] = Field(
        default=(), description="Utility of each type, in the order of its values; none: all 1."
    )
    size_bounds: tuple[int, ...] | None = Field(
        default=None,
        max_length=15,
        description="Cut types by the size of the set: the largest set of each class but the last; "
        "none: automatic for sets without a type attribute, empty: never.",
    )
    combine: Combine = Field(
        default="max", description="Utility of a match from the utilities of its two tuples."
    )
    load: float = Field(
        default=0.1, gt=0, le=1, description="Operating point: fraction of comparisons made (r)."
    )
    monitor_fraction: float = Field(
        default=0.015,
        ge=0,
        le=0.5,
        description="Share of tuples, and at most of the budget, compared with the whole window.",
    )
    unit_cost_s: float | None = Field(
        default=None, gt=0, description="Seconds per comparison, if known; else it is measured."
    )
    prior_hits: float = Field(
        default=30.0, ge=0, description="Hits that weigh as much as the product model u * p."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        Windows(self.window_s, self.basic_window_s, self.origin_s)
        Condition(self.condition, self.threshold)
        if self.weights and len(self.weights) != len(self.items):
            raise ValueError(
                f"as many weights as items ({len(self.items)}), got {len(self.weights)}"
            )
        if any(not 0 <= u < float("inf") for u in self.utilities):
            raise ValueError(f"utilities that are finite and not negative, got {self.utilities}")
        bounds = self.size_bounds or ()
        if any(b <= a for a, b in zip((-1, *bounds), bounds, strict=False)):
            raise ValueError(f"size_bounds that rise from 0 or more, got {bounds}")
        if len(set(self.items)) != len(self.items):
            raise ValueError("items that are distinct attributes")
        return self

    def check_definition(self, definition: Any) -> None:
        """Refuse attributes that are missing or of the wrong kind."""
        known = {a.name: a for a in definition.attributes}
        named = {"stream": (self.stream,), "time": (self.time,), "items": self.items}
        named |= {"type": (self.type,) if self.type else (), "weights": self.weights}
        for field, names in named.items():
            unknown = [name for name in names if name not in known]
            if unknown:
                raise ValueError(
                    f"parameters.{field} among the attributes {', '.join(known)}, "
                    f"got {', '.join(unknown)}"
                )
        stream = known[self.stream]
        if stream.type != "category" or len(stream.values) != 2:
            given = f"{stream.type} with {', '.join(stream.values) or 'none'}"
            raise ValueError(
                f"attribute {stream.name} must be a category with two values, the two streams, "
                f"got {given}"
            )
        if self.type and known[self.type].type != "category":
            given = known[self.type].type
            raise ValueError(
                f"attribute {self.type} must be a category whose values are the types, got {given}"
            )
        types = len(known[self.type].values) if self.type else 1
        if self.utilities and len(self.utilities) != types:
            raise ValueError(
                f"parameters.utilities one per type ({types}), got {len(self.utilities)}"
            )
        if self.condition == "overlap" and self.threshold > len(self.items):
            raise ValueError(
                f"parameters.threshold at most {len(self.items)}, the number of items: nothing "
                f"could match otherwise, got {self.threshold:g}"
            )
        if known[self.time].type == "category":
            raise ValueError(f"attribute {self.time} must be a number, the time, got a category")
        for name in self.items:
            if known[name].type != "int":
                raise ValueError(
                    f"attribute {name} must be an int, an item or -1 for none, "
                    f"got {known[name].type}"
                )
        if self.time in self.items:
            raise ValueError(f"parameters.items other attributes than the time, got {self.time}")

    @property
    def windows(self) -> Windows:
        """The windows and their grid."""
        return Windows(self.window_s, self.basic_window_s, self.origin_s)

    @property
    def join_condition(self) -> Condition:
        """The join condition."""
        return Condition(self.condition, self.threshold)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bounds of the size classes that types are cut into; empty for none."""
        if self.size_bounds is not None:
            return tuple(self.size_bounds)
        return () if self.type else automatic_sizes(len(self.items), self.join_condition)

    @property
    def single_valued(self) -> bool:
        """Whether tuples hold one value each."""
        return len(self.items) == 1
