"""The parts that a stream definition is made of, each with its defaults and what they mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from planning.errors import Mistake

if TYPE_CHECKING:
    from planning.families import Definition

Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
TERMS = frozenset({"min_completeness", "max_delta", "priority", "qos", "tenant"})
"""What a query may ask for beyond its weight; which of it is planned for, the family says."""


class Section(BaseModel):
    """Base of every part of a definition: immutable, and an unknown field is an error.

    Examples
    --------
    >>> Gate(lodas=[0.5])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for Gate
    lodas
      Extra inputs are not permitted ...
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


class Attribute(Section):
    """One attribute of the stream's tuples, with its domain.

    Examples
    --------
    >>> Attribute(name="price", domain=(0, 100), unit="EUR").bounds
    (0.0, 100.0)
    >>> Attribute(name="side", type="category", values=("buy", "sell")).bounds
    (0.0, 2.0)

    A category without values, and text, may hold anything, where the family allows it:

    >>> Attribute(name="host", type="category").open, Attribute(name="note", type="text").open
    (True, True)
    """

    name: str = Field(min_length=1)
    type: Literal["float", "int", "category", "text"] = "float"
    domain: tuple[float, float] | None = None
    values: tuple[str, ...] = ()
    unit: str = ""
    description: str = ""

    @model_validator(mode="after")
    def _domain_fits_type(self) -> Self:
        if self.type == "category":
            if len(self.values) == 1 or len(set(self.values)) != len(self.values):
                allowed = "at least two distinct values of a category, or none if any may come"
                raise Mistake("values", allowed, str(list(self.values)), at=("values",))
            return self
        if self.type == "text":
            return self
        if self.domain is None:
            raise Mistake("domain", "[low, high]", "nothing", at=("domain",))
        low, high = self.domain
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            given = f"[{low:g}, {high:g}]"
            raise Mistake("domain", "finite, with low < high", given, at=("domain",))
        return self

    @property
    def open(self) -> bool:
        """Whether the values are text that nobody has listed."""
        return self.type in ("category", "text") and not self.values

    @property
    def bounds(self) -> tuple[float, float]:
        """Return [low, high]; a category counts as its codes 0 … k − 1, each one unit wide."""
        return self.domain if self.domain is not None else (0.0, float(len(self.values)))


class Samples(Section):
    """Where monitoring samples come from, and what makes a batch usable.

    Examples
    --------
    >>> samples = Samples(landing="s3://market/ticks", format="jsonl", min_rows=5000)
    >>> samples.format, samples.min_rows, samples.max_quarantined
    ('jsonl', 5000, 0.1)
    """

    landing: str = Field("", description="Folder or URL; empty: landing/<stream> in the home.")
    format: Literal["parquet", "jsonl"] = Field("parquet", description="Format of the files.")
    time_column: str | None = Field(None, description="A further column with a row's time.")
    settle_s: float = Field(
        5.0, ge=0, description="JSON lines are read this many seconds after the last write."
    )
    expectations: str = Field("tuples", description="Suite that judges the rows on Spark.")
    min_rows: int = Field(100, ge=1, description="Fewer clean rows reject the batch.")
    max_quarantined: Fraction = Field(0.1, description="A larger share of bad rows rejects it.")
    max_age_s: float | None = Field(None, gt=0, description="An older newest row rejects it.")


