"""The attribute shedder's part of a stream definition."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from planning.attributes.codec import LONGEST_WINDOW, MOST_POINTS
from planning.errors import Mistake
from planning.sections import Attribute, FamilyParameters, Section

if TYPE_CHECKING:
    from planning.families import Definition

MOST_AGES = 6  # below the refresh: each has its own dead bands in the menu
Positive = Annotated[int, Field(ge=1, le=100_000)]


class Limit(Section):
    """What an attribute's value at the receiver may be at worst, for every entity.

    Examples
    --------
    >>> Limit(max_age=4, max_error=0.5).asked()
    {'max_age': 4.0, 'max_error': 0.5}
    """

    max_age: Positive | None = Field(
        None,
        description="It is sent again after so many reports of its entity, wherever the load "
        "allows.",
    )
    max_error: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="A change beyond this, in the attribute's unit, is sent, wherever the load "
        "allows. Needs method on_change.",
    )
    priority: int = Field(0, description="Which guarantee is met first: the higher.")

    def asked(self) -> dict[str, float]:
        """Return the limits that are set, by field."""
        limits = {"max_age": self.max_age, "max_error": self.max_error}
        return {name: float(value) for name, value in limits.items() if value is not None}


class Limits(Limit):
    """The guarantees of an attribute; streams that are named have their own in their place."""

    streams: dict[str, Limit] = Field(
        default_factory=dict, description="By stream, where several share a channel."
    )


class Parameters(FamilyParameters):
    """How attribute shedding is planned for a stream."""

    uses_queries: ClassVar[bool] = False
    open_domains: ClassVar[bool] = True
    definition_defaults: ClassVar[dict[str, dict[str, Any]]] = {
        "samples": {"expectations": "reports"},
        "gate": {"holdout_from": "end"},
    }

    method: Literal["on_change", "periods", "selection", "paper"] = Field(
        default="on_change",
        description="What is planned per attribute: a dead band beyond which a change is sent, a "
        "sending period, sent or shed by information score, or the paper's ranking by standard "
        "deviation.",
    )
    capacity_ratio: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="C/R: the usual capacity of the channel as a fraction of the full rate. "
        "Summaries use it; the plan answers for every other ratio as well.",
    )
    cid: tuple[str, ...] = Field(
        default=(),
        description="Attributes that name the entity of a tuple. Empty: detected from the samples.",
    )
    detector: Literal["votes", "exact"] = Field(
        default="votes",
        description="How the CID is detected: robust successor votes, or the paper's exact period.",
    )
    must_keep: tuple[str, ...] = Field(
        default=(),
        description="Attributes that queries need in every tuple; never shed. The CID always is.",
    )
    order_by: tuple[str, ...] = Field(
        default=(),
        description="Attributes (or the time column) that put samples in stream order, such as a "
        "sequence number. Needed in the pipeline, where files and partitions mix; empty: the order "
        "of arrival.",
    )
    sizes: dict[str, Annotated[int, Field(ge=0, le=1_000_000)]] = Field(
        default_factory=dict,
        description="Bytes per value of an attribute on the wire. Size 0 costs nothing and is "
        "never shed. Absent: number_bytes, 1 or 2 for a category, the measured length for text.",
    )
    number_bytes: int = Field(default=8, ge=1, le=64, description="Bytes of a number by default.")
    weights: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default_factory=dict,
        description="How much an attribute's error counts; 1 if absent, 0: nobody looks at it.",
    )
    guarantees: dict[str, Limits] = Field(
        default_factory=dict,
        description="By attribute, the largest age or error of the value that the receiver has.",
    )
    refresh_reports: int = Field(
        default=24,
        ge=0,
        le=100_000,
        description="A shed attribute is sent again after this many reports of its entity, so that "
        "consumers are never blind for ever; 0: never. The paper's method never refreshes.",
    )
    periods: tuple[Positive, ...] = Field(
        default=(1, 2, 3, 4, 6, 8, 12, 24),
        description="Sending periods to choose from, in reports of an entity.",
    )
    window_tuples: int | None = Field(
        default=None,
        ge=1,
        le=LONGEST_WINDOW,
        description="The capacity holds in every window of this many consecutive tuples. Absent: "
        "one cycle, as in the paper, or 64 tuples if there is no cycle.",
    )
    ema_span: float = Field(
        default=3.0,
        ge=1,
        allow_inf_nan=False,
        description="Span of the exponential moving average that the paper's ranking smooths with. "
        "The paper names none; 3 reproduces its Table IV.",
    )
    stream_attribute: str | None = Field(
        default=None,
        description="The attribute that names the stream, when several share one channel.",
    )
    inter_stream: Literal["pooled", "proportional"] = Field(
        default="pooled",
        description="Several streams: one frontier over all of them, or, as in the paper, the same "
        "drop rate (R - C)/R for each.",
    )
    frontier_points: int = Field(
        default=256,
        ge=2,
        le=MOST_POINTS,
        description="How many points of the frontier are published.",
    )
    reevaluate_s: float | None = Field(
        default=None,
        gt=0,
        description="Original interval of adaptive re-evaluation: doubled while the set to shed "
        "stays the same, reset when it changes. Absent: every scheduled run plans.",
    )
    reevaluate_max_s: float = Field(
        default=86_400.0, gt=0, description="The interval of re-evaluation never grows beyond this."
    )

    @field_validator("periods")
    @classmethod
    def _sorted_from_one(cls, periods: tuple[int, ...]) -> tuple[int, ...]:
        if 1 not in periods:
            allowed = "periods that include 1 (sent always)"
            raise Mistake("parameters.periods", allowed, str(list(periods)))
        return tuple(sorted(set(periods)))

    def limit(self, attribute: str, stream: str) -> Limit | None:
        """Return what is guaranteed for an attribute of a stream."""
        limits = self.guarantees.get(attribute)
        found = limits.streams.get(stream, limits) if limits else None
        return found if found and found.asked() else None

    @property
    def young_ages(self) -> tuple[int, ...]:
        """The guaranteed ages that dead bands keep only with a shorter period than the refresh."""
        every = [each for one in self.guarantees.values() for each in (one, *one.streams.values())]
        ages = {limit.max_age for limit in every if limit.max_age and limit.max_age > 2}
        return tuple(sorted(age for age in ages if age <= (self.refresh_reports or math.inf)))

    def optional_attributes(self, names: Iterable[str]) -> frozenset[str]:
        """Return the attributes that may be null: a missing reading is information.

        What names and orders a tuple, or must be kept, has to be present.
        """
        needed = {*self.cid, *self.must_keep, *self.order_by, self.stream_attribute}
        return frozenset(names) - needed

    def parts(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the attributes: each is sent or not."""
        return tuple(names)

    @property
    def clock(self) -> str | None:
        """What puts samples in stream order, if it is named."""
        return self.order_by[0] if self.order_by else None

    def check_definition(self, definition: Definition[Parameters]) -> None:
        """Refuse names that are not attributes and a stream that is nothing but kept attributes."""
        known = set(definition.attribute_names)
        stream = (self.stream_attribute,) if self.stream_attribute else ()
        among = f"among the attributes {', '.join(sorted(known))}"
        orders = known | {definition.samples.time_column or ""}
        _check_names("order_by", self.order_by, orders, "among the attributes and the time column")
        _check_names("cid", self.cid, known, among)
        _check_names("must_keep", self.must_keep, known, among)
        _check_names("sizes", self.sizes, known, among)
        _check_names("weights", self.weights, known, among)
        _check_names("stream_attribute", stream, known, among)
        _check_names("guarantees", self.guarantees, known, among)
        kept = {*self.cid, *self.must_keep, *stream}
        kept |= {name for name, size in self.sizes.items() if size == 0}
        attributes = {attribute.name: attribute for attribute in definition.attributes}
        names_stream = attributes.get(self.stream_attribute or "")
        for name, limits in self.guarantees.items():
            self._check_limits(attributes[name], limits, names_stream, kept)
        if len(self.young_ages) > MOST_AGES:
            raise Mistake(
                "parameters.guarantees",
                f"at most {MOST_AGES} different max_age below refresh_reports",
                ", ".join(map(str, self.young_ages)),
                at=("parameters", "guarantees"),
            )
        self._check_room(definition, attributes)
        if not any(self.sizes.get(name, 1) > 0 for name in known - kept):
            raise Mistake(
                "attributes",
                "at least one attribute that may be shed (not in cid or must_keep, size above 0)",
                "none",
                verb="hold",
                at=("attributes",),
            )

    def _check_limits(
        self, attribute: Attribute, limits: Limits, streams: Attribute | None, kept: set[str]
    ) -> None:
        """Refuse a guarantee that no plan could give, or that says nothing."""
        field = f"guarantees.{attribute.name}"
        every = (limits, *limits.streams.values())
        asked = {name for limit in every for name in limit.asked()}
        unlisted = set(limits.streams) - set(streams.values if streams else ())
        wrong = ""
        if attribute.name in kept:
            wrong, got = "for an attribute that may be shed", "one that every sent tuple has"
        elif not asked:
            wrong, got = "set with max_age or max_error", "neither"
        elif self.method == "paper":
            wrong, got = "with a method that plans", "method paper"
        elif "max_error" in asked and self.method != "on_change":
            wrong, got = "of max_age unless the method is on_change", f"method {self.method}"
        elif "max_error" in asked and attribute.type in ("category", "text"):
            wrong, got = "of max_age unless the attribute is a number", f"a {attribute.type}"
        elif limits.streams and (streams is None or (streams.values and unlisted)):
            wrong = "for streams that stream_attribute names"
            got = ", ".join(sorted(unlisted))
        if wrong:
            at = ("parameters", "guarantees", attribute.name)
            raise Mistake(f"parameters.{field}", wrong, got, at=at)

    def _check_room(
        self, definition: Definition[Parameters], attributes: dict[str, Attribute]
    ) -> None:
        """Refuse ages that need more bytes than any load has that the plan is tried at."""
        sizes = {
            name: self.sizes.get(name, self.number_bytes if a.type in ("float", "int") else 0)
            for name, a in attributes.items()
        }
        if self.stream_attribute or any(
            a.type in ("category", "text") and name not in self.sizes
            for name, a in attributes.items()
        ):
            return  # how many bytes a tuple has is measured
        ages = {name: limits.max_age for name, limits in self.guarantees.items()}
        needed = sum(sizes[name] / age for name, age in ages.items() if age)
        share = needed / max(1, sum(sizes.values()))
        largest = max(*definition.gate.loads, self.capacity_ratio)
        if share > largest:
            raise Mistake(
                "parameters.guarantees",
                f"ages that fit into the largest load that the plan is tried at, {largest:g}",
                f"ages that take {share:.3g} of the bytes",
                "allow a greater max_age",
                at=("parameters", "guarantees"),
            )


def _check_names(field: str, names: Iterable[str], known: set[str], allowed: str) -> None:
    unknown = sorted(set(names) - known)
    if unknown:
        at = ("parameters", field)
        raise Mistake(".".join(at), allowed, ", ".join(unknown), at=at)
