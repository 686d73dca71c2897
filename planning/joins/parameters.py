"""The join family's part of a stream definition, with the paper's defaults (Section 6.1).

A joins stream is a *pair* of streams: one row per sampled tuple; a category attribute says which of
the two it belongs to. A set-valued attribute is spread over several attributes (``items``):
integers, with -1 for "no further item", or texts, with ""; a single-valued one is one attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from planning.errors import Mistake
from planning.families import Definition
from planning.joins.layout import automatic_sizes
from planning.joins.model import (
    Combine,
    Condition,
    ConditionKind,
    Windows,
    combine_utilities,
)
from planning.sections import FamilyParameters, Fraction, Section


class Share(Section):
    """A guarantee: how much of some matches' utility is found wherever the load allows.

    Examples
    --------
    >>> Share(min_share=0.95).priority
    0
    """

    min_share: Fraction = Field(0.0, description="Least share of their utility that is found.")
    priority: int = Field(0, description="Which guarantee is met first: the higher.")


class Parameters(FamilyParameters):
    """How a windowed join is planned."""

    uses_queries: ClassVar[bool] = False
    definition_defaults: ClassVar[dict[str, dict[str, Any]]] = {
        "samples": {"expectations": "pairs"},
        "gate": {"holdout_from": "end"},
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
        description="Attributes that hold the items of a tuple's set: integers, where -1 is no "
        "item, or categories and texts, where the empty one is none.",
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
    min_share: Fraction = Field(
        default=0.0, description="Least share of the utility of all matches of the condition."
    )
    priority: int = Field(default=0, description="Priority of min_share: higher is met first.")
    types: dict[str, Share] = Field(
        default_factory=dict,
        description="By value of the type attribute: min_share of the matches in which a tuple of "
        "the type takes part, and its priority.",
    )
    window_of: dict[str, Share] = Field(
        default_factory=dict,
        description="By stream: min_share of the matches that are found in its window, when a "
        "tuple of the other stream arrives, and its priority.",
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
            allowed = f"{len(self.items)} attributes, one per item"
            raise Mistake("weights", allowed, str(len(self.weights)), at=("weights",))
        if any(not 0 <= u < float("inf") for u in self.utilities):
            given = str(self.utilities)
            raise Mistake("utilities", "finite and not negative", given, at=("utilities",))
        bounds = self.size_bounds or ()
        if any(b <= a for a, b in zip((-1, *bounds), bounds, strict=False)):
            given, at = str(bounds), ("size_bounds",)
            raise Mistake("size_bounds", "from 0 or more", given, verb="rise", at=at)
        if len(set(self.items)) != len(self.items):
            raise Mistake("items", "distinct attributes", ", ".join(self.items), at=("items",))
        return self

    @property
    def clock(self) -> str | None:
        """The time of arrival."""
        return self.time

    @property
    def shortest_stretch(self) -> float:
        """Four windows: the first one only fills them."""
        return 4.0 * max(self.window_s)

    def check_definition(self, definition: Definition[Parameters]) -> None:
        """Refuse attributes that are missing or of the wrong kind."""
        self._check_names(definition.attribute_names)
        known = {a.name: a for a in definition.attributes}
        stream = known[self.stream]
        if stream.type != "category" or len(stream.values) != 2:
            given = f"{stream.type} with {', '.join(stream.values) or 'none'}"
            allowed = "a category with two values, the two streams"
            raise _attribute(definition, self.stream, allowed, given)
        if self.type and (kind := known[self.type].type) != "category":
            raise _attribute(definition, self.type, "a category whose values are the types", kind)
        types = len(known[self.type].values) if self.type else 1
        if self.utilities and len(self.utilities) != types:
            raise _parameter("utilities", f"one per type ({types})", str(len(self.utilities)))
        self._check_guarantees(stream.values, known[self.type].values if self.type else ())
        most = len(self.items)
        if self.condition == "overlap" and self.threshold > most:
            allowed = f"at most {most}, the number of items: nothing could match otherwise"
            raise _parameter("threshold", allowed, f"{self.threshold:g}")
        if known[self.time].type == "category":
            raise _attribute(definition, self.time, "a number, the time", "a category")
        of_texts = known[self.items[0]].type not in ("int", "float")
        for name in self.items:
            kind = known[name].type
            if of_texts and kind in ("int", "float"):
                raise _attribute(definition, name, "a text like the first item", kind)
            if not of_texts and kind != "int":
                raise _attribute(definition, name, "an int, an item or -1 for none", kind)
        if self.time in self.items:
            raise _parameter("items", "other attributes than the time", self.time)

    def _check_guarantees(self, streams: Sequence[str], types: Sequence[str]) -> None:
        """Refuse guarantees of what is not there, or of matches that are worth nothing."""
        worth = combine_utilities(self.utilities or (1.0,) * len(types), self.combine)
        for field, known in (("types", types), ("window_of", streams)):
            for name, share in getattr(self, field).items():
                at = ("parameters", field, name)
                if name not in known:
                    allowed = f"among {', '.join(known) or 'the values of parameters.type (none)'}"
                    raise Mistake(f"parameters.{field}", allowed, name, at=at)
                if field == "types" and share.min_share and not worth[known.index(name)].any():
                    allowed = "0 for a type whose matches have no utility"
                    got, remedy = f"{share.min_share:g}", "raise its utility"
                    raise Mistake(f"parameters.types.{name}.min_share", allowed, got, remedy, at=at)

    def _check_names(self, known: tuple[str, ...]) -> None:
        """Refuse names that are not attributes."""
        named = {"stream": (self.stream,), "time": (self.time,), "items": self.items}
        named |= {"type": (self.type,) if self.type else (), "weights": self.weights}
        for field, names in named.items():
            unknown = [name for name in names if name not in known]
            if unknown:
                allowed = f"among the attributes {', '.join(known)}"
                raise _parameter(field, allowed, ", ".join(unknown))

    def parts(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the basic windows that a tuple may be compared with."""
        return self.windows.names

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


def _parameter(field: str, allowed: str, given: str) -> Mistake:
    return Mistake(f"parameters.{field}", allowed, given, at=("parameters", field))


def _attribute(definition: Definition[Parameters], name: str, allowed: str, given: str) -> Mistake:
    at = ("attributes", definition.attribute_names.index(name))
    return Mistake(f"attribute {name}", allowed, given, at=at)