class Query(Section):
    """One continual query: ranges per attribute (absent: everything) or a SQL WHERE text.

    Examples
    --------
    >>> cheap = Query(name="cheap", ranges={"price": (0, 30)}, weight=2)
    >>> large = Query(name="large", where="volume >= 600 AND price < 50")
    >>> Queries(inline=(cheap, large)).inline[0].ranges
    {'price': (0.0, 30.0)}
    """

    name: str = ""
    ranges: dict[str, tuple[float, float]] = Field(default_factory=dict)
    where: str | None = None
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    qos_slope: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    qos: tuple[tuple[Fraction, Fraction], ...] = Field(
        (),
        description="QoS by completeness, as the corners of a concave line from 0 to [1, 1], in "
        "place of qos_slope: [[0, 0], [0.5, 0.9], [1, 1]] values the first half most.",
    )
    min_completeness: Fraction = Field(
        0.0, description="Share of the query's tuples that passes wherever it can be met."
    )
    max_delta: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Largest throttler where the query looks."
    )
    priority: int = Field(0, description="Which guarantee is met first: the higher.")
    tenant: str = Field("", description="The group of queries that this one belongs to.")

    @field_validator("qos")
    @classmethod
    def _concave(cls, corners: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        at = [x for x, _ in corners]
        steps = list(zip(corners, corners[1:], strict=False))
        rises = [(v - u) / (y - x) for (x, u), (y, v) in steps if y > x]
        falling = all(a >= b - 1e-12 for a, b in zip(rises, rises[1:], strict=False))
        whole = len(corners) > 1 and at[0] == 0.0 and tuple(corners[-1]) == (1.0, 1.0)
        if corners and not (whole and len(rises) == len(steps) and falling and min(rises) >= 0.0):
            allowed = "corners from completeness 0 to [1, 1] whose rises never grow"
            raise Mistake("qos", allowed, str([list(corner) for corner in corners]))
        return corners

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.qos and self.qos_slope != 1.0:
            raise Mistake("query", "either qos or qos_slope", "both", verb="have")
        if self.where is not None and self.ranges:
            raise Mistake("query", "either ranges or where", "both", verb="have")
        for name, (low, high) in self.ranges.items():
            if not low <= high:
                at = ("ranges", name)
                raise Mistake(name, "a range with low <= high", f"[{low:g}, {high:g}]", at=at)
        return self


def refuse_unplanned(
    label: str, asked: Mapping[str, Any], definition: Definition[Any], at: tuple[str | int, ...]
) -> None:
    """Refuse what a query asks for if the stream's family does not plan for it.

    >>> from planning.examples import demo_definition
    >>> refuse_unplanned("query far: ", {"max_delta": 9}, demo_definition("sifter"), ())
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: query far: max_delta must be absent: family sifter does not plan for \
it, got 9
    """
    unplanned = sorted(TERMS & set(asked) - definition.parameters.query_terms)
    if unplanned:
        term, allowed = unplanned[0], f"absent: family {definition.family} does not plan for it"
        place = at if label else (*at, term)
        raise Mistake(f"{label}{term}", allowed, str(asked[term]), at=place)


class Tenant(Section):
    """A group of queries: what it weighs, and how much of its data it may lose.

    Examples
    --------
    >>> Tenant(max_loss=0.3).priority
    0
    """

    weight: float | None = Field(
        None, gt=0, allow_inf_nan=False,
        description="What its queries weigh together; empty: the sum of their weights.",
    )  # fmt: skip
    max_loss: Fraction | None = Field(
        None, description="Largest mean loss of its queries' tuples wherever it can be met."
    )
    priority: int = Field(0, description="Which guarantee is met first: the higher.")


class Queries(Section):
    """The stream's queries: written here, or read from a file of JSON lines or Parquet.

    Examples
    --------
    >>> Queries(file="ticks.queries.jsonl").inline
    ()
    >>> [q.weight for q in Queries(inline=[{"ranges": {"price": [0, 30]}, "weight": 2}]).inline]
    [2.0]
    """

    file: str | None = Field(None, description="Beside the definition, below the home, or a URL.")
    inline: tuple[Query, ...] = Field((), description="Queries written in the definition.")
    tenants: dict[str, Tenant] = Field(
        default_factory=dict, description="Groups of queries, by the name that queries give."
    )
    tenant_gap: Fraction | None = Field(
        None, description="By how much the tenants' mean losses may differ, after all guarantees."
    )

    def check_tenants(self, named: Iterable[str]) -> None:
        """Refuse a tenant that none of the stream's queries names."""
        idle = sorted(set(self.tenants) - set(named))
        if idle:
            allowed, at = "the tenant of at least one query", ("queries", "tenants", idle[0])
            remedy = "name it as tenant of a query, or remove it"
            raise Mistake(f"tenants.{idle[0]}", allowed, "no query that names it", remedy, at=at)


class Gate(Section):
    """When a new plan may replace the published one.

    Examples
    --------
    >>> strict = Gate(loads=(0.2, 0.5, 0.8), holdout=0.3, tolerance=0.0)
    >>> strict.loads, Gate().loads
    ((0.2, 0.5, 0.8), (0.3, 0.5, 0.7))
    """

    loads: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        (0.3, 0.5, 0.7), description="Loads at which a new plan is tried."
    )
    holdout: float = Field(0.25, gt=0, lt=1, description="Share of the rows kept for the trial.")
    holdout_by: tuple[str, ...] = Field(
        (), description="Rows that agree in these columns are held out together; empty: any row."
    )
    holdout_from: Literal["anywhere", "end"] = Field(
        "anywhere",
        description="Which rows are held out: any, or the newest: by the column in holdout_by, by "
        "the family's clock, or else the last rows of every file.",
    )
    holdout_parts: int = Field(
        1,
        ge=1,
        le=1000,
        description="With holdout_from end: the stream is cut into so many parts, and of each the "
        "newest rows are held out; more parts, and both sides see the same times of day.",
    )
    tolerance: float = Field(
        0.02, ge=0, allow_inf_nan=False, description="How much worse a new plan may be."
    )
    certificate_s: float = Field(
        2.0, gt=0, allow_inf_nan=False,
        description="Seconds that an independent solver may take to check the plan's optimality.",
    )  # fmt: skip

    @field_validator("loads")
    @classmethod
    def _some_loads(cls, loads: tuple[float, ...]) -> tuple[float, ...]:
        if not loads:
            raise Mistake("loads", "at least one load in (0, 1]", "none")
        return loads


class Validity(Section):
    """How long a plan may be used, and what a consumer does once it has expired.

    Examples
    --------
    >>> Validity(valid_for_s=3600, fallback="pass")
    Validity(valid_for_s=3600.0, fallback='pass')
    """

    valid_for_s: float | None = Field(None, gt=0, description="Empty: until it is replaced.")
    fallback: Literal["keep", "pass", "uniform"] = Field(
        "uniform", description="Afterwards: keep the plan, pass everything, or drop evenly."
    )


class Retention(Section):
    """How much history is kept.

    Examples
    --------
    >>> Retention(versions=10)
    Retention(versions=10, runs=20)
    """

    versions: int = Field(50, ge=2, description="Published versions that are kept.")
    runs: int = Field(20, ge=1, description="Runs whose files are kept.")


class FamilyParameters(Section):
    """Base of every family's ``Parameters``, with what a family may say about a whole definition.

    Examples
    --------
    >>> from planning.sifter.parameters import Parameters
    >>> issubclass(Parameters, FamilyParameters), Parameters.uses_queries
    (True, True)
    """

    uses_queries: ClassVar[bool] = True
    """Whether the family plans for queries; if not, a definition may have none."""
    query_terms: ClassVar[frozenset[str]] = frozenset()
    """Which optional fields of a query, beyond its shape and weight, the family plans for."""
    open_domains: ClassVar[bool] = False
    """Whether attributes may be text, or categories whose values are not listed."""
    definition_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The defaults that the family prefers to the general ones, by section and field."""

    @property
    def clock(self) -> str | None:
        """The number that rises along the stream, if the family knows one."""
        return None

    @property
    def shortest_stretch(self) -> float:
        """How long held-out rows must last, by the clock, for a plan to be tried on them."""
        return 0.0

    def check_definition(self, definition: Definition[Any]) -> None:
        """Raise :class:`~planning.errors.Mistake` if the whole does not suit the family."""

    def check_terms(
        self, label: str, terms: Mapping[str, Any], at: tuple[str | int, ...]
    ) -> None:
        """Raise :class:`~planning.errors.Mistake` if what a query asks for can never be met."""

    def optional_attributes(self, names: Iterable[str]) -> frozenset[str]:
        """Return the attributes that may be null; most families need every value."""
        return frozenset()

    def parts(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the parts of an item that are shed, of a stream with these attributes.

        They are the columns of a shedder's mask; most families shed whole items.
        """
        return ()
